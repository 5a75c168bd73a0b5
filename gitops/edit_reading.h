/*
 * The ways in which one hunk can be read, and the search for its place: the part of
 * gitops/edit_hunk.h that knows how models spoil a hunk. Pure.
 */
#ifndef GITOPS_EDIT_READING_H
#define GITOPS_EDIT_READING_H

#include "gitops/edit.h"
#include "gitops/edit_lines.h"

/* Old and new lines of a hunk; they point into its body. Each line's end is 1, or 2 where the
 * patch has a CR. */
struct reading {
	struct lines old, now;	 /* owned arrays */
	long *map;		 /* owned: for each new line the old one that it is, or -1 */
	bool old_open, now_open; /* the last line has no end, the patch says */
	bool changes;		 /* a line is added or removed */
	size_t *candidates, candidate_count; /* owned; of readings_choose */
};

#define READINGS_MAX 5

struct readings {
	struct reading items[READINGS_MAX]; /* the first is the hunk as it is written */
	size_t len;
};
void readings_init(struct readings *readings, const struct edit_hunk *hunk, bool search);
void readings_release(struct readings *readings);
#define AUTO_READINGS __attribute__((cleanup(readings_release)))

enum choice_found {
	CHOICE_NONE,
	CHOICE_NO_SCOPE, /* found, but not behind the scope that it must be behind */
	CHOICE_ONE,
	CHOICE_SEVERAL,
	CHOICE_TOO_MUCH, /* too much work */
};

struct choice {
	enum choice_found found;
	const struct reading *reading;
	struct place place;
	enum edit_level level;
};

/* Looks for the hunk's place; behind: first line behind the hunk before. places: all that there
 * are at the level that decides. */
void readings_choose(struct readings *readings, const struct text_file *file,
		     const struct edit_hunk *hunk, size_t behind, struct choice *choice,
		     struct places *places);

/* Whether the new lines of any reading are in the file, where the old ones are not. */
bool readings_applied(struct readings *readings, const struct text_file *file);

/* Whether a reading that only adds lines has them at its place already. */
bool reading_is_there(const struct reading *reading, const struct text_file *file,
		      const struct place *place, enum edit_level level);

/* Whether an old line stands for lines that were left out. */
bool reading_elides(const struct reading *reading);

#endif
