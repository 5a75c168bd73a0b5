#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

size_t text_utf8_next(const char *data, size_t len, unsigned *code)
{
	const unsigned char *p = (const unsigned char *)data;
	size_t need;
	unsigned c, least;

	if (!len)
		return 0;
	if (p[0] < 0x80) {
		*code = p[0];
		return 1;
	}
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		need = 2, c = p[0] & 0x1fU, least = 0x80;
	else if ((p[0] & 0xf0) == 0xe0)
		need = 3, c = p[0] & 0x0fU, least = 0x800;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		need = 4, c = p[0] & 0x07U, least = 0x10000;
	else
		return 0;
	if (len < need)
		return 0;
	for (size_t i = 1; i < need; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3fU);
	}
	if (c < least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*code = c;
	return need;
}

bool text_is_utf8(const char *data, size_t len)
{
	unsigned code;

	while (len) {
		size_t n = text_utf8_next(data, len, &code);

		if (!n)
			return false;
		data += n;
		len -= n;
	}
	return true;
}

bool text_is_unsafe(unsigned c)
{
	static const struct {
		unsigned from, to;
	} unsafe[] = {
	    {0x00, 0x08},	{0x0b, 0x1f},	  {0x7f, 0x9f},	    {0xad, 0xad},
	    {0x061c, 0x061c},	{0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f},
	    {0x200b, 0x200f},	{0x2028, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164},
	    {0xfe00, 0xfe0f},	{0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb},
	    {0xe0000, 0xe0fff},
	};

	for (size_t i = 0; i < ARRAY_LEN(unsafe); i++)
		if (c >= unsafe[i].from && c <= unsafe[i].to)
			return true;
	return false;
}

const char *text_person_fault(const char *text)
{
	size_t len = strlen(text), width;

	if (!len || len > 256)
		return "is empty or longer than 256 bytes";
	for (size_t pos = 0; pos < len; pos += width) {
		unsigned code;

		width = text_utf8_next(text + pos, len - pos, &code);
		if (!width || text_is_unsafe(code) || code == '\n' || code == '\t' ||
		    code == '<' || code == '>')
			return "has a character that is not allowed";
	}
	return text[0] == ' ' || text[len - 1] == ' ' ? "begins or ends with a blank" : NULL;
}

/* One character at data as it is shown; returns the bytes consumed. */
static size_t show_one(char out[16], const char *data, size_t len, bool keep_lines)
{
	unsigned code;
	size_t n = text_utf8_next(data, len, &code);

	if (!n) {
		snprintf(out, 16, "\\x%02x", (unsigned)(unsigned char)data[0]);
		return 1;
	}
	if ((code == '\n' || code == '\t') && !keep_lines)
		snprintf(out, 16, code == '\n' ? "\\n" : "\\t");
	else if (code < 0x80 && text_is_unsafe(code))
		snprintf(out, 16, "\\x%02x", code);
	else if (text_is_unsafe(code))
		snprintf(out, 16, "\\u{%x}", code);
	else {
		memcpy(out, data, n);
		out[n] = '\0';
	}
	return n;
}

void text_escape(char *dst, size_t size, const char *data, size_t len)
{
	static const char cut[] = "…";
	size_t used = 0;

	if (!size)
		return;
	while (len) {
		char one[16];
		size_t n = show_one(one, data, len, false), width = strlen(one);

		if (used + width + (len > n ? sizeof(cut) : 1) > size) {
			if (used + sizeof(cut) <= size) {
				memcpy(dst + used, cut, sizeof(cut) - 1);
				used += sizeof(cut) - 1;
			}
			break;
		}
		memcpy(dst + used, one, width);
		used += width;
		data += n;
		len -= n;
	}
	dst[used] = '\0';
}

void text_escape_lines(struct strbuf *dst, const char *data, size_t len)
{
	while (len) {
		char one[16];
		size_t n = show_one(one, data, len, true);

		if (strbuf_adds(dst, one) < 0)
			return;
		data += n;
		len -= n;
	}
}

void text_to_utf8(struct strbuf *dst, const char *data, size_t len)
{
	while (len) {
		unsigned code = 0;
		size_t n = text_utf8_next(data, len, &code);

		if (n && code)
			strbuf_add(dst, data, n);
		else
			strbuf_adds(dst, "\xef\xbf\xbd");
		n = n ? n : 1;
		data += n;
		len -= n;
	}
}

void text_slug(char dst[64], const char *title)
{
	size_t used = 0;

	for (; *title && used < 48; title++) {
		unsigned char c = (unsigned char)*title;

		if (c < 0x80 && isalnum(c))
			dst[used++] = (char)tolower(c);
		else if (used && dst[used - 1] != '-')
			dst[used++] = '-';
	}
	while (used && dst[used - 1] == '-')
		used--;
	dst[used] = '\0';
	if (!used)
		memcpy(dst, "change", sizeof("change"));
}

