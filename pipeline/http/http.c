#include "http.h"

#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/dial.h"
#include "pipeline/secret.h"
#include "pipeline/url.h"

/* Where curl thinks that it connects to. The filter answers connect(2); no such socket is ever
 * looked for. */
#define SOCKET_NAME "agent-dial"

struct http {
	CURL *curl; /* owned */
	struct http_options options;
	char *host;		 /* owned */
	char *base_url;		 /* owned: scheme, host and port */
	struct error dial_error; /* why agent-dial gave no connection */
};

/* One transfer. */
struct transfer {
	struct http *http;
	const struct http_request *request;
	struct http_result *result;
	size_t header_bytes;
	bool begun;		/* the receiver has been told of the headers */
	long long heard_ms;	/* when the last byte came, or the last one went */
	curl_off_t moved;	/* bytes both ways at that time */
	enum http_end ended_as; /* why a callback ended it; HTTP_DONE: none did */
};

/* ---- checks ---- */

static bool is_plain(const char *text, const char *others)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c >= 0x80 || (!isalnum(c) && !strchr(others, c)))
			return false;
	}
	return true;
}

bool http_is_header_value(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] > 0x7e)
			return false;
	return true;
}

static int check_options(const struct http_options *options, struct error *err)
{
	if (!options->host[0] || !is_plain(options->host, ".-_:") || options->port < 1 ||
	    options->port > 65535)
		return error_set(err, ERROR_USAGE, "\"%s\" port %d is no host to call",
				 options->host, options->port);
	if (!options->tls && !url_is_loopback(options->host)) {
		error_set(err, ERROR_USAGE,
			  "plain HTTP to %s is not allowed: the key and the code would "
			  "cross the network in the clear",
			  options->host);
		return error_next(err, "use https:// in [model] baseUrl");
	}
	return 0;
}

/* ---- callbacks of libcurl ---- */

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct http *http = arg;
	int fd;

	(void)purpose;
	(void)address;
	memset(&http->dial_error, 0, sizeof(http->dial_error));
	fd = dial_connect(http->options.net_fd, &http->dial_error);
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int end_as(struct transfer *transfer, enum http_end end)
{
	if (transfer->ended_as == HTTP_DONE)
		transfer->ended_as = end;
	return 1;
}

/* Host part of a Location: for the message only. */
static void keep_location(struct http_result *result, const char *value, size_t len)
{
	const char *host = memmem(value, len, "//", 2);
	const char *end = value + len;
	size_t host_len;

	if (!host)
		return;
	host += 2;
	host_len = strcspn(host, "/?#\r\n");
	if (host + host_len > end)
		host_len = (size_t)(end - host);
	text_escape(result->location, sizeof(result->location), host, host_len);
}

static void keep_type(struct http_result *result, const char *value, size_t len)
{
	size_t used = 0;

	while (used < len && used + 1 < sizeof(result->content_type) &&
	       (unsigned char)value[used] > ' ' && value[used] != ';' &&
	       (unsigned char)value[used] < 0x7f) {
		result->content_type[used] = (char)tolower((unsigned char)value[used]);
		used++;
	}
	result->content_type[used] = '\0';
}

static bool is_header(const char *name, size_t len, const char *wanted)
{
	return strlen(wanted) == len && strncasecmp(name, wanted, len) == 0;
}

static long long number_of(const char *value, size_t len)
{
	long long number = 0;
	size_t used = 0;

	while (used < len && used < 15 && isdigit((unsigned char)value[used]))
		number = number * 10 + (value[used++] - '0');
	return used ? number : -1;
}

/* What the forges say about how many calls are left (IETF draft-ietf-httpapi-ratelimit-headers and
 * its older X- forms) and about further pages (RFC 8288). */
static void keep_rate(struct http_result *result, const char *name, size_t name_len,
		      const char *value, size_t len)
{
	if (is_header(name, name_len, "x-ratelimit-remaining") ||
	    is_header(name, name_len, "ratelimit-remaining"))
		result->rate_left = (long)number_of(value, len);
	else if (is_header(name, name_len, "x-ratelimit-reset") ||
		 is_header(name, name_len, "ratelimit-reset"))
		result->rate_reset = number_of(value, len);
	else if (is_header(name, name_len, "link"))
		result->more = memmem(value, len, "rel=\"next\"", 10) != NULL;
}

