#include "conversation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/scrub.h"

struct entry {
	struct json *line; /* owned */
};

struct talk {
	int fd; /* borrowed; -1: in memory only */
	size_t bytes;
	const struct scrub *scrub; /* borrowed */
	struct entry *lines;	   /* owned */
	size_t len, cap;
};

struct talk *talk_new(void)
{
	struct talk *talk = mem_calloc(1, sizeof(*talk));

	talk->fd = -1;
	return talk;
}

void talk_free(struct talk *talk)
{
	if (!talk)
		return;
	for (size_t i = 0; i < talk->len; i++)
		js_free(talk->lines[i].line);
	free(talk->lines);
	free(talk);
}

void talk_free_ptr(struct talk **talk)
{
	talk_free(*talk);
}

static void push(struct talk *talk, struct json *taken)
{
	if (talk->len == talk->cap) {
		talk->cap = talk->cap ? talk->cap * 2 : 64;
		talk->lines = mem_realloc(talk->lines, talk->cap, sizeof(*talk->lines));
	}
	talk->lines[talk->len++].line = taken;
}

static int load_line(struct talk *talk, const char *text, size_t len, const char *name,
		     struct error *err)
{
	struct json *line AUTO_JSON = js_parse(text, len, TALK_LINE_MAX, "the line", err);

	if (!line || line_check(line, err) < 0 ||
	    (talk->len && line_round(line) < line_round(talk_last(talk)) &&
	     error_set(err, ERROR_USAGE, "its round is lower than that of the line before")))
		return error_wrap(err, "%s, line %zu", name, talk->len + 1);
	if (talk->len == TALK_LINES_MAX)
		return error_set(err, ERROR_USAGE, "%s has more than %d lines", name,
				 TALK_LINES_MAX);
	push(talk, MEM_STEAL(line));
	return 0;
}

/* A recording written by hand may lack the newline of its last line; a file of ours never does.
 */
static int load(struct talk *talk, const struct strbuf *text, bool writable, const char *name,
		struct error *err)
{
	const char *at = text->data, *end = text->data + text->len;

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;
		size_t blank = strspn(at, " \t\r");

		if (!newline && writable)
			break;
		if (at + blank < stop) {
			int result = load_line(talk, at, (size_t)(stop - at), name, err);

			if (result < 0)
				return result;
		}
		at = newline ? newline + 1 : end;
	}
	talk->bytes = (size_t)(at - text->data);
	if (writable && at < end && ftruncate(talk->fd, (off_t)talk->bytes) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s cannot be cut to whole lines",
				   name);
	return 0;
}

struct talk *talk_open(int fd, bool writable, const char *name, const struct scrub *scrub,
		       struct error *err)
{
	struct talk *talk AUTO_TALK = talk_new();
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, TALK_BYTES_MAX);
	if (fd_pread_all(fd, &text) < 0) {
		if (errno == EFBIG)
			error_set(err, ERROR_USAGE, "%s is larger than %u MiB", name,
				  TALK_BYTES_MAX >> 20);
		else
			error_errno(err, ERROR_FAILED, errno, "%s cannot be read", name);
		return NULL;
	}
	talk->fd = writable ? fd : -1;
	talk->scrub = scrub;
	if (load(talk, &text, writable, name, err) < 0)
		return NULL;
	return MEM_STEAL(talk);
}

size_t talk_len(const struct talk *talk)
{
	return talk->len;
}

struct json *talk_at(const struct talk *talk, size_t index)
{
	return index < talk->len ? talk->lines[index].line : NULL;
}

struct json *talk_last(const struct talk *talk)
{
	return talk->len ? talk->lines[talk->len - 1].line : NULL;
}

size_t talk_count(const struct talk *talk, const char *role)
{
	size_t count = 0;

	for (size_t i = 0; i < talk->len; i++)
		count += strcmp(line_role(talk->lines[i].line), role) == 0;
	return count;
}

static int write_line(struct talk *talk, const struct json *line, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, TALK_LINE_MAX);
	js_format(line, &text);
	strbuf_addc(&text, '\n');
	if (text.full)
		return error_set(err, ERROR_FAILED,
				 "a turn of the conversation is larger than %u MiB",
				 TALK_LINE_MAX >> 20);
	if (text.len > TALK_BYTES_MAX - talk->bytes)
		return error_set(err, ERROR_FAILED, "the conversation is larger than %u MiB",
				 TALK_BYTES_MAX >> 20);
	if (lseek(talk->fd, (off_t)talk->bytes, SEEK_SET) < 0 ||
	    fd_write_all(talk->fd, text.data, text.len) < 0) {
		error_errno(err, ERROR_FAILED, errno, "the conversation cannot be written");
		return error_next(err, "make room on the disk of the state directory");
	}
	talk->bytes += text.len;
	return 0;
}

int talk_append(struct talk *talk, struct json *taken, struct error *err)
{
	struct json *line AUTO_JSON = scrub_json(talk->scrub, taken);

	if (talk->len == TALK_LINES_MAX)
		return error_set(err, ERROR_FAILED, "the conversation has more than %d lines",
				 TALK_LINES_MAX);
	if (talk->fd >= 0) {
		int result = write_line(talk, line, err);

		if (result < 0)
			return result;
	}
	push(talk, MEM_STEAL(line));
	return 0;
}

