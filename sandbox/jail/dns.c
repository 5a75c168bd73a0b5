#include "dns.h"

#include <stdbool.h>
#include <string.h>

#define HEADER 12
#define LABEL_MAX 63
#define NAME_BYTES_MAX 255 /* length bytes and the root's included */

/* Third and fourth byte of a message. */
#define IS_RESPONSE 0x80
#define OPCODE 0x78
#define RECURSION_DESIRED 0x01
#define RECURSION_AVAILABLE 0x80
#define FORMAT_ERROR 1
#define NAME_ERROR 3
#define NOT_IMPLEMENTED 4

static bool is_plain(uint8_t byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-' ||
	       byte == '_';
}

/* Adds one byte of a label; false when there is no room. */
static bool add_byte(char *name, size_t *used, uint8_t byte)
{
	char escaped[4] = {'\\', (char)('0' + byte / 100), (char)('0' + byte / 10 % 10),
			   (char)('0' + byte % 10)};
	uint8_t lower = byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + 32) : byte;
	size_t size = is_plain(lower) ? 1 : sizeof(escaped);

	if (*used + size >= DNS_NAME_MAX)
		return false;
	if (size == 1)
		escaped[0] = (char)lower;
	memcpy(name + *used, escaped, size);
	*used += size;
	return true;
}

/* The question at data: its length with type and class, 0 when malformed. No pointer may stand there: there
 * is nothing before it to point to. */
static size_t read_question(const uint8_t *data, size_t len, struct dns_question *question)
{
	size_t at = 0, used = 0;
	bool room = true;

	while (at < len && data[at]) {
		size_t label = data[at++];

		if (label > LABEL_MAX || label >= len - at || at + label >= NAME_BYTES_MAX)
			return 0;
		if (used && room && used + 1 < DNS_NAME_MAX)
			question->name[used++] = '.';
		for (size_t i = 0; i < label && room; i++)
			room = add_byte(question->name, &used, data[at + i]);
		at += label;
	}
	question->name[used] = '\0';
	if (len - at < 5) /* root, type, class */
		return 0;
	question->type = (uint16_t)(data[at + 1] << 8 | data[at + 2]);
	return at + 5;
}

size_t dns_answer(const uint8_t *query, size_t len, uint8_t *answer,
		  struct dns_question *question)
{
	size_t asked = 0;

	memset(question, 0, sizeof(*question));
	if (len < HEADER || len > DNS_QUERY_MAX || query[2] & IS_RESPONSE)
		return 0;
	memset(answer, 0, HEADER);
	memcpy(answer, query, 2); /* its id */
	answer[2] = (uint8_t)(IS_RESPONSE | (query[2] & (OPCODE | RECURSION_DESIRED)));
	answer[3] = RECURSION_AVAILABLE;
	if (query[2] & OPCODE) {
		answer[3] |= NOT_IMPLEMENTED;
		return HEADER;
	}
	if (query[4] == 0 && query[5] == 1)
		asked = read_question(query + HEADER, len - HEADER, question);
	if (!asked) {
		memset(question, 0, sizeof(*question));
		answer[3] |= FORMAT_ERROR;
		return HEADER;
	}
	answer[3] |= NAME_ERROR;
	answer[5] = 1;
	memcpy(answer + HEADER, query + HEADER, asked);
	return HEADER + asked;
}
