#include "policy.h"

#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"

/* ---- the job ---- */

static int parse_place(const struct json *object, const char *const *keys, struct authority *at,
		       struct error *err)
{
	const char *host, *why;
	long long port;

	if (js_check_keys(object, keys, err) || js_need_str(object, "host", &host, err) ||
	    js_need_int(object, "port", 1, 65535, &port, err))
		return err->kind;
	if (strchr(host, ':')) {
		AUTO_FREE char *text = mem_printf("[%s]:1", host);

		if (authority_parse(text, strlen(text), at, &why) < 0)
			return error_set(err, ERROR_USAGE, "host \"%s\": %s", host, why);
	} else if (authority_parse_host(host, strlen(host), at, &why) < 0) {
		return error_set(err, ERROR_USAGE, "host \"%s\": %s", host, why);
	}
	at->port = (unsigned)port;
	return 0;
}

static int parse_rules(const struct json *list, struct policy *policy, struct error *err)
{
	static const char *const keys[] = {"host",	 "port",   "site_ok",
					   "private_ok", "direct", NULL};
	size_t count = js_len(list);

	if (!js_is_array(list))
		return error_set(err, ERROR_USAGE, "the job has no \"allow\" list");
	if (count > POLICY_RULES_MAX)
		return error_set(err, ERROR_USAGE, "more than %d hosts are allowed",
				 POLICY_RULES_MAX);
	policy->rules = mem_calloc(count + 1, sizeof(*policy->rules));
	for (size_t i = 0; i < count; i++) {
		const struct json *item = js_at(list, i);
		struct policy_rule *rule = &policy->rules[policy->count];

		if (parse_place(item, keys, &rule->at, err))
			return error_wrap(err, "allow");
		rule->site_ok = js_bool(item, "site_ok", false);
		rule->private_ok = js_bool(item, "private_ok", false);
		rule->direct = js_bool(item, "direct", false);
		policy->count++;
	}
	return 0;
}

static int parse_limits(const struct json *limits, struct policy *policy, struct error *err)
{
	static const char *const keys[] = {"wall_ms",  "head_ms",    "connect_ms", "idle_ms",
					   "up_bytes", "down_bytes", "requests",   NULL};

	if (limits && js_check_keys(limits, keys, err))
		return error_wrap(err, "limits");
	policy->wall_ms = js_int(limits, "wall_ms", 3600000);
	policy->head_ms = js_int(limits, "head_ms", 15000);
	policy->connect_ms = js_int(limits, "connect_ms", 15000);
	policy->idle_ms = js_int(limits, "idle_ms", 120000);
	policy->up_bytes = (uint64_t)js_int(limits, "up_bytes", 64LL << 20);
	policy->down_bytes = (uint64_t)js_int(limits, "down_bytes", 8LL << 30);
	policy->requests = (unsigned)js_int(limits, "requests", 20000);
	if (policy->wall_ms <= 0 || policy->head_ms <= 0 || policy->connect_ms <= 0 ||
	    policy->idle_ms <= 0)
		return error_set(err, ERROR_USAGE, "limits: a time that is not above 0");
	return 0;
}

int policy_parse(const struct json *job, struct policy *policy, struct error *err)
{
	static const char *const keys[] = {"paths", "allow", "proxy", "limits", NULL};
	static const char *const proxy_keys[] = {"host", "port", NULL};
	const struct json *proxy = js_get(job, "proxy");
	struct policy parsed = {.count = 0};
	int kind;

	kind = js_check_keys(job, keys, err);
	if (!kind)
		kind = parse_rules(js_get(job, "allow"), &parsed, err);
	if (!kind)
		kind = parse_limits(js_get(job, "limits"), &parsed, err);
	if (!kind && proxy) {
		kind = parse_place(proxy, proxy_keys, &parsed.proxy, err);
		parsed.upstream = true;
	}
	if (kind)
		policy_release(&parsed);
	else
		*policy = parsed;
	return kind;
}

void policy_release(struct policy *policy)
{
	mem_free_ptr(&policy->rules);
	policy->rules = NULL;
	policy->count = 0;
}

