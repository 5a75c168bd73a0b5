#include "leak.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "line_changes.h"
#include "pipeline/base/mem.h"

#define LINE_MAX_BYTES ((size_t)1 << 20) /* of one line that is looked at */
#define VALUE_MIN 16			 /* bytes of a random-looking value */
#define VALUE_MAX 512
#define ENTROPY_MIN                                                                            \
	3.2 /* bits a character: words and identifiers lie below, random text above */
#define KEY_ENTROPY_MIN 2.0 /* the first line of a key has long rows of zeros */

/* ---- tokens that are known by their form ---- */

enum alphabet { ALNUM, ALNUM_DASH, UPPER_DIGIT, HEX_LOWER, BASE64, TOKEN_DOTS };

static const struct {
	const char *prefix, *what;
	enum alphabet alphabet;
	size_t least, most; /* characters behind the prefix */
} forms[] = {
    {"AKIA", "an AWS access key id", UPPER_DIGIT, 16, 16},
    {"ASIA", "an AWS access key id", UPPER_DIGIT, 16, 16},
    {"ghp_", "a GitHub token", ALNUM, 36, 255},
    {"gho_", "a GitHub token", ALNUM, 36, 255},
    {"ghu_", "a GitHub token", ALNUM, 36, 255},
    {"ghs_", "a GitHub token", ALNUM, 36, 255},
    {"ghr_", "a GitHub token", ALNUM, 36, 255},
    {"github_pat_", "a GitHub token", ALNUM_DASH, 60, 255},
    {"glpat-", "a GitLab token", ALNUM_DASH, 20, 255},
    {"gldt-", "a GitLab token", ALNUM_DASH, 20, 255},
    {"glrt-", "a GitLab token", ALNUM_DASH, 20, 255},
    {"xoxb-", "a Slack token", ALNUM_DASH, 20, 255},
    {"xoxa-", "a Slack token", ALNUM_DASH, 20, 255},
    {"xoxp-", "a Slack token", ALNUM_DASH, 20, 255},
    {"xoxr-", "a Slack token", ALNUM_DASH, 20, 255},
    {"xoxs-", "a Slack token", ALNUM_DASH, 20, 255},
    {"xapp-", "a Slack token", ALNUM_DASH, 20, 255},
    {"sk_live_", "a Stripe key", ALNUM, 16, 255},
    {"rk_live_", "a Stripe key", ALNUM, 16, 255},
    {"whsec_", "a Stripe webhook secret", BASE64, 32, 255},
    {"AIza", "a Google API key", ALNUM_DASH, 35, 35},
    {"GOCSPX-", "a Google client secret", ALNUM_DASH, 28, 28},
    {"ya29.", "a Google access token", ALNUM_DASH, 20, 1024},
    {"sk-ant-", "an Anthropic key", ALNUM_DASH, 24, 255},
    {"sk-proj-", "an OpenAI key", ALNUM_DASH, 24, 255},
    {"sk-svcacct-", "an OpenAI key", ALNUM_DASH, 24, 255},
    {"sk-or-v1-", "an OpenRouter key", HEX_LOWER, 64, 64},
    {"sk-", "an API key", ALNUM, 40, 64},
    {"npm_", "an npm token", ALNUM, 36, 36},
    {"pypi-AgE", "a PyPI token", ALNUM_DASH, 50, 1024},
    {"hf_", "a Hugging Face token", ALNUM, 34, 64},
    {"dop_v1_", "a DigitalOcean token", HEX_LOWER, 64, 64},
    {"shpat_", "a Shopify token", HEX_LOWER, 32, 32},
    {"shpss_", "a Shopify token", HEX_LOWER, 32, 32},
    {"SG.", "a SendGrid key", TOKEN_DOTS, 60, 80},
    {"AGE-SECRET-KEY-1", "an age secret key", UPPER_DIGIT, 58, 58},
    {"hvs.", "a Vault token", ALNUM_DASH, 24, 255},
    {"lin_api_", "a Linear key", ALNUM, 40, 64},
    {"figd_", "a Figma token", ALNUM_DASH, 40, 64},
    {"dckr_pat_", "a Docker Hub token", ALNUM_DASH, 27, 40},
    {"tskey-", "a Tailscale key", ALNUM_DASH, 20, 255},
    {"eyJ", "a JSON web token", TOKEN_DOTS, 60, 2048},
};

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_of(enum alphabet alphabet, char c)
{
	switch (alphabet) {
	case ALNUM:
		return is_alnum(c);
	case ALNUM_DASH:
		return is_alnum(c) || c == '-' || c == '_';
	case UPPER_DIGIT:
		return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
	case HEX_LOWER:
		return (c >= 'a' && c <= 'f') || (c >= '0' && c <= '9');
	case BASE64:
		return is_alnum(c) || c == '+' || c == '/' || c == '=';
	case TOKEN_DOTS:
		return is_alnum(c) || c == '-' || c == '_' || c == '.';
	}
	return false;
}

