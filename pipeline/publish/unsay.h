/*
 * A server knows the token that git was given, and may say it back in what git then prints: whoever logs or
 * shows that must have it without.
 */
#ifndef PUBLISH_UNSAY_H
#define PUBLISH_UNSAY_H

#include <stddef.h>

struct error;
struct strbuf;

/*
 * Takes the token of FD_SECRET, which stays open, out of the texts: as it is, and as it goes over the wire (Basic,
 * RFC 7617). env: git's, which names the user. 0; or an error kind when it cannot be read: then nothing of the texts
 * may be shown, and they are empty.
 */
int unsay(const char *const *env, struct strbuf *const *texts, size_t count, struct error *err);

/* The same for a secret in hand. Pure. */
void unsay_secret(const char *secret, size_t len, const char *user, struct strbuf *text);

#endif