void text_hex(char *dst, const unsigned char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		snprintf(dst + 2 * i, 3, "%02x", data[i]);
	dst[2 * len] = '\0';
}

bool text_is_hex(const char *text, size_t len)
{
	if (strlen(text) != len)
		return false;
	return strspn(text, "0123456789abcdef") == len;
}

static const char base64_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void text_base64(struct strbuf *dst, const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data;

	for (size_t i = 0; i < len; i += 3) {
		unsigned v = (unsigned)p[i] << 16;
		char out[4];

		if (i + 1 < len)
			v |= (unsigned)p[i + 1] << 8;
		if (i + 2 < len)
			v |= p[i + 2];
		out[0] = base64_alphabet[v >> 18];
		out[1] = base64_alphabet[v >> 12 & 63];
		out[2] = i + 1 < len ? base64_alphabet[v >> 6 & 63] : '=';
		out[3] = i + 2 < len ? base64_alphabet[v & 63] : '=';
		strbuf_add(dst, out, 4);
	}
}

int text_unbase64(struct strbuf *dst, const char *text, size_t len)
{
	if (len % 4)
		return -1;
	for (size_t i = 0; i < len; i += 4) {
		unsigned v = 0;
		int pad = 0;
		char out[3];

		for (size_t k = 0; k < 4; k++) {
			const char *at =
			    text[i + k] ? strchr(base64_alphabet, text[i + k]) : NULL;

			if (text[i + k] == '=' && k >= 2 && i + 4 == len)
				pad++;
			else if (!at || pad)
				return -1;
			v = v << 6 | (at && !pad ? (unsigned)(at - base64_alphabet) : 0);
		}
		if ((pad == 1 && (v & 0xff)) || (pad == 2 && (v & 0xffff)))
			return -1;
		out[0] = (char)(v >> 16);
		out[1] = (char)(v >> 8);
		out[2] = (char)v;
		strbuf_add(dst, out, (size_t)(3 - pad));
	}
	return 0;
}

int text_parse_size(const char *text, long long max, long long *value)
{
	char *end;
	long long v, unit = 1;

	if (!isdigit((unsigned char)text[0]))
		return -1;
	errno = 0;
	v = strtoll(text, &end, 10);
	if (errno)
		return -1;
	switch (tolower((unsigned char)*end)) {
	case 'k':
		unit = 1LL << 10;
		break;
	case 'm':
		unit = 1LL << 20;
		break;
	case 'g':
		unit = 1LL << 30;
		break;
	case '\0':
		break;
	default:
		return -1;
	}
	if ((*end && end[1]) || v > LLONG_MAX / unit || v * unit > max)
		return -1;
	*value = v * unit;
	return 0;
}

void text_free_words(char **words)
{
	for (size_t i = 0; words && words[i]; i++)
		free(words[i]);
	free(words);
}

char **text_split_words(const char *text)
{
	struct strbuf word AUTO_STRBUF = STRBUF_NONE;
	char **words = mem_calloc(1, sizeof(*words));
	size_t count = 0;
	bool in_word = false;
	char quote = '\0';

	strbuf_init(&word, STRBUF_MAX);
	for (;; text++) {
		if (quote) {
			if (!*text)
				break;
			if (*text == quote)
				quote = '\0';
			else if (quote == '"' && *text == '\\' &&
				 (text[1] == '"' || text[1] == '\\'))
				strbuf_addc(&word, *++text);
			else
				strbuf_addc(&word, *text);
		} else if (!*text || isspace((unsigned char)*text)) {
			if (in_word) {
				words = mem_realloc(words, count + 2, sizeof(*words));
				words[count++] = mem_strdup(word.data);
				words[count] = NULL;
				strbuf_reset(&word);
				in_word = false;
			}
			if (!*text)
				break;
		} else if (*text == '\'' || *text == '"') {
			quote = *text;
			in_word = true;
		} else {
			if (*text == '\\' && text[1])
				text++;
			strbuf_addc(&word, *text);
			in_word = true;
		}
	}
	if (quote || !count) {
		text_free_words(words);
		return NULL;
	}
	return words;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t text_distance(const char *a, const char *b)
{
	size_t rows[3][TEXT_WORD_MAX + 1], la = strlen(a), lb = strlen(b);
	size_t *before = rows[0], *last = rows[1], *now = rows[2];

	if (la > TEXT_WORD_MAX || lb > TEXT_WORD_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= lb; j++)
		before[j] = last[j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t *oldest = before;
		int x = tolower((unsigned char)a[i - 1]);

		now[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			int y = tolower((unsigned char)b[j - 1]);

			now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (x != y));
			if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
			    y == tolower((unsigned char)a[i - 2]))
				now[j] = least(now[j], before[j - 2] + 1);
		}
		before = last;
		last = now;
		now = oldest;
	}
	return last[lb];
}

bool text_is_slip(const char *typed, const char *meant)
{
	return text_distance(typed, meant) <= (strlen(meant) > 5 ? 2 : 1);
}

int text_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