/* Bits a character of the distribution of bytes (Shannon). */
static double entropy(const char *text, size_t len)
{
	size_t counts[256] = {0};
	double bits = 0;

	for (size_t i = 0; i < len; i++)
		counts[(unsigned char)text[i]]++;
	for (size_t i = 0; i < 256; i++) {
		double share = (double)counts[i] / (double)len;

		if (counts[i])
			bits -= share * log2(share);
	}
	return bits;
}

/* Two or more different characters a place, not "xxxx…" or "0000…": what documentation puts. */
static bool is_placeholder(const char *text, size_t len)
{
	static const char *const words[] = {
	    "example",	"changeme", "placeholder", "your",   "dummy",	 "xxxx", "0000000",
	    "12345678", "abcdefg",  "redacted",	   "not-a-", "notareal", "fake"};
	char low[VALUE_MAX + 1];

	if (len > VALUE_MAX)
		len = VALUE_MAX;
	for (size_t i = 0; i < len; i++)
		low[i] =
		    text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
	low[len] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strstr(low, words[i]))
			return true;
	return len && entropy(text, len) < 2.0;
}

static size_t dots(const char *text, size_t len)
{
	size_t count = 0;

	for (size_t i = 0; i < len; i++)
		count += text[i] == '.';
	return count;
}

/* The known token that begins at text[at], its length; 0 when there is none. */
static size_t form_at(const char *text, size_t len, size_t at, const char **what)
{
	if (at && (is_alnum(text[at - 1]) || text[at - 1] == '_'))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		size_t prefix = strlen(forms[i].prefix), body = 0;

		if (len - at < prefix || memcmp(text + at, forms[i].prefix, prefix) != 0)
			continue;
		while (at + prefix + body < len && body <= forms[i].most &&
		       is_of(forms[i].alphabet, text[at + prefix + body]))
			body++;
		if (body < forms[i].least || body > forms[i].most)
			continue;
		if (is_placeholder(text + at + prefix, body))
			continue;
		/* three parts, and the second is JSON in base64 too (RFC 7519 section 3) */
		if (!strcmp(forms[i].prefix, "eyJ") &&
		    (dots(text + at, prefix + body) != 2 ||
		     !memmem(text + at, prefix + body, ".eyJ", 4)))
			continue;
		*what = forms[i].what;
		return prefix + body;
	}
	return 0;
}

/* ---- private keys (RFC 7468) ---- */

#define KEY_LOOKED_AT 512 /* bytes behind a heading in which a key begins */
#define KEY_RUN 40	  /* characters of base64 in a row */

/* Whether the bytes behind a heading begin a key: a long run of base64 before any end. */
static bool has_material(const char *text, size_t len)
{
	const char *end;
	size_t run = 0;

	len = len < KEY_LOOKED_AT ? len : KEY_LOOKED_AT;
	end = memmem(text, len, "-----END", 8);
	if (end)
		len = (size_t)(end - text);
	for (size_t i = 0; i < len; i++) {
		run = is_of(BASE64, text[i]) ? run + 1 : 0;
		if (run == KEY_RUN && entropy(text + i + 1 - run, run) >= KEY_ENTROPY_MIN)
			return true;
	}
	return false;
}

/* A heading on a line of its own, or one within a line (a program's text) with a key behind it:
 * programs that read keys name the heading alone. left: bytes to the end of the file. */
static bool is_private_key(const char *text, size_t len, size_t left)
{
	const char *at = text, *end = text + len;

	while ((at = memmem(at, (size_t)(end - at), "-----BEGIN ", 11))) {
		size_t room = (size_t)(end - at) < 64 ? (size_t)(end - at) : 64;
		const char *key = memmem(at, room, "PRIVATE KEY", 11);
		const char *first = text, *behind;

		if (key) {
			behind = key + 11;
			while (first < at && strchr(" \t>#/*", *first) && *first)
				first++;
			while (behind < end && (*behind == '-' || *behind == ' '))
				behind++;
			if (first == at && (behind == end || *behind == 'B'))
				return true;
			if (has_material(behind, left - (size_t)(behind - text)))
				return true;
		}
		at += 11;
	}
	return false;
}

/* ---- a random-looking value behind a telling name ---- */

static bool is_name_char(char c)
{
	return is_alnum(c) || c == '_' || c == '-' || c == '.';
}

static bool has_word(const char *name, size_t len, const char *word)
{
	size_t size = strlen(word);

	for (size_t i = 0; i + size <= len; i++)
		if (strncasecmp(name + i, word, size) == 0)
			return true;
	return false;
}

static bool is_telling(const char *name, size_t len)
{
	static const char *const words[] = {
	    "secret",	  "password",	"passwd",      "api_key",     "apikey",
	    "api-key",	  "token",	"private_key", "access_key",  "auth_key",
	    "credential", "accountkey", "client_key",  "signing_key", "encryption_key"};
	static const char *const innocent[] = {"sha",	   "hash",   "digest",
					       "checksum", "public", "id",
					       "tokenize", "csrf",   "integrity"};

	for (size_t i = 0; i < ARRAY_LEN(innocent); i++)
		if (strcmp(innocent[i], "id") == 0
			? len >= 3 && strncasecmp(name + len - 3, "_id", 3) == 0
			: has_word(name, len, innocent[i]))
			return false;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (has_word(name, len, words[i]))
			return true;
	return false;
}

