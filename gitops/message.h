/*
 * The commit message as finished bytes. Title and body were written by a model, so they stay
 * text: they can neither pass for a trailer, nor steer a CI service, nor close an issue, nor
 * call a person, nor end the message. Pure.
 *
 * What is recognised, and where from: git-interpret-trailers(1); the CI services' "skip"
 * words (GitHub, GitLab, Azure, CircleCI, Travis, AppVeyor, Netlify and the like); the
 * forges' closing keywords.
 */
#ifndef GITOPS_MESSAGE_H
#define GITOPS_MESSAGE_H

#include <stddef.h>

struct error;
struct strbuf;

#define MESSAGE_SUBJECT_MAX 72	/* characters */
#define MESSAGE_BODY_MAX 16384	/* bytes */
#define MESSAGE_TRAILER_MAX 400 /* bytes of one */

/*
 * Appends the whole message, which ends with a newline: subject (title, or fallback when
 * nothing of it is left, or a fixed one), body, and the trailers as the last paragraph.
 * trailers are ours ("Key: value"), though their values may be foreign. 0, or ERROR_USAGE
 * when a trailer has no valid key.
 */
int message_format(const char *title, const char *fallback, const char *body,
		   const char *const *trailers, size_t trailer_count, struct strbuf *out,
		   struct error *err);

#endif
