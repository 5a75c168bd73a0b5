/*
 * HTTP for the stages that call a server: one host, one connection at a time, over sockets that agent-dial
 * connects. The only file that includes curl/curl.h is http.c.
 *
 * How libcurl gets by without a network (DESIGN section 3): the open-socket callback hands it
 * one end of a socketpair, CURLOPT_ABSTRACT_UNIX_SOCKET keeps it from resolving names, and the
 * stage's system call filter answers its connect(2) with EINPROGRESS; the socket is writable,
 * so it goes on. Tried with 7.88 and 8.5. Without the filter a call ends as HTTP_CONNECT: there
 * is no way around agent-dial.
 *
 * No redirects, cookies, netrc, proxies, content codings or other protocols. TLS is verified
 * against the given bundle only, for the name of the host.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/base/strbuf.h"

struct error;
struct http;
struct secret;

#define HTTP_ERROR_BODY_MAX 65536 /* bytes kept of an answer that is no 2xx */
#define HTTP_HEADERS_MAX 262144	  /* bytes of all headers of one answer */

struct http_options {
	const char *host; /* name or address, IPv6 without brackets */
	int port;
	bool tls;	/* false only for a loopback host: refused otherwise */
	const char *ca; /* PEM bundle; borrowed for the life of the object */
	size_t ca_len;
	int net_fd;	       /* FD_NET; borrowed */
	long long idle_ms;     /* longest silence */
	size_t response_bytes; /* most of a body */
};

/* NULL with err: ERROR_USAGE for a host or plain HTTP that is not allowed. Strings are copied
 * but ca. */
struct http *http_new(const struct http_options *options, struct error *err);
void http_free(struct http *http); /* NULL is fine */
void http_free_ptr(struct http **http);
#define AUTO_HTTP __attribute__((cleanup(http_free_ptr)))

enum http_end {
	HTTP_DONE,     /* the answer is whole */
	HTTP_STOPPED,  /* the receiver wanted no more */
	HTTP_CONNECT,  /* no connection */
	HTTP_TLS,      /* no trusted one */
	HTTP_CUT,      /* it broke off */
	HTTP_SILENCE,  /* nothing for idle_ms */
	HTTP_DEADLINE, /* not done within deadline_ms */
	HTTP_TOO_BIG,  /* more than response_bytes, or than HTTP_HEADERS_MAX */
	HTTP_ALIEN,    /* what came is no HTTP */
	HTTP_LOCAL,    /* libcurl's own failure */
};

struct http_result {
	enum http_end end;
	int status;		  /* 0: none came */
	char content_type[64];	  /* lower case, without parameters */
	char location[512];	  /* of a redirect: its host, or "" */
	long retry_after_s;	  /* -1: none */
	long rate_left;		  /* X-RateLimit-Remaining, RateLimit-Remaining; -1: none */
	long long rate_reset;	  /* X-RateLimit-Reset, RateLimit-Reset; -1: none */
	bool more;		  /* a Link header names a next page */
	size_t bytes;		  /* of the body */
	struct strbuf error_body; /* the beginning of a body that is no 2xx */
	char why[512];		  /* the transport's words, for all but HTTP_DONE */
};

/* The headers of a 2xx are in: status and content type are set. Then its bytes, as they come. A
 * non-zero result ends the transfer as HTTP_STOPPED. */
typedef int http_begin_fn(void *arg, const struct http_result *result);
typedef int http_data_fn(void *arg, const char *bytes, size_t len);

struct http_request {
	const char *method; /* NULL: POST; or GET, PATCH */
	const char *path; /* absolute, plain: [A-Za-z0-9._~/-], and a query of those, % = & + */
	const char *const *headers; /* NULL-terminated */
	const char *key_header;	    /* "x-api-key: "; the key is put behind it */
	const struct secret *key;   /* or NULL */
	const char *body;	    /* not looked at with GET */
	size_t len;
	long long deadline_ms; /* from now */
	http_begin_fn *begin;
	http_data_fn *data;
	void *arg;
};

/* Sends the request, with a JSON body, and waits. result is filled always (http_result_release). */
void http_send(struct http *http, const struct http_request *request,
	       struct http_result *result);
void http_result_release(struct http_result *result);
#define AUTO_HTTP_RESULT __attribute__((cleanup(http_result_release)))

/* Whether the bytes may stand in a header's value: visible ASCII and blanks. */
bool http_is_header_value(const char *text, size_t len);

#endif
