/* What a value of each type may be (config.h). Pure. */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gitops/glob.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"

int config_parse_seconds(const char *text, long long *value)
{
	char number[32];
	size_t len = strlen(text);
	long long unit = 1;

	if (!len || len >= sizeof(number))
		return -1;
	switch (text[len - 1]) {
	case 's':
		len--;
		break;
	case 'm':
		unit = 60;
		len--;
		break;
	case 'h':
		unit = 3600;
		len--;
		break;
	default:
		break;
	}
	memcpy(number, text, len);
	number[len] = '\0';
	if (strspn(number, "0123456789") != len || text_parse_size(number, 1000000, value) < 0)
		return -1;
	*value *= unit;
	return 0;
}

long long config_parse_number(const struct config_key *key, const char *text)
{
	long long value = 0;

	if (key->type == CONFIG_SECONDS)
		config_parse_seconds(text, &value);
	else
		text_parse_size(text, LLONG_MAX / 2, &value);
	return value;
}

/* As it would be written: whole k, m and g as such. */
static void range_number(long long number, bool size, char text[CONFIG_RANGE_TEXT])
{
	static const char units[] = "kmg";
	size_t unit = 0;

	while (size && unit < 3 && number >= 1024 && number % 1024 == 0) {
		number /= 1024;
		unit++;
	}
	snprintf(text, CONFIG_RANGE_TEXT, "%lld%.*s", number, unit ? 1 : 0,
		 unit ? units + unit - 1 : "");
}

static long long most_of(const struct config_key *key)
{
	if (key->most)
		return key->most;
	return key->type == CONFIG_SECONDS ? CONFIG_SECONDS_MAX : LLONG_MAX;
}

void config_range_text(const struct config_key *key, char least[CONFIG_RANGE_TEXT],
		       char most[CONFIG_RANGE_TEXT])
{
	bool size = key->type == CONFIG_SIZE;

	most[0] = '\0';
	range_number(key->least ? key->least : 1, size, least);
	if (most_of(key) < LLONG_MAX)
		range_number(most_of(key), size, most);
}

int config_check_range(const struct config_key *key, const char *value, bool lowers,
		       const char *origin, struct error *err)
{
	char least[CONFIG_RANGE_TEXT], most[CONFIG_RANGE_TEXT];
	long long number;

	if (key->type != CONFIG_SIZE && key->type != CONFIG_SECONDS)
		return 0;
	number = config_parse_number(key, value);
	if (number >= key->least && (lowers || number <= most_of(key)))
		return 0;
	config_range_text(key, least, most);
	return error_set(err, ERROR_USAGE, "%s: %s = %s: must be from %s%s%s%s", origin,
			 key->name, value, least, most[0] ? " to " : " up", most,
			 key->type == CONFIG_SECONDS ? " seconds" : "");
}

static bool in_choices(const char *choices, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = choices; (p = strstr(p, word)); p += len)
		if (len && (p == choices || p[-1] == ' ') && (p[len] == ' ' || !p[len]))
			return true;
	return false;
}

/* user info in a URL: for ssh only a user name is none, for others any is one. (RFC 3986 section 3.2.1) */
static bool has_credential(const char *url)
{
	const char *scheme = strstr(url, "://"), *host = scheme ? scheme + 3 : NULL;
	size_t len = host ? strcspn(host, "/?#") : 0;
	const char *at = host ? memchr(host, '@', len) : NULL;

	if (!at)
		return false;
	return strncasecmp(url, "ssh://", 6) != 0 ||
	       memchr(host, ':', (size_t)(at - host)) != NULL;
}

static int check_glob(const struct config_key *key, const char *value, const char *origin,
		      struct error *err)
{
	struct glob *glob = glob_new(value, strlen(value), true, err);

	if (!glob)
		return error_wrap(err, "%s: %s = %s", origin, key->name, value);
	glob_free(glob);
	return 0;
}

static int check_rule(const struct config_key *key, const char *value, const char *origin,
		      struct error *err)
{
	static const char outcomes[] = "allow review strip refuse";
	size_t len = strcspn(value, " ");
	char *outcome AUTO_FREE = mem_strndup(value, len);

