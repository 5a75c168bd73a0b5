/*
 * Law L11 as a property: random files, random edits, and an oracle that knows nothing of the
 * engine's ways. Deterministic: AGENT_TEST_SEED changes the start, AGENT_TEST_ROUNDS the
 * number.
 */
#include "fixture.h"

static uint64_t state_word;

static unsigned pick(unsigned below)
{
	state_word ^= state_word << 13;
	state_word ^= state_word >> 7;
	state_word ^= state_word << 17;
	return below ? (unsigned)(state_word >> 11) % below : 0;
}

enum ends { ENDS_LF, ENDS_CRLF, ENDS_MIXED };

struct sample {
	struct strbuf raw;  /* the file */
	struct strbuf norm; /* the same without byte-order mark, LF only */
	enum ends ends;
	bool bom, latin1;
};

/* Few different lines, so that edits are often ambiguous. */
static void add_content(struct strbuf *out, bool latin1)
{
	static const char *const words[] = {"a", "b",	     "foo(1);",	 "}",
					    "",	 "  x = 1;", "\tif (y)", "end ",
					    "-", "\"q\"",    "\xC3\xA9", "$1 \\0"};
	unsigned count = pick(3);

	for (unsigned i = 0; i <= count; i++) {
		const char *word = words[pick(ARRAY_LEN(words))];
		if (latin1 && (unsigned char)word[0] >= 0x80)
			strbuf_adds(out, "\xE9");
		else
			strbuf_adds(out, word);
	}
}

static void make_sample(struct sample *s)
{
	unsigned lines = pick(12);

	strbuf_init(&s->raw, 100000);
	strbuf_init(&s->norm, 100000);
	s->ends = (enum ends)pick(3);
	s->latin1 = pick(6) == 0;
	s->bom = !s->latin1 && pick(5) == 0;
	if (s->bom)
		strbuf_adds(&s->raw, "\xEF\xBB\xBF");
	if (s->latin1) { /* so that it surely is no UTF-8 */
		strbuf_adds(&s->raw, "\xE9");
		strbuf_adds(&s->norm, "\xE9");
	}
	for (unsigned i = 0; i < lines; i++) {
		struct strbuf line;
		strbuf_init(&line, 1000);
		add_content(&line, s->latin1);
		bool last_open = i + 1 == lines && pick(3) == 0;
		bool crlf = s->ends == ENDS_CRLF || (s->ends == ENDS_MIXED && pick(2));
		strbuf_add(&s->raw, line.data, line.len);
		strbuf_add(&s->norm, line.data, line.len);
		if (!last_open) {
			strbuf_adds(&s->raw, crlf ? "\r\n" : "\n");
			strbuf_adds(&s->norm, "\n");
		}
		strbuf_release(&line);
	}
}

static size_t occurrences(const struct strbuf *text, const char *what, size_t len)
{
	size_t count = 0;

	for (size_t i = 0; i + len <= text->len; i++)
		count += memcmp(text->data + i, what, len) == 0;
	return count;
}

static void normalise(const char *data, size_t len, bool bom, struct strbuf *out)
{
	size_t i = bom ? 3 : 0;

	for (; i < len; i++)
		if (data[i] != '\r' || i + 1 >= len || data[i + 1] != '\n')
			strbuf_addc(out, data[i]);
}

static size_t common_head(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t n = 0;

	while (n < a_len && n < b_len && a[n] == b[n])
		n++;
	return n;
}

/* Text of the file as a model sends it: UTF-8. */
static void as_utf8(const char *data, size_t len, bool latin1, struct strbuf *out)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)data[i];
		if (latin1 && c >= 0x80) {
			strbuf_addc(out, (char)(0xC0 | c >> 6));
			strbuf_addc(out, (char)(0x80 | (c & 0x3F)));
		} else {
			strbuf_addc(out, (char)c);
		}
	}
}

/* Bytes of the raw file before and after the lines that hold norm[start, end). */
static void untouched(const struct sample *s, size_t start, size_t end, size_t *head,
		      size_t *tail)
{
	size_t norm = 0, raw = s->bom ? 3 : 0, line_raw = raw;

	*head = raw;
	while (raw < s->raw.len) {
		bool crlf = s->raw.data[raw] == '\r' && raw + 1 < s->raw.len &&
			    s->raw.data[raw + 1] == '\n';
		bool lf = s->raw.data[raw] == '\n' || crlf;
		if (norm <= start)
			*head = line_raw;
		raw += crlf ? 2 : 1;
		norm++;
		if (lf)
			line_raw = raw;
		if (lf && norm >= end)
			break;
	}
	*tail = s->raw.len - raw;
}

struct scene {
	struct fixture f;
	struct view *view;
};

