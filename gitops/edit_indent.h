/*
 * The last step of the ladder (gitops/edit_lines.h): an edit whose lines differ from the file's
 * in nothing but indentation, by one consistent map. Each indentation of the edit stands for
 * one of the file; new lines are indented by the map, or by steps that it shows. Pure.
 */
#ifndef GITOPS_EDIT_INDENT_H
#define GITOPS_EDIT_INDENT_H

#include <stdbool.h>
#include <stddef.h>

struct line;
struct lines;
struct strbuf;

/* From the edit's indentations to the file's. Both point into texts that live longer. */
struct indent_pair {
	const char *from, *to;
	size_t from_len, to_len;
};

struct indent_map {
	struct indent_pair *pairs; /* owned */
	size_t len, cap;
};
void indent_release(struct indent_map *map);
#define AUTO_INDENT __attribute__((cleanup(indent_release)))

/* Whether the file's lines match old's at one consistent map, which is left in map. */
bool indent_match(const struct line *file, const struct lines *old, struct indent_map *map);

/* Appends a new line's text, without its end, indented by the map (NULL: as it is). 0, or -1
 * when the map does not say how. */
int indent_add_line(const struct indent_map *map, const struct line *line, struct strbuf *out);

#endif
