#include "sse.h"

#include <string.h>

void sse_init(struct sse *sse, sse_event_fn *seen, void *arg)
{
	memset(sse, 0, sizeof(*sse));
	strbuf_init(&sse->line, SSE_EVENT_MAX);
	strbuf_init(&sse->data, SSE_EVENT_MAX);
	sse->seen = seen;
	sse->arg = arg;
}

void sse_release(struct sse *sse)
{
	strbuf_release(&sse->line);
	strbuf_release(&sse->data);
}

static int dispatch(struct sse *sse)
{
	int result = 0;

	if (sse->has_data) {
		sse->data.data[--sse->data.len] = '\0'; /* the last newline */
		result = sse->seen(sse->arg, sse->name[0] ? sse->name : "message",
				   sse->data.data, sse->data.len);
	}
	strbuf_reset(&sse->data);
	sse->has_data = false;
	sse->name[0] = '\0';
	return result;
}

static int take_field(struct sse *sse, const char *field, size_t field_len, const char *value,
		      size_t len)
{
	if (field_len == 4 && memcmp(field, "data", 4) == 0) {
		sse->has_data = true;
		strbuf_add(&sse->data, value, len);
		if (strbuf_addc(&sse->data, '\n') < 0)
			return -1;
	} else if (field_len == 5 && memcmp(field, "event", 5) == 0) {
		if (len >= sizeof(sse->name))
			len = sizeof(sse->name) - 1;
		memcpy(sse->name, value, len);
		sse->name[len] = '\0';
	}
	return 0;
}

/* The line under way is whole. */
static int take_line(struct sse *sse)
{
	const char *line = sse->line.data, *colon, *value;
	size_t len = sse->line.len, value_len = 0;
	int result;

	if (!sse->begun) {
		sse->begun = true;
		if (len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0)
			line += 3, len -= 3;
	}
	if (!len) {
		strbuf_reset(&sse->line);
		return dispatch(sse);
	}
	colon = memchr(line, ':', len);
	value = colon ? colon + 1 : line + len;
	value_len = (size_t)(line + len - value);
	if (value_len && *value == ' ')
		value++, value_len--;
	/* a line that begins with a colon is a comment: its field name is empty */
	result = take_field(sse, line, colon ? (size_t)(colon - line) : len, value, value_len);
	strbuf_reset(&sse->line);
	return result;
}

int sse_feed(struct sse *sse, const char *bytes, size_t len)
{
	const char *end = bytes + len;

	while (bytes < end) {
		const char *stop = bytes;
		int result;

		if (sse->after_cr) {
			sse->after_cr = false;
			if (*bytes == '\n') {
				bytes++;
				continue;
			}
		}
		while (stop < end && *stop != '\n' && *stop != '\r')
			stop++;
		if (strbuf_add(&sse->line, bytes, (size_t)(stop - bytes)) < 0)
			return -1;
		bytes = stop;
		if (stop == end)
			break;
		sse->after_cr = *stop == '\r';
		bytes++;
		result = take_line(sse);
		if (result)
			return result;
	}
	return 0;
}
