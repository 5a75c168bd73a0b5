/*
 * Thompson's construction: recursive descent writes a program of BYTE, SET, SPLIT, JUMP and
 * assertions; a search keeps the set of program positions that are alive. See Russ Cox,
 * "Regular Expression Matching Can Be Simple And Fast".
 */
#include "regex.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"

enum op { OP_SET, OP_SPLIT, OP_JUMP, OP_BEGIN, OP_END, OP_WORD, OP_NOT_WORD, OP_MATCH };

struct instruction {
	enum op op;
	unsigned x, y; /* SPLIT: two targets; JUMP: x; SET: x is the index of the set */
};

struct byte_set {
	uint64_t bits[4];
};

struct regex {
	struct instruction *code; /* owned */
	unsigned len, cap;
	struct byte_set *sets; /* owned */
	unsigned sets_len, sets_cap;
	struct byte_set first; /* bytes that a match can begin with */
	bool first_any;	       /* a match may be empty or begin with an assertion */
	unsigned *now, *next;  /* owned: lists of positions */
	unsigned *mark;	       /* owned: in which step a position was added */
	unsigned *stack;       /* owned */
};

struct parser {
	struct regex *regex;
	const char *text;
	size_t len, pos;
	bool ignore_case;
	int depth;
	struct error *err;
};

static bool has(const struct byte_set *set, unsigned char c)
{
	return set->bits[c / 64] >> c % 64 & 1;
}

static void add_range(struct byte_set *set, unsigned from, unsigned to)
{
	for (unsigned c = from; c <= to && c < 256; c++)
		set->bits[c / 64] |= (uint64_t)1 << c % 64;
}

static int fault(struct parser *p, const char *why)
{
	return error_set(p->err, ERROR_USAGE, "regular expression '%.*s': %s (at byte %zu)",
			 (int)p->len, p->text, why, p->pos + 1);
}

/* ---- program ---- */

static int emit(struct parser *p, enum op op, unsigned x, unsigned y)
{
	struct regex *regex = p->regex;

	if (regex->len >= REGEX_STATES_MAX)
		return fault(p, "too big");
	if (regex->len == regex->cap) {
		regex->cap = regex->cap ? regex->cap * 2 : 64;
		regex->code = mem_realloc(regex->code, regex->cap, sizeof(*regex->code));
	}
	regex->code[regex->len++] = (struct instruction){op, x, y};
	return 0;
}

static int emit_set(struct parser *p, struct byte_set set)
{
	struct regex *regex = p->regex;

	if (p->ignore_case)
		for (unsigned c = 'a'; c <= 'z'; c++)
			if (has(&set, (unsigned char)c) ||
			    has(&set, (unsigned char)(c - 'a' + 'A'))) {
				add_range(&set, c, c);
				add_range(&set, c - 'a' + 'A', c - 'a' + 'A');
			}
	if (regex->sets_len == regex->sets_cap) {
		regex->sets_cap = regex->sets_cap ? regex->sets_cap * 2 : 16;
		regex->sets = mem_realloc(regex->sets, regex->sets_cap, sizeof(*regex->sets));
	}
	regex->sets[regex->sets_len] = set;
	return emit(p, OP_SET, regex->sets_len++, 0);
}

/* Makes room for one instruction at a place inside the program: all behind it moves. */
static int insert(struct parser *p, unsigned at, enum op op, unsigned x, unsigned y)
{
	int rc = emit(p, op, x, y);
	struct instruction *code = p->regex->code;

	if (rc < 0)
		return rc;
	for (unsigned i = p->regex->len - 1; i > at; i--)
		code[i] = code[i - 1];
	code[at] = (struct instruction){op, x, y};
	for (unsigned i = at + 1; i < p->regex->len; i++) {
		if ((code[i].op == OP_SPLIT || code[i].op == OP_JUMP) && code[i].x >= at)
			code[i].x++;
		if (code[i].op == OP_SPLIT && code[i].y >= at)
			code[i].y++;
	}
	return 0;
}

