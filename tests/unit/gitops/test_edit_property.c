/*
 * Law L11 as a property: random files (CR LF, mixed, byte-order mark, ISO 8859-1, NUL, without a
 * last line end, executable), a random change of some lines, said in each format. Bytes outside of
 * the change are identical, new lines have their neighbours' ends, mode, byte-order mark and the
 * file's way to end are kept. AGENT_TEST_SEED repeats a run; the seed is printed.
 */
#include "fixture.h"

#include <time.h>

#include "gitops/edit_text.h"
#include "pipeline/base/text.h"

#define ROUNDS 600
#define LINES_MAX 40

struct sample {
	char *lines[LINES_MAX + 4]; /* owned; without their ends */
	const char *ends[LINES_MAX + 4];
	size_t count;
	bool bom, open_end, latin1;
	enum view_kind kind;
	/* the change: lines [at, at + del) become the texts */
	size_t at, del;
	char *texts[4]; /* owned; UTF-8 */
	size_t text_count;
	struct strbuf before, wanted;
};

static unsigned long long state;

static unsigned pick(unsigned below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 33) % below;
}

/* No two lines alike, so that each place is unique; indented, with trailing blanks now and then. */
static char *new_line(const struct sample *s, unsigned number)
{
	static const char *const indents[] = {"", "  ", "    ", "\t", "\t\t"};
	static const char *const tails[] = {"", "", "", " ", "  \t"};
	const char *accent = s->latin1 ? "caf\xe9 " : "caf\xC3\xA9 ";

	return mem_printf("%sword%u %s= %u;%s", indents[pick(5)], number, pick(3) ? "" : accent,
			  pick(1000), tails[pick(5)]);
}

static void add_bytes(const struct sample *s, bool changed, struct strbuf *out)
{
	if (s->bom)
		strbuf_adds(out, "\xEF\xBB\xBF");
	for (size_t i = 0; i <= s->count; i++) {
		if (changed && i == s->at) {
			for (size_t k = 0; k < s->text_count; k++) {
				strbuf_adds(out, s->texts[k]);
				/* the end of the line it stands for, else its neighbour's */
				if (k < s->del)
					strbuf_adds(out, s->ends[i + k]);
				else
					strbuf_adds(out, i + s->del ? s->ends[i + s->del - 1]
								    : s->ends[0]);
			}
			i += s->del;
		}
		if (i < s->count) {
			strbuf_adds(out, s->lines[i]);
			strbuf_adds(out, s->ends[i]);
		}
	}
	if (!s->open_end || !out->len)
		return;
	while (out->len && (out->data[out->len - 1] == '\n' || out->data[out->len - 1] == '\r'))
		out->data[--out->len] = '\0';
}

static void make_sample(struct sample *s)
{
	unsigned ends = pick(3);

	*s = (struct sample){.bom = pick(4) == 0,
			     .open_end = pick(3) == 0,
			     .latin1 = pick(4) == 0,
			     .kind = pick(3) ? VIEW_FILE : VIEW_EXEC};
	s->bom = s->bom && !s->latin1;
	s->count = 4 + pick(LINES_MAX - 4);
	for (size_t i = 0; i < s->count; i++) {
		s->lines[i] = new_line(s, (unsigned)i);
		s->ends[i] = ends == 2 ? (pick(2) ? "\n" : "\r\n") : ends ? "\r\n" : "\n";
	}
	if (s->latin1) { /* one line that shows it */
		free(s->lines[0]);
		s->lines[0] = mem_strdup("na\xefve");
	}
	s->at = 1 + pick((unsigned)s->count - 3);
	s->del = 1 + pick(2);
	s->text_count = pick(4);
	for (size_t k = 0; k < s->text_count; k++)
		s->texts[k] = mem_printf("%s%s%u;", pick(2) ? "  " : "\t", "new", pick(100000));
	strbuf_init(&s->before, STRBUF_MAX);
	strbuf_init(&s->wanted, STRBUF_MAX);
	add_bytes(s, false, &s->before);
	add_bytes(s, true, &s->wanted);
}

static void release_sample(struct sample *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->lines[i]);
	for (size_t k = 0; k < s->text_count; k++)
		free(s->texts[k]);
	strbuf_release(&s->before);
	strbuf_release(&s->wanted);
}

/* A line as a model sees it: UTF-8. */
static void add_seen(const char *line, const char *mark, struct strbuf *out)
{
	strbuf_adds(out, mark);
	view_to_utf8(line, strlen(line), text_is_utf8(line, strlen(line)), out);
	strbuf_addc(out, '\n');
}

static void add_hunk(const struct sample *s, struct strbuf *out)
{
	add_seen(s->lines[s->at - 1], " ", out);
	for (size_t i = 0; i < s->del; i++)
		add_seen(s->lines[s->at + i], "-", out);
	for (size_t k = 0; k < s->text_count; k++)
		add_seen(s->texts[k], "+", out);
	if (s->at + s->del < s->count)
		add_seen(s->lines[s->at + s->del], " ", out);
}

static void add_block(const struct sample *s, struct strbuf *out)
{
	strbuf_adds(out, "f\n<<<<<<< SEARCH\n");
	for (size_t i = s->at - 1; i < s->at + s->del; i++)
		add_seen(s->lines[i], "", out);
	strbuf_adds(out, "=======\n");
	add_seen(s->lines[s->at - 1], "", out);
	for (size_t k = 0; k < s->text_count; k++)
		add_seen(s->texts[k], "", out);
	strbuf_adds(out, ">>>>>>> REPLACE\n");
}

