/*
 * Which addresses our network processes may connect to (agent-dial, agent-egress). A name that
 * the operator allowed can still resolve to the inside of the operator's network (DNS
 * rebinding, a hostile zone): so the decision is made on the address, after resolution, in
 * every form in which an IPv4 address can be written into an IPv6 one. Pure functions.
 */
#ifndef PIPELINE_ADDR_H
#define PIPELINE_ADDR_H

#include <stdbool.h>
#include <stddef.h>

struct sockaddr;

enum addr_class {
	ADDR_PUBLIC,
	ADDR_LOOPBACK,	 /* 127/8, ::1 */
	ADDR_PRIVATE,	 /* RFC 1918, fc00::/7 (RFC 4193), fec0::/10 */
	ADDR_LINK_LOCAL, /* 169.254/16 (RFC 3927; metadata services of clouds too), fe80::/10 */
	ADDR_SHARED,	 /* 100.64/10: carrier-grade NAT (RFC 6598) */
	ADDR_MULTICAST,	 /* 224/4, ff00::/8, 255.255.255.255 */
	ADDR_UNSPECIFIED, /* 0/8, :: */
	ADDR_RESERVED, /* what the IANA special-purpose registries (RFC 6890) keep from public
			  use */
	ADDR_UNKNOWN,  /* not IPv4 or IPv6 */
};

/* IPv4-mapped, IPv4-compatible, 6to4 and NAT64 addresses have the class of the IPv4 address
 * inside. */
enum addr_class addr_classify(const struct sockaddr *addr);

const char *addr_class_text(enum addr_class class); /* "a private address" */

/* Public ones; with private_ok also loopback, private, link-local, shared and reserved ones.
 * Never multicast, unspecified, unknown. */
bool addr_permitted(const struct sockaddr *addr, bool private_ok);

/* Numeric text without a port; dst should hold 64 bytes. */
void addr_format(char *dst, size_t size, const struct sockaddr *addr);

/* Whether text can be a host name or a numeric address: 1 to 253 of letters, digits, '.', '-',
 * '_', ':'. */
bool addr_host_is_sane(const char *host);

#endif