/* One header line; a status line begins the headers anew (after a 100). */
static size_t take_header(char *line, size_t size, size_t count, void *arg)
{
	struct transfer *transfer = arg;
	struct http_result *result = transfer->result;
	size_t len = size * count;
	const char *colon = memchr(line, ':', len), *value;

	transfer->header_bytes += len;
	if (transfer->header_bytes > HTTP_HEADERS_MAX) {
		end_as(transfer, HTTP_TOO_BIG);
		return 0;
	}
	if (len > 5 && memcmp(line, "HTTP/", 5) == 0) {
		result->content_type[0] = result->location[0] = '\0';
		return len;
	}
	if (!colon)
		return len;
	value = colon + 1;
	while (value < line + len && (*value == ' ' || *value == '\t'))
		value++;
	if (colon - line == 12 && strncasecmp(line, "content-type", 12) == 0)
		keep_type(result, value, (size_t)(line + len - value));
	else if (colon - line == 8 && strncasecmp(line, "location", 8) == 0)
		keep_location(result, value, (size_t)(line + len - value));
	else
		keep_rate(result, line, (size_t)(colon - line), value,
			  (size_t)(line + len - value));
	return len;
}

static size_t take_body(char *bytes, size_t size, size_t count, void *arg)
{
	struct transfer *transfer = arg;
	struct http_result *result = transfer->result;
	size_t len = size * count;
	long status = 0;

	result->bytes += len;
	if (result->bytes > transfer->http->options.response_bytes) {
		end_as(transfer, HTTP_TOO_BIG);
		return 0;
	}
	curl_easy_getinfo(transfer->http->curl, CURLINFO_RESPONSE_CODE, &status);
	result->status = (int)status;
	if (status < 200 || status > 299) {
		/* enough to tell what is wrong; the rest of it is not waited for */
		if (strbuf_add(&result->error_body, bytes, len) == 0)
			return len;
		end_as(transfer, HTTP_DONE);
		return 0;
	}
	if (!transfer->begun) {
		transfer->begun = true;
		if (transfer->request->begin(transfer->request->arg, result) != 0)
			return end_as(transfer, HTTP_STOPPED), 0;
	}
	if (transfer->request->data(transfer->request->arg, bytes, len) != 0)
		return end_as(transfer, HTTP_STOPPED), 0;
	return len;
}

/* Called at least once a second. */
static int watch(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
		 curl_off_t up)
{
	struct transfer *transfer = arg;
	long long now = fd_now_ms();

	(void)down_total;
	(void)up_total;
	if (down + up != transfer->moved) {
		transfer->moved = down + up;
		transfer->heard_ms = now;
	}
	if (now - transfer->heard_ms >= transfer->http->options.idle_ms)
		return end_as(transfer, HTTP_SILENCE);
	return 0;
}

/* ---- the object ---- */

