#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/rundir.h"

void journal_init(struct journal *journal, bool json)
{
	memset(journal, 0, sizeof(*journal));
	journal->events_fd = -1;
	journal->json = json;
	journal->terminal = isatty(STDERR_FILENO) == 1 && !json;
	journal->start_ms = fd_now_ms();
}

int journal_open(struct journal *journal, const struct rundir *run, struct error *err)
{
	journal->events_fd =
	    fd_open_beneath(run->fd, "events.jsonl", O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (journal->events_fd < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s/events.jsonl", run->path);
	return 0;
}

void journal_release(struct journal *journal)
{
	if (journal->drawn)
		fputs("\r\x1b[K", stderr);
	journal->drawn = false;
	fd_close_ptr(&journal->events_fd);
	journal->events_fd = -1;
}

void journal_event(struct journal *journal, const char *event, struct json *taken)
{
	struct json *line AUTO_JSON = js_object_new();
	struct json *fields AUTO_JSON = taken, *value;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	void *iter = NULL;
	const char *key;
	struct timespec now;
	struct tm utc;
	char stamp[32];
	size_t len;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	len = strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(stamp + len, sizeof(stamp) - len, ".%03ldZ", now.tv_nsec / 1000000);
	js_set_str(line, "time", stamp);
	js_set_int(line, "ms", fd_now_ms() - journal->start_ms);
	js_set_str(line, "event", event);
	while ((key = js_next(fields, &iter, &value)))
		if (!js_get(line, key))
			js_set(line, key, js_copy(value));
	strbuf_init(&text, STRBUF_MAX);
	js_format_ascii(line, &text);
	strbuf_addc(&text, '\n');
	if (journal->events_fd >= 0 &&
	    fd_write_all(journal->events_fd, text.data, text.len) < 0) {
		/* A full disk shows at the next artefact, which is fatal; the story is not. */
		close(journal->events_fd);
		journal->events_fd = -1;
	}
	if (journal->json)
		fd_write_all(STDOUT_FILENO, text.data, text.len);
}

#define TEXT_COLUMNS 58	 /* of a stage's text, so that the seconds stand below each other */
#define OTHER_COLUMNS 22 /* around it, and one that stays free */

/* Bytes of text that fit into so many columns; never half a character. */
static size_t cut(const char *text, size_t columns)
{
	size_t len = strlen(text);

	if (len <= columns)
		return len;
	while (columns > 0 && ((unsigned char)text[columns] & 0xC0) == 0x80)
		columns--;
	return columns;
}

/* An unfinished line has to fit: what wraps cannot be drawn over. */
static void draw(struct journal *journal, const char *text, bool finished)
{
	double seconds = (double)(fd_now_ms() - journal->stage_ms) / 1000.0;
	size_t width = fd_columns(STDERR_FILENO);
	size_t room = width ? width - OTHER_COLUMNS : TEXT_COLUMNS;
	size_t len = finished ? strlen(text) : cut(text, room);

	if (journal->json || journal->quiet || (!finished && !journal->terminal))
		return;
	fprintf(stderr, "%s  %-8s %-*.*s %7.2f s%s", journal->drawn ? "\r\x1b[K" : "",
		journal->stage, (int)(room < TEXT_COLUMNS ? room : TEXT_COLUMNS), (int)len,
		text, seconds, finished ? "\n" : "");
	journal->drawn = !finished;
	fflush(stderr);
}

void journal_tick(struct journal *journal)
{
	if (journal->stage[0] && journal->terminal)
		draw(journal, journal->text, false);
}

void journal_stage(struct journal *journal, const char *stage, const char *text)
{
	struct json *fields = js_object_new();

	snprintf(journal->stage, sizeof(journal->stage), "%s", stage);
	text_escape(journal->text, sizeof(journal->text), text, strlen(text));
	journal->stage_ms = fd_now_ms();
	js_set_str(fields, "stage", stage);
	js_set_str(fields, "text", text);
	journal_event(journal, "stage", fields);
	journal_tick(journal);
}

void journal_progress(struct journal *journal, const char *text)
{
	struct json *fields = js_object_new();

	text_escape(journal->text, sizeof(journal->text), text, strlen(text));
	js_set_str(fields, "stage", journal->stage);
	js_set_str(fields, "text", text);
	journal_event(journal, "progress", fields);
	journal_tick(journal);
}

void journal_done(struct journal *journal, const char *format, ...)
{
	struct json *fields = js_object_new();
	char raw[512], shown[512];
	va_list args;

	va_start(args, format);
	vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	text_escape(shown, sizeof(shown), raw, strlen(raw));
	js_set_str(fields, "stage", journal->stage);
	js_set_str(fields, "text", raw);
	js_set_int(fields, "stage_ms", fd_now_ms() - journal->stage_ms);
	journal_event(journal, "done", fields);
	draw(journal, shown, true);
	journal->stage[0] = '\0';
}

#define NOTE_COLUMN 9 /* where the text of "report   …" begins */

/* Lines that are longer than the terminal's are folded between words. */
static void print_folded(char *text)
{
	size_t width = fd_columns(STDERR_FILENO);
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n"))) {
		struct strbuf folded AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&folded, STRBUF_MAX);
		if (width && strlen(line) >= width)
			strbuf_add_wrapped(&folded, line, 0, NOTE_COLUMN, width);
		else
			strbuf_adds(&folded, line);
		fprintf(stderr, "%s\n", folded.data);
	}
}

void journal_note(struct journal *journal, const char *format, ...)
{
	struct json *fields = js_object_new();
	struct strbuf shown AUTO_STRBUF = STRBUF_NONE;
	char *raw AUTO_FREE = NULL;
	va_list args;

	va_start(args, format);
	raw = mem_vprintf(format, args);
	va_end(args);
	js_set_str(fields, "text", raw);
	journal_event(journal, "note", fields);
	if (journal->json || journal->quiet)
		return;
	strbuf_init(&shown, 65536);
	text_escape_lines(&shown, raw, strlen(raw));
	if (journal->drawn)
		fputs("\r\x1b[K", stderr);
	print_folded(shown.data);
	journal->drawn = false;
}