/* Letters and digits mixed as no person writes them; no path, no expression, no placeholder. */
static bool is_random(const char *value, size_t len)
{
	size_t digits = 0, upper = 0, lower = 0, other = 0;

	if (len < VALUE_MIN || len > VALUE_MAX || is_placeholder(value, len))
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = value[i];

		digits += c >= '0' && c <= '9';
		upper += c >= 'A' && c <= 'Z';
		lower += c >= 'a' && c <= 'z';
		other += !is_of(BASE64, c) && c != '-' && c != '_' && c != '!' && c != '#' &&
			 c != '%' && c != '&' && c != '*' && c != '@' && c != '^' && c != '~';
	}
	if (other || digits < 2 || upper + lower < 4)
		return false;
	return entropy(value, len) >= ENTROPY_MIN;
}

/* "crypto_sign_curve25519_BYTES": words between underscores, each of one case, digits behind. */
static bool is_identifier(const char *value, size_t len)
{
	bool upper = false, lower = false, digit = false, words = false;

	for (size_t i = 0; i < len; i++) {
		char c = value[i];
		bool is_lower = c >= 'a' && c <= 'z', is_upper = c >= 'A' && c <= 'Z';

		if (c == '_') {
			words = true;
			upper = lower = digit = false;
			continue;
		}
		if (!is_alnum(c) || ((is_lower || is_upper) && digit))
			return false;
		upper = upper || is_upper;
		lower = lower || is_lower;
		digit = digit || (!is_lower && !is_upper);
		if (upper && lower)
			return false;
	}
	return words;
}

/* NAME = "VALUE", NAME: VALUE, "NAME": "VALUE", NAME := …, name => …; the value's length. */
static size_t assignment_at(const char *text, size_t len, size_t at, size_t *value_at)
{
	size_t end = at, pos;

	while (end < len && is_name_char(text[end]))
		end++;
	if (end == at || !is_telling(text + at, end - at))
		return 0;
	pos = end;
	while (pos < len && (text[pos] == '"' || text[pos] == '\'' || text[pos] == ']' ||
			     text[pos] == ' ' || text[pos] == '\t'))
		pos++;
	if (pos >= len || (text[pos] != '=' && text[pos] != ':'))
		return 0;
	while (pos < len && (text[pos] == '=' || text[pos] == ':' || text[pos] == '>' ||
			     text[pos] == ' ' || text[pos] == '\t'))
		pos++;
	char quote = pos < len && strchr("\"'`", text[pos]) ? text[pos++] : '\0';
	*value_at = pos;
	while (pos < len && pos - *value_at <= VALUE_MAX &&
	       (quote ? text[pos] != quote : !strchr(" \t\"'`;,)}]<", text[pos]) && text[pos]))
		pos++;
	if (!quote && ((pos < len && text[pos] == '(') ||
		       is_identifier(text + *value_at, pos - *value_at)))
		return 0;
	return is_random(text + *value_at, pos - *value_at) ? pos - *value_at : 0;
}

/* ---- a line ---- */

static void show(struct leak *leak, const char *value, size_t len)
{
	char head[5] = "";

	for (size_t i = 0; i < 4 && i < len; i++)
		head[i] = value[i] > 0x20 && value[i] < 0x7f ? value[i] : '?';
	snprintf(leak->shown, sizeof(leak->shown), "%s... (%zu characters)", head, len);
}

/* One finding a line is enough to refuse it. end: of the file that the line is in. */
static bool look_at_line(const struct changed_line *line, const char *end, struct leak *leak)
{
	const char *text = line->text;
	size_t len = line->len < LINE_MAX_BYTES ? line->len : LINE_MAX_BYTES;

	leak->line = line->number;
	if (is_private_key(text, len, (size_t)(end - text))) {
		leak->what = "a private key";
		snprintf(leak->shown, sizeof(leak->shown), "-----BEGIN ...");
		return true;
	}
	/* what is known by its form is named so, wherever it stands */
	for (size_t at = 0; at < len; at++) {
		size_t found = form_at(text, len, at, &leak->what);

		if (found) {
			show(leak, text + at, found);
			return true;
		}
	}
	leak->what = "a password or key";
	for (size_t at = 0; at < len; at++) {
		size_t value_at = at, found = 0;

		if (is_name_char(text[at]) && (!at || !is_name_char(text[at - 1])))
			found = assignment_at(text, len, at, &value_at);
		if (found) {
			show(leak, text + value_at, found);
			return true;
		}
	}
	return false;
}

size_t leak_find(const char *old, size_t old_len, const char *now, size_t now_len,
		 struct leak *found, size_t max)
{
	struct line_changes changes;
	struct leak leak;
	size_t count = 0;

	line_changes_find(old, old_len, now, now_len, false, &changes);
	for (size_t i = 0; i < changes.added_count; i++)
		if (look_at_line(&changes.added[i], now + now_len, &leak) && count++ < max)
			found[count - 1] = leak;
	line_changes_release(&changes);
	return count;
}