const struct policy_rule *policy_find(const struct policy *policy, const struct authority *at,
				      const char **why)
{
	bool host_known = false;

	for (size_t i = 0; i < policy->count; i++) {
		const struct policy_rule *rule = &policy->rules[i];

		if (authority_equal(&rule->at, at))
			return rule;
		if (rule->at.v6 == at->v6 && strcmp(rule->at.host, at->host) == 0)
			host_known = true;
	}
	*why =
	    host_known ? "the host is on the list, but not with this port" : "not on the list";
	return NULL;
}

/* ---- requests ---- */

/* Length of the head with its empty line; 0 when it is not all there; -1 when a byte in it is
 * not allowed. Only whole lines count, so a forged line cannot hide behind a lone CR or LF. */
static int head_length(const char *data, size_t len, size_t *used)
{
	for (size_t i = 0; i < len; i++) {
		if (data[i] == 0)
			return -1;
		if (data[i] == '\n')
			return -1; /* a LF that no CR came before */
		if (data[i] != '\r')
			continue;
		if (i + 1 == len)
			return 0;
		if (data[i + 1] != '\n')
			return -1;
		if (len - i >= 4 && data[i + 2] == '\r' && data[i + 3] == '\n') {
			*used = i + 4;
			return 1;
		}
		i++;
	}
	return 0;
}

static enum request_result refuse(const char **why, const char *text)
{
	*why = text;
	return REQUEST_REFUSED;
}

/* What another method asked for, for the log. The head is not NUL-terminated: line is a copy.
 */
static enum request_result refuse_plain(const char *target, struct authority *at,
					const char **why)
{
	const char *ignored;
	bool tls;

	if (strncmp(target, "http://", 7) != 0 && strncmp(target, "https://", 8) != 0)
		return refuse(why, "this is a proxy, not a server: only CONNECT is taken");
	if (authority_of_url(target, at, &tls, &ignored) < 0)
		at->host[0] = 0;
	return refuse(why, "plain HTTP is not carried, use https");
}

static bool has_body(const char *data, size_t len)
{
	static const char *const names[] = {"\r\ncontent-length:", "\r\ntransfer-encoding:"};

	for (size_t n = 0; n < ARRAY_LEN(names); n++) {
		size_t size = strlen(names[n]);

		for (size_t i = 0; i + size <= len; i++)
			if (strncasecmp(data + i, names[n], size) == 0)
				return true;
	}
	return false;
}

enum request_result request_parse(const char *data, size_t len, struct authority *at,
				  size_t *used, const char **why)
{
	char line[REQUEST_MAX];
	char *space, *last;
	size_t head = 0, line_len;
	int whole = head_length(data, len > REQUEST_MAX ? REQUEST_MAX : len, &head);

	memset(at, 0, sizeof(*at));
	if (whole < 0)
		return refuse(why, "a request with a NUL, a lone CR or a lone LF");
	if (whole == 0)
		return len >= REQUEST_MAX ? refuse(why, "a request head that is too long")
					  : REQUEST_MORE;
	line_len = (size_t)((const char *)memchr(data, '\r', head) - data);
	memcpy(line, data, line_len);
	line[line_len] = 0;
	space = strchr(line, ' ');
	last = strrchr(line, ' ');
	if (!space || space == last || strchr(space + 1, ' ') != last ||
	    (strcmp(last, " HTTP/1.1") != 0 && strcmp(last, " HTTP/1.0") != 0))
		return refuse(why, "a malformed request line");
	*space = *last = 0;
	if (strcmp(line, "CONNECT") != 0)
		return refuse_plain(space + 1, at, why);
	if (has_body(data, head))
		return refuse(why, "a CONNECT with a body");
	if (authority_parse(space + 1, strlen(space + 1), at, why) < 0)
		return REQUEST_REFUSED;
	*used = head;
	return REQUEST_CONNECT;
}

int response_parse(const char *data, size_t len, size_t *used, int *status)
{
	int whole = head_length(data, len > REQUEST_MAX ? REQUEST_MAX : len, used);

	*status = 0;
	if (whole < 0 || (whole == 0 && len >= REQUEST_MAX))
		return -1;
	if (whole == 0)
		return 0;
	if (*used < 13 || strncmp(data, "HTTP/1.", 7) != 0 || data[8] != ' ')
		return -1;
	for (int i = 9; i < 12; i++) {
		if (data[i] < '0' || data[i] > '9')
			return -1;
		*status = *status * 10 + (data[i] - '0');
	}
	return *status >= 200 && *status <= 299 ? 1 : -1;
}
