/*
 * The forms that SSH signatures and public keys have in text: armour (PROTOCOL.sshsig of
 * OpenSSH) and fingerprints (RFC 4253 section 6.6, ssh-keygen(1) -l). Pure.
 */
#ifndef PUBLISH_SSHSIG_H
#define PUBLISH_SSHSIG_H

#include <stddef.h>

struct strbuf;

#define SSHSIG_ARMOUR_MAX ((size_t)65536)

/* The blob within the armour, appended. 0, or -1 when the armour is malformed. */
int sshsig_unarmour(const char *text, size_t len, struct strbuf *blob);
/* The armour of a blob, appended. */
void sshsig_armour(const char *blob, size_t len, struct strbuf *out);

/* "SHA256:…" of the first public key line ("TYPE BASE64 …"). 0, or -1 when there is none. */
int sshsig_fingerprint(const char *line, size_t len, char fingerprint[64]);

#endif