	if (!value[len] || !in_choices(outcomes, outcome)) {
		error_set(err, ERROR_USAGE, "%s: %s = %s: not an outcome and a path pattern",
			  origin, key->name, value);
		return error_next(err, "the outcomes are %s, as in: refuse .github/**",
				  outcomes);
	}
	return check_glob(key, value + len + strspn(value + len, " "), origin, err);
}

static int check_url(const struct config_key *key, const char *value, const char *origin,
		     struct error *err)
{
	bool in_proxy = strcmp(key->name, "http.proxy") == 0 && strchr(value, '@');

	if (!has_credential(value) && !in_proxy)
		return 0;
	/* It is not repeated, or kept in a run's request. */
	error_set(err, ERROR_USAGE, "%s: %s has a user or password in its URL", origin,
		  key->name);
	return error_next(err, "give the token with publish.token, model.key or "
			       "http.proxyCredential (env:NAME, "
			       "file:PATH, …), a user name with publish.user");
}

static int check_pair(const struct config_key *key, const char *value, const char *origin,
		      struct error *err)
{
	const char *equals = strchr(value, '=');

	if (equals && equals > value)
		return 0;
	error_set(err, ERROR_USAGE, "%s: %s = %s: not of the form NAME=VALUE", origin,
		  key->name, value);
	return error_next(err, "as in: env = MAKEFLAGS=-j2");
}

static int check_person(const struct config_key *key, const char *value, const char *origin,
			struct error *err)
{
	const char *fault = text_person_fault(value);

	if (!fault)
		return 0;
	error_set(err, ERROR_USAGE, "%s: %s = %s: it %s", origin, key->name, value, fault);
	return error_next(err, "a commit wants one line of it, without < and >");
}

int config_check_value(const struct config_key *key, const char *value, const char *origin,
		       struct error *err)
{
	long long number;
	char **words;

	switch (key->type) {
	case CONFIG_SIZE:
		if (text_parse_size(value, LLONG_MAX / 2, &number) < 0 || number < 1)
			return error_set(
			    err, ERROR_USAGE,
			    "%s: %s = %s: not a whole number from 1 (k, m, g may follow)",
			    origin, key->name, value);
		break;
	case CONFIG_SECONDS:
		if (config_parse_seconds(value, &number) < 0 || number < 1)
			return error_set(
			    err, ERROR_USAGE,
			    "%s: %s = %s: not a time in seconds (s, m, h may follow)", origin,
			    key->name, value);
		break;
	case CONFIG_WORDS:
		words = text_split_words(value);
		if (!words)
			return error_set(err, ERROR_USAGE,
					 "%s: %s: empty, or a quote is not closed", origin,
					 key->name);
		text_free_words(words);
		break;
	case CONFIG_CHOICE:
		if (!in_choices(key->choices, value))
			return error_set(err, ERROR_USAGE, "%s: %s = %s: must be one of: %s",
					 origin, key->name, value, key->choices);
		break;
	case CONFIG_SECRET:
		if (strncmp(value, "env:", 4) != 0 && strncmp(value, "file:", 5) != 0 &&
		    strncmp(value, "credential:", 11) != 0 &&
		    strncmp(value, "command:", 8) != 0) {
			/* The value itself may be a pasted secret: it is not repeated. */
			error_set(err, ERROR_USAGE, "%s: %s is not a source of a secret",
				  origin, key->name);
			return error_next(err, "write env:NAME, file:PATH, credential:NAME or "
					       "command:ARGV; never the secret itself");
		}
		break;
	case CONFIG_URL:
		return check_url(key, value, origin, err);
	case CONFIG_RULES:
		return check_rule(key, value, origin, err);
	case CONFIG_GLOBS:
		return check_glob(key, value, origin, err);
	case CONFIG_PAIRS:
		return check_pair(key, value, origin, err);
	case CONFIG_PERSON:
		return check_person(key, value, origin, err);
	case CONFIG_STRING:
	case CONFIG_LIST:
		break;
	}
	return 0;
}
