/*
 * What agent maintain must know of a repository, out of the tree of one ref: the files that say what its tasks are, digests of
 * what a task sees, and what became of commits that tasks have made.
 */
#ifndef GITOPS_TASKS_H
#define GITOPS_TASKS_H

struct error;
struct json;

#define TASKS_DIR ".agent/maintain"
#define TASKS_MAX 200		  /* files */
#define TASKS_FILE_MAX (96 << 10) /* bytes of one */

/*
 * The job: {"paths":{"repo","common"?,"alternates"?},"rev":TEXT,"read":bool,"seen":[[PATTERN…]…],
 * "made":[{"commit":OID,"changes":[{"path","new_oid"}…]}…]}. The answer:
 *
 *	{"kind":"tasks","version":1,"commit","tree","ref":name|null,
 *	 "files":[{"path","text"} or {"path","why"}…],	when "read": *.md of TASKS_DIR, by name
 *	 "seen":[DIGEST…],	of paths, modes and contents that the patterns match; without patterns of the tree
 *	 "made":[{"merged":bool}…]}	whether the ref has the commit, or all that it changed as it changed it
 *
 * New, or NULL with err.
 */
struct json *tasks_read(const struct json *job, struct error *err);

#endif