static void one_replacement(struct scene *scene)
{
	struct sample s;
	struct strbuf old, now, wanted, have_norm;
	struct edit_result result;

	make_sample(&s);
	strbuf_init(&old, 100000);
	strbuf_init(&now, 100000);
	strbuf_init(&wanted, 200000);
	strbuf_init(&have_norm, 200000);
	size_t start = s.norm.len ? pick((unsigned)s.norm.len) : 0;
	size_t len = s.norm.len ? 1 + pick((unsigned)(s.norm.len - start)) : 0;
	/* whole characters only, or it is no text that anybody could send */
	while (!s.latin1 && start && ((unsigned char)s.norm.data[start] & 0xC0) == 0x80)
		start--, len++;
	while (!s.latin1 && start + len < s.norm.len &&
	       ((unsigned char)s.norm.data[start + len] & 0xC0) == 0x80)
		len++;
	const char *what = s.norm.data + start;
	struct strbuf fresh;
	strbuf_init(&fresh, 1000);
	for (unsigned i = pick(4); i > 0; i--) {
		add_content(&fresh, s.latin1);
		if (pick(2))
			strbuf_addc(&fresh, '\n');
	}
	as_utf8(what, len, s.latin1, &old);
	as_utf8(fresh.data, fresh.len, s.latin1, &now);
	struct edit edit = {.op = EDIT_REPLACE,
			    .path = (char *)(uintptr_t) "f",
			    .old = old.data,
			    .old_len = old.len,
			    .text = now.data,
			    .text_len = now.len};
	assert_int_equal(
	    view_put(scene->view, "f", VIEW_FILE, s.raw.data, s.raw.len, &scene->f.err), 0);
	if (edit_apply(scene->view, &edit, &result, &scene->f.err) < 0)
		fail_msg("%s", scene->f.err.message);
	size_t have_len;
	char *have = fixture_read(scene->view, "f", &have_len);
	size_t count = len ? occurrences(&s.norm, what, len) : 0;
	bool same = len == fresh.len && memcmp(what, fresh.data, len) == 0;
	if (len && !same && count == 1) {
		size_t head, tail;
		assert_int_equal(result.code, EDIT_OK);
		strbuf_add(&wanted, s.norm.data, start);
		strbuf_add(&wanted, fresh.data, fresh.len);
		strbuf_add(&wanted, s.norm.data + start + len, s.norm.len - start - len);
		normalise(have, have_len, s.bom, &have_norm);
		if (have_norm.len != wanted.len ||
		    memcmp(have_norm.data, wanted.data, wanted.len) != 0)
			fail_msg("'%s' became '%s' instead of '%s'", s.norm.data,
				 have_norm.data, wanted.data);
		untouched(&s, start, start + len, &head, &tail);
		assert_true(common_head(have, have_len, s.raw.data, s.raw.len) >= head);
		/* added text may run into the next line; then that line's own end counts as
		 * touched */
		assert_true(have_len >= tail);
		if (memcmp(have + have_len - tail, s.raw.data + s.raw.len - tail, tail) != 0)
			fail_msg("bytes behind the edit changed: '%s' -> '%s'", s.raw.data,
				 have);
		for (size_t i = 0; i < have_len && s.ends == ENDS_LF; i++)
			assert_int_not_equal(have[i], '\r');
		for (size_t i = 0; i < have_len && s.ends == ENDS_CRLF; i++)
			if (have[i] == '\n' && occurrences(&s.norm, "\n", 1))
				assert_true(i && have[i - 1] == '\r');
	} else {
		if (result.code == EDIT_OK)
			fail_msg("'%s' in '%s' is there %zu times but was replaced", what,
				 s.norm.data, count);
		assert_int_equal(have_len, s.raw.len);
		assert_memory_equal(have, s.raw.data, have_len);
	}
	free(have);
	strbuf_release(&fresh);
	strbuf_release(&s.raw);
	strbuf_release(&s.norm);
	strbuf_release(&old);
	strbuf_release(&now);
	strbuf_release(&wanted);
	strbuf_release(&have_norm);
}

/* Inserting keeps every byte that was there, and the state of the file's end. */
static void one_insertion(struct scene *scene)
{
	struct sample s;
	struct edit_result result;
	char text[] = "new\nlines\n";

	make_sample(&s);
	size_t lines =
	    occurrences(&s.norm, "\n", 1) + (s.norm.len && s.norm.data[s.norm.len - 1] != '\n');
	struct edit edit = {.op = EDIT_INSERT,
			    .path = (char *)(uintptr_t) "f",
			    .text = text,
			    .text_len = strlen(text) - pick(2),
			    .line = (long)pick((unsigned)lines + 1)};
	assert_int_equal(
	    view_put(scene->view, "f", VIEW_FILE, s.raw.data, s.raw.len, &scene->f.err), 0);
	if (edit_apply(scene->view, &edit, &result, &scene->f.err) < 0)
		fail_msg("%s", scene->f.err.message);
	assert_int_equal(result.code, EDIT_OK);
	size_t len;
	char *have = fixture_read(scene->view, "f", &len);
	size_t head = common_head(have, len, s.raw.data, s.raw.len);
	assert_true(len > s.raw.len);
	/* the rest of the old file is the end of the new one, or the file had no final
	 * newline and still has none */
	bool kept =
	    memcmp(have + len - (s.raw.len - head), s.raw.data + head, s.raw.len - head) == 0;
	assert_true(kept);
	if (lines)
		assert_int_equal(have[len - 1] == '\n', s.norm.data[s.norm.len - 1] == '\n');
	free(have);
	strbuf_release(&s.raw);
	strbuf_release(&s.norm);
}

static void random_edits_change_what_they_say_and_no_more(void **state)
{
	struct scene scene;
	const char *seed = getenv("AGENT_TEST_SEED"), *rounds = getenv("AGENT_TEST_ROUNDS");
	long count = rounds ? strtol(rounds, NULL, 10) : 20000;

	(void)state;
	state_word = seed ? strtoull(seed, NULL, 10) | 1 : 88172645463325252ULL;
	fixture_init(&scene.f);
	scene.view = view_new(scene.f.repo, EMPTY_TREE, NULL, &scene.f.err);
	for (long i = 0; i < count; i++) {
		one_replacement(&scene);
		one_insertion(&scene);
	}
	view_free(scene.view);
	fixture_release(&scene.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_edits_change_what_they_say_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