static void add_whole(const struct sample *s, struct strbuf *out)
{
	strbuf_adds(out, "f.c\n```\n");
	for (size_t i = 0; i <= s->count; i++) {
		if (i == s->at) {
			for (size_t k = 0; k < s->text_count; k++)
				add_seen(s->texts[k], "", out);
			i += s->del;
		}
		if (i < s->count)
			add_seen(s->lines[i], "", out);
	}
	strbuf_adds(out, "```\n");
}

static void write_text(const struct sample *s, enum edit_format format, struct strbuf *out)
{
	switch (format) {
	case FORMAT_UDIFF:
		strbuf_addf(out, "--- a/f\n+++ b/f\n@@ -%u +%u @@\n", pick(99), pick(99));
		add_hunk(s, out);
		break;
	case FORMAT_APPLY_PATCH:
		strbuf_adds(out, "*** Begin Patch\n*** Update File: f\n@@\n");
		add_hunk(s, out);
		strbuf_adds(out, "*** End Patch\n");
		break;
	case FORMAT_SEARCH_REPLACE:
		add_block(s, out);
		break;
	case FORMAT_WHOLE:
		add_whole(s, out);
		break;
	case FORMAT_AUTO:
	case FORMAT_TOOL:
		break;
	}
}

static void try_sample(struct fixture *f, const struct sample *s, enum edit_format format,
		       unsigned number)
{
	const char *path = format == FORMAT_WHOLE ? "f.c" : "f";
	struct strbuf text;
	struct edit_list list = {NULL, 0, 0};
	struct edit_fault fault;
	struct edit_result result;
	enum edit_code code;
	struct view_stat st;
	size_t len;

	strbuf_init(&text, STRBUF_MAX);
	write_text(s, format, &text);
	struct view *view = view_new(f->repo, EMPTY_TREE, NULL, &f->err);
	assert_int_equal(view_put(view, path, s->kind, s->before.data, s->before.len, &f->err),
			 0);
	if (edit_text_parse(text.data, text.len, &format, &list, &fault) < 0)
		fail_msg("round %u, %s: %s\n%s", number, edit_format_name(format),
			 fault.message, text.data);
	assert_int_equal(list.len, 1);
	assert_int_equal(edit_try(view, &list, &result, &code, &f->err), 0);
	if (code != EDIT_OK)
		fail_msg("round %u, %s: %s\n%s", number, edit_format_name(format),
			 result.message, text.data);
	char *have = fixture_read(view, path, &len);
	if (len != s->wanted.len || memcmp(have, s->wanted.data, len) != 0)
		fail_msg("round %u, %s:\n%s\n--- gave\n%s\n--- instead of\n%s\n--- from\n%s",
			 number, edit_format_name(format), text.data, have, s->wanted.data,
			 s->before.data);
	assert_int_equal(view_stat(view, path, &st, &f->err), 0);
	assert_int_equal(st.kind, s->kind);
	free(have);
	strbuf_release(&text);
	edit_list_release(&list);
	view_free(view);
}

static void bytes_outside_of_the_edit_are_identical(void **unused)
{
	static const enum edit_format formats[] = {FORMAT_UDIFF, FORMAT_SEARCH_REPLACE,
						   FORMAT_APPLY_PATCH, FORMAT_WHOLE};
	const char *given = getenv("AGENT_TEST_SEED");
	unsigned long long seed =
	    given ? strtoull(given, NULL, 10) : (unsigned long long)time(NULL);
	struct fixture f;

	(void)unused;
	print_message("# seed %llu\n", seed);
	state = seed * 0x9E3779B97F4A7C15ULL + 1;
	fixture_init(&f);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct sample sample;
		make_sample(&sample);
		for (size_t k = 0; k < ARRAY_LEN(formats); k++) {
			/* a rewrite has no counterpart for a line that is new: other rules */
			if (formats[k] == FORMAT_WHOLE &&
			    (sample.text_count > sample.del || sample.count > 12))
				continue;
			try_sample(&f, &sample, formats[k], i);
		}
		release_sample(&sample);
	}
	fixture_release(&f);
}

/* A binary file is changed by nothing but a patch that is proven to be made for it. */
static void binary_files_are_left_alone(void **unused)
{
	static const char *const texts[] = {
	    "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n",
	    "f\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n",
	    "*** Begin Patch\n*** Update File: f\n@@\n-x\n+y\n*** End Patch\n"};
	static const char bytes[] = "x\n\0z\n";
	struct fixture f;

	(void)unused;
	fixture_init(&f);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct view *view = view_new(f.repo, EMPTY_TREE, NULL, &f.err);
		enum edit_format format = FORMAT_AUTO;
		struct edit_list list = {NULL, 0, 0};
		struct edit_fault fault;
		struct edit_result result;
		enum edit_code code;
		assert_int_equal(view_put(view, "f", VIEW_FILE, bytes, 5, &f.err), 0);
		assert_int_equal(
		    edit_text_parse(texts[i], strlen(texts[i]), &format, &list, &fault), 0);
		assert_int_equal(edit_try(view, &list, &result, &code, &f.err), 0);
		assert_int_equal(code, EDIT_BINARY);
		edit_list_release(&list);
		view_free(view);
	}
	fixture_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_outside_of_the_edit_are_identical),
	    cmocka_unit_test(binary_files_are_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
