/*
 * The replay provider: plays the assistant lines of a recorded conversation (format:
 * conversation.h) in order. No network, no key, no tokens; for demos, tests and `agent replay`.
 */
#ifndef MODEL_REPLAY_H
#define MODEL_REPLAY_H

struct error;
struct json;
struct talk;

/*
 * The recording's next assistant line, as one of this round: as many are passed over as the
 * conversation holds already. 0 and *line (new; the caller appends it); ERROR_FAILED when the
 * recording is at its end.
 */
int replay_next(const struct talk *recording, const struct talk *talk, long long round,
		const char *model, struct json **line, struct error *err);

#endif