/* ---- lines ---- */

struct json *line_new(const char *role, long long round)
{
	struct json *line = js_object_new();

	js_set_str(line, "role", role);
	js_set_int(line, "round", round);
	js_set(line, "content", js_array_new());
	return line;
}

static struct json *add_block(struct json *line, const char *type)
{
	struct json *block = js_object_new();

	js_set_str(block, "type", type);
	js_push(js_get(line, "content"), block);
	return block; /* borrowed from the line */
}

void line_add_text(struct json *line, const char *text, size_t len)
{
	js_set_strn(add_block(line, "text"), "text", text, len);
}

void line_add_call(struct json *line, const char *id, const char *name, struct json *input,
		   const char *malformed, size_t malformed_len)
{
	struct json *block = add_block(line, "tool_call");

	js_set_str(block, "id", id);
	js_set_str(block, "name", name);
	js_set(block, "input", input ? input : js_object_new());
	if (!input)
		js_set_strn(block, "malformed", malformed, malformed_len);
}

void line_add_result(struct json *line, const char *id, const char *text, size_t len,
		     bool failed)
{
	struct json *block = add_block(line, "tool_result");

	js_set_str(block, "id", id);
	js_set_strn(block, "text", text, len);
	js_set_bool(block, "error", failed);
}

void line_add_opaque(struct json *line, const char *provider, struct json *data)
{
	struct json *block = add_block(line, "opaque");

	js_set_str(block, "provider", provider);
	js_set(block, "data", data);
}

const char *line_role(const struct json *line)
{
	return js_str(line, "role", "");
}

long long line_round(const struct json *line)
{
	return js_int(line, "round", 0);
}

const struct json *line_content(const struct json *line)
{
	return js_get(line, "content");
}

void line_text(const struct json *line, struct strbuf *out)
{
	const struct json *content = line_content(line);
	bool first = true;

	for (size_t i = 0; i < js_len(content); i++) {
		const struct json *block = js_at(content, i), *text = js_get(block, "text");

		if (strcmp(js_str(block, "type", ""), "text") != 0 || !js_text_len(text))
			continue;
		if (!first)
			strbuf_adds(out, "\n\n");
		strbuf_add(out, js_text(text), js_text_len(text));
		first = false;
	}
}

size_t line_calls(const struct json *line)
{
	const struct json *content = line_content(line);
	size_t count = 0;

	for (size_t i = 0; i < js_len(content); i++)
		count += strcmp(js_str(js_at(content, i), "type", ""), "tool_call") == 0;
	return count;
}

static int check_block(const struct json *block, const char *role, struct error *err)
{
	const char *type, *text;
	int result = js_need_str(block, "type", &type, err);

	if (result < 0)
		return result;
	if (strcmp(type, "text") == 0)
		return js_need_str(block, "text", &text, err);
	if (strcmp(type, "tool_call") == 0 && strcmp(role, "assistant") == 0) {
		result = js_need_str(block, "id", &text, err);
		if (result == 0)
			result = js_need_str(block, "name", &text, err);
		if (result == 0 && !js_is_object(js_get(block, "input")))
			return error_set(err, ERROR_USAGE,
					 "a tool call's \"input\" is no object");
		return result;
	}
	if (strcmp(type, "tool_result") == 0 && strcmp(role, "tool") == 0) {
		result = js_need_str(block, "id", &text, err);
		return result < 0 ? result : js_need_str(block, "text", &text, err);
	}
	if (strcmp(type, "opaque") == 0 && strcmp(role, "assistant") == 0) {
		if (!js_is_object(js_get(block, "data")))
			return error_set(err, ERROR_USAGE,
					 "an opaque block's \"data\" is no object");
		return js_need_str(block, "provider", &text, err);
	}
	return error_set(err, ERROR_USAGE, "a \"%s\" block in a line of \"%s\"", type, role);
}

int line_check(const struct json *line, struct error *err)
{
	static const char *const roles[] = {"system", "user", "assistant", "tool"};
	const char *role;
	long long round;
	size_t i = 0;
	int result;

	if (!js_is_object(line))
		return error_set(err, ERROR_USAGE, "not an object");
	result = js_need_str(line, "role", &role, err);
	if (result == 0)
		result = js_need_int(line, "round", 1, 1000000, &round, err);
	if (result < 0)
		return result;
	while (i < ARRAY_LEN(roles) && strcmp(roles[i], role) != 0)
		i++;
	if (i == ARRAY_LEN(roles))
		return error_set(err, ERROR_USAGE, "unknown role \"%s\"", role);
	if (!js_is_array(line_content(line)))
		return error_set(err, ERROR_USAGE, "\"content\" is missing or no list");
	for (i = 0; i < js_len(line_content(line)); i++) {
		result = check_block(js_at(line_content(line), i), role, err);
		if (result < 0)
			return error_wrap(err, "block %zu", i + 1);
	}
	return 0;
}
