#include "events.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/exitcode.h"
#include "pipeline/fds.h"

#define ANSWER_DEADLINE_MS                                                                     \
	60000 /* the supervisor answers from memory: longer means that it hangs */

static int send_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Cuts each text member to most bytes, on a character's border, with a mark. */
static void cut_members(struct json *object, size_t most)
{
	struct json *value, *old = js_copy(object);
	const char *key;
	void *iter = NULL;

	while ((key = js_next(old, &iter, &value))) {
		const char *text = js_text(value);
		char *cut AUTO_FREE = NULL;
		size_t len = most;

		if (!text || js_text_len(value) <= most)
			continue;
		while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
			len--;
		cut = mem_printf("%.*s…", (int)len, text);
		js_set_str(object, key, cut);
	}
	js_free(old);
}

/* One line of at most EVENT_LINE_MAX bytes: texts are cut, what is still too long is left out.
 */
static void format_line(struct json *object, struct strbuf *line)
{
	static const size_t cuts[] = {16384, 4096, 1024, 128};

	strbuf_reset(line);
	js_format(object, line);
	for (size_t i = 0; i < ARRAY_LEN(cuts) && line->len >= EVENT_LINE_MAX; i++) {
		cut_members(object, cuts[i]);
		strbuf_reset(line);
		js_format(object, line);
	}
	if (line->len >= EVENT_LINE_MAX) {
		struct json *rest AUTO_JSON = js_object_new();

		js_set_str(rest, "event", js_str(object, "event", "?"));
		js_set_bool(rest, "cut", true);
		strbuf_reset(line);
		js_format(rest, line);
	}
	strbuf_addc(line, '\n');
}

static int send_object(const char *event, struct json *taken)
{
	struct json *object AUTO_JSON = taken;
	struct strbuf line AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&line, STRBUF_MAX);
	js_set_str(object, "event", event);
	format_line(object, &line);
	return send_all(FD_CONTROL, line.data, line.len);
}

void event_progress(const char *format, ...)
{
	struct json *object = js_object_new();
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	js_set_str(object, "text", text);
	/* Nobody waits for it: a missing listener is no failure. */
	(void)send_object("progress", object);
}

void event_send(const char *event, struct json *taken)
{
	if (send_object(event, taken) == 0)
		return;
	/* The supervisor is gone or deaf: work that nobody can record must not go on. */
	dprintf(STDERR_FILENO, "event \"%s\" cannot be sent: %s\n", event, strerror(errno));
	_exit(EXIT_FAILED);
}

void event_error(const struct error *err)
{
	struct json *object = js_object_new();

	js_set_int(object, "kind", err->kind);
	js_set_str(object, "message", err->message);
	js_set_str(object, "next", err->next);
	(void)send_object("error", object); /* the exit status says it too */
}

/* Reads up to the line's end and no byte further: what follows belongs to the next answer. */
static int read_line(int fd, struct strbuf *line, struct error *err)
{
	long long deadline = fd_now_ms() + ANSWER_DEADLINE_MS;

	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		long long left = deadline - fd_now_ms();
		ssize_t n;
		char c;

		if (left <= 0)
			return error_set(err, ERROR_FAILED, "the supervisor does not answer");
		if (poll(&wait, 1, (int)left) < 0 && errno != EINTR)
			return error_errno(err, ERROR_FAILED, errno, "control socket");
		if (!wait.revents)
			continue;
		n = recv(fd, &c, 1, MSG_DONTWAIT);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return error_errno(err, ERROR_FAILED, errno, "control socket");
		if (n == 0)
			return error_set(err, ERROR_FAILED,
					 "the supervisor has closed the control socket");
		if (c == '\n')
			return 0;
		if (strbuf_addc(line, c) < 0)
			return error_set(err, ERROR_FAILED,
					 "the supervisor's answer is longer than %d bytes",
					 EVENT_LINE_MAX);
	}
}

struct json *event_answer(struct error *err)
{
	struct strbuf line AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&line, EVENT_LINE_MAX);
	if (read_line(FD_CONTROL, &line, err) < 0)
		return NULL;
	return js_parse(line.data, line.len, EVENT_LINE_MAX, "the supervisor's answer", err);
}