#define SET(curl, option, value)                                                               \
	do {                                                                                   \
		if (curl_easy_setopt(curl, option, value) != CURLE_OK)                         \
			return error_set(err, ERROR_FAILED, "libcurl %s does not take %s",     \
					 curl_version_info(CURLVERSION_NOW)->version,          \
					 #option);                                             \
	} while (0)

/* What holds for every transfer. An option that this libcurl does not know is an error: it is a
 * wall. */
static int set_walls(struct http *http, struct error *err)
{
	CURL *curl = http->curl;

	SET(curl, CURLOPT_NOSIGNAL, 1L);
	SET(curl, CURLOPT_PROTOCOLS_STR, http->options.tls ? "https" : "http");
	SET(curl, CURLOPT_FOLLOWLOCATION, 0L);
	SET(curl, CURLOPT_PROXY, "");
	SET(curl, CURLOPT_NOPROXY, "*");
	SET(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	SET(curl, CURLOPT_ABSTRACT_UNIX_SOCKET, SOCKET_NAME);
	SET(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(curl, CURLOPT_OPENSOCKETDATA, http);
	SET(curl, CURLOPT_HEADERFUNCTION, take_header);
	SET(curl, CURLOPT_WRITEFUNCTION, take_body);
	SET(curl, CURLOPT_NOPROGRESS, 0L);
	SET(curl, CURLOPT_XFERINFOFUNCTION, watch);
	SET(curl, CURLOPT_USERAGENT, "agent/" AGENT_VERSION);
	SET(curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)http->options.response_bytes);
	if (http->options.tls) {
		struct curl_blob bundle = {
		    .data = NULL, .len = http->options.ca_len, .flags = CURL_BLOB_COPY};

		memcpy(&bundle.data, &http->options.ca,
		       sizeof(bundle.data)); /* it is only copied */
		SET(curl, CURLOPT_CAINFO_BLOB, &bundle);
		SET(curl, CURLOPT_CAPATH, NULL);
		SET(curl, CURLOPT_SSL_VERIFYPEER, 1L);
		SET(curl, CURLOPT_SSL_VERIFYHOST, 2L);
		SET(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	}
	return 0;
}

struct http *http_new(const struct http_options *options, struct error *err)
{
	struct http *http AUTO_HTTP = NULL;
	bool bracket = strchr(options->host, ':') != NULL;

	if (check_options(options, err) < 0)
		return NULL;
	http = mem_calloc(1, sizeof(*http));
	http->options = *options;
	http->host = mem_strdup(options->host);
	http->base_url =
	    mem_printf("%s://%s%s%s:%d", options->tls ? "https" : "http", bracket ? "[" : "",
		       options->host, bracket ? "]" : "", options->port);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
	    !(http->curl = curl_easy_init())) {
		error_set(err, ERROR_FAILED, "libcurl cannot be set up");
		return NULL;
	}
	if (set_walls(http, err) < 0)
		return NULL;
	return MEM_STEAL(http);
}

void http_free(struct http *http)
{
	if (!http)
		return;
	curl_easy_cleanup(http->curl);
	free(http->host);
	free(http->base_url);
	free(http);
}

void http_free_ptr(struct http **http)
{
	http_free(*http);
}

/* ---- one call ---- */

static void list_free(struct curl_slist **list)
{
	for (struct curl_slist *item = *list; item; item = item->next)
		mem_wipe(item->data, strlen(item->data)); /* one of them holds the key */
	curl_slist_free_all(*list);
}

static int list_add(struct curl_slist **list, const char *header)
{
	struct curl_slist *longer = curl_slist_append(*list, header);

	if (!longer)
		return -1;
	*list = longer;
	return 0;
}

static int add_key(struct curl_slist **list, const struct http_request *request)
{
	size_t len, prefix = strlen(request->key_header);
	const char *key = secret_expose(request->key, &len);
	char *header = mem_calloc(prefix + len + 1, 1);
	int result;

	memcpy(header, request->key_header, prefix);
	memcpy(header + prefix, key, len);
	result = list_add(list, header);
	mem_wipe(header, prefix + len);
	free(header);
	return result;
}

static int make_headers(struct curl_slist **list, const struct http_request *request)
{
	static const char *const fixed[] = {"Content-Type: application/json",
					    "Accept: text/event-stream, application/json",
					    "Expect:"};

	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		if (list_add(list, fixed[i]) < 0)
			return -1;
	for (const char *const *header = request->headers; *header; header++)
		if (list_add(list, *header) < 0)
			return -1;
	return request->key ? add_key(list, request) : 0;
}

static enum http_end end_of(CURLcode code)
{
	switch ((int)code) {
	case CURLE_OK:
		return HTTP_DONE;
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
		return HTTP_CONNECT;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_CIPHER:
		return HTTP_TLS;
	case CURLE_OPERATION_TIMEDOUT:
		return HTTP_DEADLINE;
	case CURLE_FILESIZE_EXCEEDED:
		return HTTP_TOO_BIG;
	case CURLE_PARTIAL_FILE:
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_HTTP2:
	case CURLE_HTTP2_STREAM:
	case CURLE_SSL_SHUTDOWN_FAILED:
		return HTTP_CUT;
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL: /* "HTTP/0.9 not allowed" */
		return HTTP_ALIEN;
	default:
		return HTTP_LOCAL;
	}
}

static void conclude(struct transfer *transfer, CURLcode code, const char *words)
{
	struct http_result *result = transfer->result;
	struct http *http = transfer->http;
	curl_off_t wait = 0;
	long status = 0;

	curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(http->curl, CURLINFO_RETRY_AFTER, &wait);
	result->status = (int)status;
	result->retry_after_s = wait > 0 ? (long)wait : -1;
	result->end = transfer->ended_as != HTTP_DONE ? transfer->ended_as : end_of(code);
	/* an error whose body is longer than what we keep: we ended it, its beginning is enough
	 */
	if (result->error_body.full)
		result->end = HTTP_DONE;
	if (result->end == HTTP_CONNECT && http->dial_error.kind)
		text_escape(result->why, sizeof(result->why), http->dial_error.message,
			    strlen(http->dial_error.message));
	else if (result->end != HTTP_DONE)
		text_escape(result->why, sizeof(result->why), words, strlen(words));
}

static CURLcode perform(struct transfer *transfer, struct curl_slist *headers, const char *url,
			char *words)
{
	const struct http_request *request = transfer->request;
	CURL *curl = transfer->http->curl;
	CURLcode code = CURLE_OK;

#define TRY(option, value)                                                                     \
	do {                                                                                   \
		if (code == CURLE_OK)                                                          \
			code = curl_easy_setopt(curl, option, value);                          \
	} while (0)
	TRY(CURLOPT_URL, url);
	TRY(CURLOPT_HTTPHEADER, headers);
	if (request->method && strcmp(request->method, "GET") == 0) {
		TRY(CURLOPT_HTTPGET, 1L);
	} else {
		TRY(CURLOPT_POST, 1L);
		TRY(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->len);
		TRY(CURLOPT_POSTFIELDS, request->body);
	}
	/* NULL is a method of curl's own again */
	TRY(CURLOPT_CUSTOMREQUEST,
	    request->method && strcmp(request->method, "GET") != 0 ? request->method : NULL);
	TRY(CURLOPT_TIMEOUT_MS, (long)(request->deadline_ms > 0 ? request->deadline_ms : 1));
	TRY(CURLOPT_HEADERDATA, transfer);
	TRY(CURLOPT_WRITEDATA, transfer);
	TRY(CURLOPT_XFERINFODATA, transfer);
	TRY(CURLOPT_ERRORBUFFER, words);
	if (code == CURLE_OK)
		code = curl_easy_perform(curl);
	/* they belong to this call */
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, NULL);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, NULL);
	return code;
}

void http_send(struct http *http, const struct http_request *request,
	       struct http_result *result)
{
	struct transfer transfer = {
	    .http = http, .request = request, .result = result, .heard_ms = fd_now_ms()};
	struct curl_slist *headers __attribute__((cleanup(list_free))) = NULL;
	char *url AUTO_FREE = mem_printf("%s%s", http->base_url, request->path);
	char words[CURL_ERROR_SIZE] = "";
	CURLcode code;

	memset(result, 0, sizeof(*result));
	memset(&http->dial_error, 0, sizeof(http->dial_error));
	strbuf_init(&result->error_body, HTTP_ERROR_BODY_MAX);
	result->retry_after_s = result->rate_left = -1;
	result->rate_reset = -1;
	if (!is_plain(request->path, "._~/-?=&%+") || make_headers(&headers, request) < 0) {
		result->end = HTTP_LOCAL;
		snprintf(result->why, sizeof(result->why), "path or headers cannot be made");
		return;
	}
	code = perform(&transfer, headers, url, words);
	conclude(&transfer, code, words[0] ? words : curl_easy_strerror(code));
}

void http_result_release(struct http_result *result)
{
	strbuf_release(&result->error_body);
}
