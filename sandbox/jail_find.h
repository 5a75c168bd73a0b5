/*
 * What a test command wanted and the jail did not have: reading it off the end of its output,
 * and where it lies on this machine. The supervisor turns it into advice for people. Looks at
 * the file system (glob, stat, readlink), changes nothing. Output is hostile: only a plain name
 * is taken from it.
 */
#ifndef SANDBOX_JAIL_FIND_H
#define SANDBOX_JAIL_FIND_H

#include <stdbool.h>
#include <stddef.h>

#define JAIL_FIND_NAME 64 /* bytes of a program's name with its NUL */

/*
 * Where a command that the jail does not have lies on this machine: toolchains below home (nvm,
 * pyenv, rustup, sdkman, go, volta, asdf, mise, rbenv …), /usr/local/go, /opt, and whatever
 * path (as $PATH; may be NULL) leads to. Returns a new string, the directory or, where the
 * directory holds more than a toolchain, the file to admit; NULL when it is not found. *line
 * (may be NULL) becomes a new string, the configuration line that admits it: "[jail] path = …".
 */
char *jail_find_command(const char *home, const char *path, const char *name, char **line);

enum jail_lack {
	JAIL_LACK_NONE,
	JAIL_LACK_PROGRAM, /* name says which */
	JAIL_LACK_GIT,	   /* a git repository */
};

/* What the last lines of a command's output (as shells, env and make put it) say that was
 * missing. Pure. */
enum jail_lack jail_find_lack(const char *output, size_t len, char name[JAIL_FIND_NAME]);

/*
 * Both together: one line of advice for an output, a new string of plain text, or NULL when
 * there is nothing to say. has_git: the jail had a repository.
 */
char *jail_find_advice(const char *output, size_t len, const char *home, const char *path,
		       bool has_git);

#endif
