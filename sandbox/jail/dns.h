/*
 * A DNS server's least: reads one query and says that the name does not exist (RFC 1035 section 4). Pure
 * functions over hostile bytes; tests/fuzz/jail_dns.c feeds them.
 */
#ifndef JAIL_DNS_H
#define JAIL_DNS_H

#include <stddef.h>
#include <stdint.h>

#define DNS_QUERY_MAX 512 /* bytes of a query that is looked at: none without data is longer */
#define DNS_NAME_MAX 256  /* bytes of a name as text, with its NUL: longer ones are cut */
#define DNS_TYPE_AAAA 28

struct dns_question {
	char name
	    [DNS_NAME_MAX]; /* lower case, of printable ASCII; other bytes as \DDD; "" for the root */
	uint16_t type;
};

/*
 * Makes the answer to a query: name error, and for what is no query of one name: format error or not
 * implemented. Returns its length, 0 when none is due (not a query at all). answer holds DNS_QUERY_MAX
 * bytes. question->name is "" unless a name was asked for.
 */
size_t dns_answer(const uint8_t *query, size_t len, uint8_t *answer,
		  struct dns_question *question);

#endif