/* Appends a copy of the instructions [from, to). */
static int copy(struct parser *p, unsigned from, unsigned to)
{
	unsigned shift = p->regex->len - from;

	for (unsigned i = from; i < to; i++) {
		struct instruction ins = p->regex->code[i];
		bool jumps = ins.op == OP_SPLIT || ins.op == OP_JUMP;
		int rc = emit(p, ins.op, jumps ? ins.x + shift : ins.x,
			      ins.op == OP_SPLIT ? ins.y + shift : ins.y);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- parser ---- */

static bool more(const struct parser *p)
{
	return p->pos < p->len;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static struct byte_set negated(struct byte_set set)
{
	for (size_t i = 0; i < 4; i++)
		set.bits[i] = ~set.bits[i];
	return set;
}

/* \d, \w, \s and their opposites. */
static bool class_of(char letter, struct byte_set *set)
{
	struct byte_set s = {{0}};

	switch (letter | 0x20) {
	case 'd':
		add_range(&s, '0', '9');
		break;
	case 'w':
		add_range(&s, '0', '9');
		add_range(&s, 'a', 'z');
		add_range(&s, 'A', 'Z');
		add_range(&s, '_', '_');
		break;
	case 's':
		add_range(&s, '\t', '\r');
		add_range(&s, ' ', ' ');
		break;
	default:
		return false;
	}
	*set = letter & 0x20 ? s : negated(s);
	return letter >= 'A';
}

/* A single byte behind a backslash, p->pos at it; -1 when it is unknown. */
static int escaped_byte(struct parser *p)
{
	char c = p->text[p->pos++];

	switch (c) {
	case 't':
		return '\t';
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case 'f':
		return '\f';
	case 'v':
		return '\v';
	case 'x':
		if (p->pos + 1 < p->len && hex_value(p->text[p->pos]) >= 0 &&
		    hex_value(p->text[p->pos + 1]) >= 0) {
			p->pos += 2;
			return hex_value(p->text[p->pos - 2]) * 16 +
			       hex_value(p->text[p->pos - 1]);
		}
		return -1;
	default:
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
			return -1;
		return (unsigned char)c;
	}
}

/* One end of a range in a set; a class goes straight into the set and returns 256. -1:
 * malformed. */
static int set_member(struct parser *p, struct byte_set *set)
{
	struct byte_set class = {{0}};

	if (p->text[p->pos] != '\\')
		return (unsigned char)p->text[p->pos++];
	p->pos++;
	if (!more(p))
		return -1;
	if (class_of(p->text[p->pos], &class)) {
		p->pos++;
		for (size_t i = 0; i < 4; i++)
			set->bits[i] |= class.bits[i];
		return 256;
	}
	if (p->text[p->pos] == 'b') {
		p->pos++;
		return '\b';
	}
	return escaped_byte(p);
}

static int posix_class(struct parser *p, struct byte_set *set)
{
	static const struct {
		const char *name;
		const char *ranges;
	} classes[] = {
	    {"[:alpha:]", "azAZ"},   {"[:digit:]", "09"},      {"[:alnum:]", "azAZ09"},
	    {"[:lower:]", "az"},     {"[:upper:]", "AZ"},      {"[:space:]", "\t\r  "},
	    {"[:blank:]", "\t\t  "}, {"[:xdigit:]", "09afAF"}, {"[:punct:]", "!/:@[`{~"}};

	for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
		size_t width = strlen(classes[i].name);
		if (p->len - p->pos < width ||
		    memcmp(p->text + p->pos, classes[i].name, width) != 0)
			continue;
		for (const char *r = classes[i].ranges; *r; r += 2)
			add_range(set, (unsigned char)r[0], (unsigned char)r[1]);
		p->pos += width;
		return 1;
	}
	return 0;
}

static int parse_set(struct parser *p)
{
	struct byte_set set = {{0}};
	bool negate = more(p) && p->text[p->pos] == '^';

	p->pos += negate;
	for (size_t first = p->pos; more(p) && (p->text[p->pos] != ']' || p->pos == first);) {
		if (p->text[p->pos] == '[' && posix_class(p, &set))
			continue;
		int from = set_member(p, &set);
		if (from < 0)
			return fault(p, "unknown escape in a set");
		if (from == 256)
			continue;
		int to = from;
		if (p->pos + 1 < p->len && p->text[p->pos] == '-' &&
		    p->text[p->pos + 1] != ']') {
			p->pos++;
			to = set_member(p, &set);
			if (to < from || to == 256)
				return fault(p, "bad range in a set");
		}
		add_range(&set, (unsigned)from, (unsigned)to);
	}
	if (!more(p))
		return fault(p, "'[' without ']'");
	p->pos++;
	return emit_set(p, negate ? negated(set) : set);
}

static int parse_escape(struct parser *p)
{
	struct byte_set set = {{0}};

	if (!more(p))
		return fault(p, "backslash at the end");
	char c = p->text[p->pos];
	if (c == 'b' || c == 'B') {
		p->pos++;
		return emit(p, c == 'b' ? OP_WORD : OP_NOT_WORD, 0, 0);
	}
	if (class_of(c, &set)) {
		p->pos++;
		return emit_set(p, set);
	}
	int byte = escaped_byte(p);
	if (byte < 0)
		return fault(p, "unknown escape");
	add_range(&set, (unsigned)byte, (unsigned)byte);
	return emit_set(p, set);
}

static int parse_choice(struct parser *p);

static int parse_group(struct parser *p)
{
	if (p->pos + 1 < p->len && p->text[p->pos] == '?') {
		if (p->text[p->pos + 1] != ':')
			return fault(p, "look-around and flags are not supported");
		p->pos += 2;
	}
	if (++p->depth > 50)
		return fault(p, "groups too deep");
	int rc = parse_choice(p);
	p->depth--;
	if (rc < 0)
		return rc;
	if (!more(p) || p->text[p->pos] != ')')
		return fault(p, "'(' without ')'");
	p->pos++;
	return 0;
}

static int parse_atom(struct parser *p)
{
	struct byte_set set = {{0}};
	char c = p->text[p->pos++];

	switch (c) {
	case '(':
		return parse_group(p);
	case '[':
		return parse_set(p);
	case '\\':
		return parse_escape(p);
	case '.':
		return emit_set(p, negated(set));
	case '^':
		return emit(p, OP_BEGIN, 0, 0);
	case '$':
		return emit(p, OP_END, 0, 0);
	case '*':
	case '+':
	case '?':
		return fault(p, "nothing to repeat");
	default:
		add_range(&set, (unsigned char)c, (unsigned char)c);
		return emit_set(p, set);
	}
}

/* {m}, {m,}, {m,n} at p->pos behind the brace; false when it is no repetition but text. */
static bool parse_counts(struct parser *p, long *least, long *most)
{
	size_t pos = p->pos;
	long numbers[2] = {-1, -1};

	for (int i = 0; i < 2; i++) {
		while (pos < p->len && p->text[pos] >= '0' && p->text[pos] <= '9' &&
		       numbers[i] < 10000)
			numbers[i] =
			    (numbers[i] < 0 ? 0 : numbers[i]) * 10 + (p->text[pos++] - '0');
		if (i == 0 && (numbers[0] < 0 || pos >= p->len))
			return false;
		if (i == 0 && p->text[pos] != ',') {
			numbers[1] = numbers[0];
			break;
		}
		if (i == 0)
			pos++;
	}
	if (pos >= p->len || p->text[pos] != '}')
		return false;
	p->pos = pos + 1;
	*least = numbers[0];
	*most = numbers[1];
	return true;
}

/* Repeats the instructions from start to the end of the program; most -1: without limit. */
static int repeat(struct parser *p, unsigned start, long least, long most)
{
	unsigned end = p->regex->len, width = end - start;
	int rc = 0;

	if (most >= 0 && most < least)
		return fault(p, "repetition from more to less");
	if (least > 1000 || most > 1000)
		return fault(p, "repetition of more than 1000");
	for (long i = 1; i < least && rc == 0; i++)
		rc = copy(p, start, end);
	if (rc == 0 && most < 0 && least > 0) /* x+ behind the last copy */
		return emit(p, OP_SPLIT, p->regex->len - width, p->regex->len + 1);
	if (rc == 0 && most < 0) { /* x* */
		rc = insert(p, start, OP_SPLIT, start + 1, p->regex->len + 2);
		return rc < 0 ? rc : emit(p, OP_JUMP, start, 0);
	}
	if (rc == 0 && most == 0) {
		p->regex->len = start;
		return 0;
	}
	for (long i = least > 0 ? least : 1; i < most && rc == 0;
	     i++) { /* each further one optional */
		rc = emit(p, OP_SPLIT, p->regex->len + 1, p->regex->len + 1 + width);
		if (rc == 0)
			rc = copy(p, start, end);
	}
	if (rc == 0 && least == 0) /* and the first one too */
		rc = insert(p, start, OP_SPLIT, start + 1, start + 1 + width);
	return rc;
}

static int parse_piece(struct parser *p)
{
	unsigned start = p->regex->len;
	int rc = parse_atom(p);

	while (rc == 0 && more(p)) {
		long least = 0, most = -1;
		char c = p->text[p->pos];
		if (c == '*' || c == '+' || c == '?') {
			p->pos++;
			least = c == '+';
			most = c == '?' ? 1 : -1;
		} else if (c == '{') {
			p->pos++;
			if (!parse_counts(p, &least, &most)) {
				p->pos--; /* a brace that is text: the next atom */
				return 0;
			}
		} else {
			return 0;
		}
		if (more(p) && p->text[p->pos] == '?') /* lazy: the same lines match */
			p->pos++;
		rc = repeat(p, start, least, most);
	}
	return rc;
}

static int parse_sequence(struct parser *p)
{
	while (more(p) && p->text[p->pos] != '|' && p->text[p->pos] != ')') {
		int rc = parse_piece(p);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int parse_choice(struct parser *p)
{
	unsigned start = p->regex->len;
	int rc = parse_sequence(p);

	while (rc == 0 && more(p) && p->text[p->pos] == '|') {
		p->pos++;
		/* split(left, right); left; jump(end); right. The jump's end is known
		 * afterwards. */
		rc = insert(p, start, OP_SPLIT, start + 1, p->regex->len + 2);
		unsigned jump = p->regex->len;
		if (rc == 0)
			rc = emit(p, OP_JUMP, 0, 0);
		if (rc == 0)
			rc = parse_sequence(p);
		if (rc == 0)
			p->regex->code[jump].x = p->regex->len;
	}
	return rc;
}

/* ---- life ---- */

/* Which bytes a match can begin with. */
static void find_first(struct regex *regex)
{
	AUTO_FREE unsigned char *seen = mem_calloc(regex->len, 1);
	unsigned depth = 0;

	regex->stack[depth++] = 0;
	while (depth) {
		unsigned at = regex->stack[--depth];
		const struct instruction *ins = &regex->code[at];
		if (seen[at])
			continue;
		seen[at] = 1;
		if (ins->op == OP_SET) {
			for (size_t i = 0; i < 4; i++)
				regex->first.bits[i] |= regex->sets[ins->x].bits[i];
		} else if (ins->op == OP_JUMP || ins->op == OP_SPLIT) {
			regex->stack[depth++] = ins->x;
			if (ins->op == OP_SPLIT)
				regex->stack[depth++] = ins->y;
		} else {
			regex->first_any = true;
		}
	}
}

struct regex *regex_new(const char *text, size_t len, bool ignore_case, struct error *err)
{
	AUTO_REGEX struct regex *regex = mem_calloc(1, sizeof(*regex));
	struct parser p = {regex, text, len, 0, ignore_case, 0, err};

	if (len == 0 || len > REGEX_BYTES_MAX) {
		error_set(err, ERROR_USAGE,
			  "regular expression is empty or longer than %d bytes",
			  REGEX_BYTES_MAX);
		return NULL;
	}
	int rc = parse_choice(&p);
	if (rc == 0 && more(&p))
		rc = fault(&p, "')' without '('");
	if (rc == 0)
		rc = emit(&p, OP_MATCH, 0, 0);
	if (rc < 0)
		return NULL;
	regex->now = mem_calloc(regex->len, sizeof(*regex->now));
	regex->next = mem_calloc(regex->len, sizeof(*regex->next));
	regex->mark = mem_calloc(regex->len, sizeof(*regex->mark));
	regex->stack = mem_calloc(2 * (size_t)regex->len + 2, sizeof(*regex->stack));
	find_first(regex);
	return MEM_STEAL(regex);
}

void regex_free(struct regex *regex)
{
	if (!regex)
		return;
	free(regex->code);
	free(regex->sets);
	free(regex->now);
	free(regex->next);
	free(regex->mark);
	free(regex->stack);
	free(regex);
}

void regex_free_ptr(struct regex **regex)
{
	regex_free(*regex);
	*regex = NULL;
}

/* ---- search ---- */

static bool is_word(const char *line, size_t len, size_t at)
{
	struct byte_set word;

	class_of('w', &word);
	return at < len && has(&word, (unsigned char)line[at]);
}

static bool at_boundary(const char *line, size_t len, size_t at)
{
	return (at > 0 && is_word(line, len, at - 1)) != is_word(line, len, at);
}

static bool holds(enum op op, const char *line, size_t len, size_t at)
{
	switch (op) {
	case OP_BEGIN:
		return at == 0;
	case OP_END:
		return at == len;
	case OP_WORD:
		return at_boundary(line, len, at);
	case OP_NOT_WORD:
		return !at_boundary(line, len, at);
	case OP_SET:
	case OP_SPLIT:
	case OP_JUMP:
	case OP_MATCH:
		break;
	}
	return false;
}

/* Adds a position and what follows from it without a byte; true when a match is reached. */
static bool add_state(struct regex *regex, unsigned *list, unsigned *count, unsigned start,
		      unsigned stamp, const char *line, size_t len, size_t at)
{
	unsigned depth = 0;

	regex->stack[depth++] = start;
	while (depth) {
		unsigned pc = regex->stack[--depth];
		const struct instruction *ins = &regex->code[pc];
		if (regex->mark[pc] == stamp)
			continue;
		regex->mark[pc] = stamp;
		if (ins->op == OP_MATCH)
			return true;
		if (ins->op == OP_SET) {
			list[(*count)++] = pc;
		} else if (ins->op == OP_SPLIT || ins->op == OP_JUMP) {
			regex->stack[depth++] = ins->x;
			if (ins->op == OP_SPLIT)
				regex->stack[depth++] = ins->y;
		} else if (holds(ins->op, line, len, at)) {
			regex->stack[depth++] = pc + 1;
		}
	}
	return false;
}

bool regex_search(struct regex *regex, const char *line, size_t len)
{
	unsigned *now = regex->now, *next = regex->next, count = 0, stamp = 0;

	if (len >= UINT_MAX - 2)
		return false;
	memset(regex->mark, 0, regex->len * sizeof(*regex->mark));
	for (size_t at = 0; at <= len; at++) {
		if (count == 0 &&
		    !regex->first_any) { /* nothing is under way: go on to a beginning */
			while (at < len && !has(&regex->first, (unsigned char)line[at]))
				at++;
			if (at == len)
				return false;
			stamp++;
		}
		if (at == 0)
			stamp = 1;
		if (add_state(regex, now, &count, 0, stamp, line, len, at))
			return true;
		if (at == len)
			return false;
		unsigned grown = 0;
		stamp++;
		for (unsigned i = 0; i < count; i++) {
			const struct instruction *ins = &regex->code[now[i]];
			if (has(&regex->sets[ins->x], (unsigned char)line[at]) &&
			    add_state(regex, next, &grown, now[i] + 1, stamp, line, len,
				      at + 1))
				return true;
		}
		unsigned *swap = now;
		now = next;
		next = swap;
		count = grown;
	}
	return false;
}
