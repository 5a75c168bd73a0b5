/*
 * What kind of private key a text is, so that a wrong one gets a clear message instead of
 * ssh-add's. Only the armour and the name of the cipher are looked at, never the key itself.
 * Pure.
 */
#ifndef PUBLISH_SSHKEY_H
#define PUBLISH_SSHKEY_H

#include <stddef.h>

#include "pipeline/stages.h"

struct error;

/* What a key is for: the words of the messages about it. */
struct sshkey_use {
	const char *noun;   /* "push credential" */
	const char *config; /* key of the configuration that names its source */
	enum stage_id row;  /* whose child ssh-agent is */
	const char *may;    /* what it should be allowed, for a key of its own */
};
extern const struct sshkey_use sshkey_push, sshkey_signing, sshkey_mirror;

/* 0 for an unencrypted private key that ssh-add may take; ERROR_USAGE with what it is otherwise
 * and what to do. Nothing of the text gets into err. (PROTOCOL.key of OpenSSH; RFC 7468; RFC
 * 1421 section 4.6.1.1) */
int sshkey_check(const char *text, size_t len, const struct sshkey_use *use, struct error *err);

#endif
