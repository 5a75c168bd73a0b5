/*
 * Secrets: the only file that opens, carries and exposes them. secret.c draws the path at its
 * top.
 */
#ifndef PIPELINE_SECRET_H
#define PIPELINE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/stages.h"

struct error;
struct secret;

#define SECRET_MAX 16384 /* bytes */

/* The variable, of systemd.exec(5), with the directory of credential: sources: who starts a process that opens such
 * ones passes it on. */
#define SECRET_ENV_DIRECTORY "CREDENTIALS_DIRECTORY"

/*
 * Supervisor side. Opens a secret's source for one row and returns a descriptor to hand on as
 * FD_SECRET, -1 with err. source: "env:NAME" (moved to a sealed memfd at secret_adopt_env,
 * which must have run first), "file:PATH" or "credential:NAME" ($CREDENTIALS_DIRECTORY/NAME):
 * opened, not read, owner and mode checked; "command:ARGV": run once, its output straight into
 * a memfd, its status checked (deadline 30 s).
 */
int secret_open(const char *source, struct error *err);

/*
 * First thing that agent does in main: each environment variable that holds a secret by a
 * well-known name (ANTHROPIC_API_KEY, OPENAI_API_KEY, AGENT_…: the list is in secret.c) or that
 * the argv's --*-key env:NAME / configuration names later is moved to a sealed memfd and
 * overwritten in place in the process's own environment block. Called again with one name for a
 * configured env:NAME. A name that is not set is no error here; secret_open says it. Of the addresses
 * of proxies (https_proxy and the like) only the user and password go, decoded.
 */
void secret_adopt_env(char **envp, const char *extra_name);

/* Whether a variable's value, or the user and password in the address of a proxy that it was, is kept. */
bool secret_has_env(const char *name);

/* Stage side: reads FD_SECRET whole by pread into locked memory and closes it;
 * strips one trailing newline. NULL with err. */
struct secret *secret_take(int fd, struct error *err);
/* The bytes, for one call into a library. Call sites are counted by tests/lint. */
const char *secret_expose(const struct secret *secret, size_t *len);
void secret_wipe(struct secret *secret); /* overwrites and frees; NULL is fine */

#endif
