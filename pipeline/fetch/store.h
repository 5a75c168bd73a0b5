/*
 * The store of dependency layers, <state>/store/deps:
 *
 *	<key>/work/…  <key>/home/…   what lies below the work tree and below HOME
 *	<key>/manifest               "mode size sha256 path" of each, sorted; its SHA-256 is the digest
 *	<key>/layer.json             what was sealed: recipe, digest, counts
 *	by-tree/<hash>               the key of a base tree and plan
 *	.tmp-<run>/                  a warm that is under way, locked (flock) while its supervisor lives
 *
 * A layer appears by one rename or not at all. What a jail made is hostile: it is walked without
 * following links, and only plain files, directories and symbolic links are taken.
 */
#ifndef FETCH_STORE_H
#define FETCH_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct json;

#define STORE_KEY_SIZE 65 /* 64 hex digits and NUL */

/* ---- supervisor ---- */

/* Makes <state>/store/deps with by-tree/, and <state>/store/probe; when we are root gives deps
 * to uid. 0 or ERROR_FAILED. */
int store_prepare(const char *state, uid_t uid, struct error *err);

/* The sealed layer of a base tree and plan text, marked as used now (its directory's time): 0
 * and key, or ERROR_SKIPPED when there is none. Opens two files. */
int store_lookup(const char *state, const char *base_tree, const char *plan_text,
		 char key[STORE_KEY_SIZE]);

/* Called for what cannot be removed, since a killed jail left it with ids of the user's range: gives what is below
 * path back to the user. 0: it is worth another try. */
typedef int store_reclaim_fn(void *arg, const char *path);

/*
 * Makes .tmp-<run> with work/ and home/ (agent-jail opens both before agent-fetch has done
 * anything), gives it to uid when we are root, and locks it. Returns the lock, which the caller
 * keeps open as long as agent-fetch runs, or -1 with err. store_end removes what is left of it;
 * what it cannot, store_sweep does later.
 */
int store_begin(const char *state, const char *run, uid_t uid, struct error *err);
void store_end(const char *state, const char *run, int *lock, store_reclaim_fn *reclaim,
	       void *arg);

/* Removes what warms left that are no more. Returns how many. reclaim: NULL: there are no such ids. */
unsigned store_sweep(const char *state, store_reclaim_fn *reclaim, void *arg);

/* ---- agent-fetch ---- */

/* The file name below by-tree/. */
void store_tree_name(const char *base_tree, const char *plan_text, char name[STORE_KEY_SIZE]);

bool store_has(int deps_fd, const char *key);

/* Remembers the key for the tree; tmp_fd: .tmp-<run>, where the file is made. 0 or
 * ERROR_FAILED. */
int store_remember(int deps_fd, int tmp_fd, const char *tree_name, const char *key,
		   struct error *err);

struct seal {
	uint64_t max_files, max_bytes; /* caps */
	uint64_t files, bytes;	       /* found */
	char digest[STORE_KEY_SIZE];   /* of the manifest */
};

/*
 * Moves from/path to to/path (parents are made). Missing is ERROR_NO. Both are directories on
 * the same file system; path is relative, checked by the caller.
 */
int store_take(int from_fd, int to_fd, const char *path, struct error *err);

/*
 * Checks everything below dir_fd ("work", "home"), takes group and other write, set-uid,
 * set-gid and sticky bits away, and writes "manifest" there. 0; ERROR_NO when something is
 * there that no layer may hold or a cap is passed; ERROR_FAILED on input/output errors.
 */
int store_manifest(int dir_fd, struct seal *seal, struct error *err);

/* fsync of the tree, then renames .tmp-<run>/seal to <key>. 0 and *won true; *won false when
 * another warm was first (its layer counts, ours stays behind for removal). */
int store_seal(int deps_fd, int tmp_fd, const char *key, bool *won, struct error *err);

#endif
