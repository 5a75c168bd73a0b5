#include "porcelain.h"

#include <stdbool.h>

#include <stdio.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

/* A line of a text, without its end; borrowed. */
struct line {
	const char *data;
	size_t len;
};

/* Takes the first line off the text. False when nothing is left. A carriage return at its end
 * goes with it. */
static bool take_line(const char **text, size_t *len, struct line *line)
{
	const char *end = *len ? memchr(*text, '\n', *len) : NULL;

	if (!*len)
		return false;
	line->data = *text;
	line->len = end ? (size_t)(end - *text) : *len;
	*len -= line->len + (end != NULL);
	*text += line->len + (end != NULL);
	if (line->len && line->data[line->len - 1] == '\r')
		line->len--;
	return true;
}

static bool begins(const struct line *line, const char *prefix)
{
	return line->len >= strlen(prefix) && memcmp(line->data, prefix, strlen(prefix)) == 0;
}

/* Whether needle is in the len bytes at text. */
static bool holds(const char *text, size_t len, const char *needle)
{
	return memmem(text, len, needle, strlen(needle)) != NULL;
}

static enum push_outcome outcome_of(char flag, const char *summary, size_t len)
{
	static const struct {
		const char *words;
		enum push_outcome outcome;
	} reasons[] = {
	    {"(stale info)", PUSH_STALE},
	    {"hook declined)", PUSH_DECLINED},
	    {"(failed to update ref)", PUSH_RACED},
	    {"(cannot lock ref", PUSH_RACED},
	    {"(failed to lock", PUSH_RACED},
	    {"(incorrect old value provided)", PUSH_RACED},
	    {"(shallow update not allowed)", PUSH_SHALLOW},
	    {"new shallow roots not allowed", PUSH_SHALLOW},
	    {"(branch is currently checked out)", PUSH_DENIED},
	    {"(deny updating a hidden ref)", PUSH_DENIED},
	    {"(non-fast-forward)", PUSH_DENIED},
	    {"prohibited)", PUSH_DENIED},
	    {"(funny refname)", PUSH_DENIED},
	    {"(protected ", PUSH_DENIED},
	};

	switch (flag) {
	case '*':
		return PUSH_NEW;
	case ' ':
	case '+':
		return PUSH_UPDATED;
	case '=':
		return PUSH_ALREADY;
	case '!':
		break;
	default:
		return PUSH_NO_LINE;
	}
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (holds(summary, len, reasons[i].words))
			return reasons[i].outcome;
	return PUSH_REJECTED;
}

/* A status line, FLAG TAB FROM:TO TAB SUMMARY, of the refspec. */
static bool take_status(const struct line *line, const char *refspec,
			struct push_status *status)
{
	size_t len = strlen(refspec);
	const char *summary = line->data + 2 + len + 1;

	if (line->len < len + 4 || memcmp(line->data + 2, refspec, len) != 0 ||
	    line->data[2 + len] != '\t' || status->outcome != PUSH_NO_LINE)
		return false;
	text_escape(status->summary, sizeof(status->summary), summary,
		    line->len - (2 + len + 1));
	status->outcome = outcome_of(line->data[0], summary, line->len - (2 + len + 1));
	return true;
}

static bool is_success(const struct push_status *status)
{
	return status->outcome == PUSH_NEW || status->outcome == PUSH_UPDATED ||
	       status->outcome == PUSH_ALREADY;
}

/* What the one means together with the other. */
static void join(struct push_status *status, const struct push_status *other)
{
	if (is_success(status) && !is_success(other))
		*status = (struct push_status){.outcome = PUSH_NO_LINE};
	if (status->outcome == PUSH_REJECTED && strstr(status->summary, "atomic push fail") &&
	    other->outcome != PUSH_NO_LINE && !is_success(other)) {
		*status = *other;
		/* only the ref of the result itself may be asked about and tried again */
		if (status->outcome == PUSH_STALE)
			status->outcome = PUSH_REJECTED;
	}
}

void porcelain_parse(const char *text, size_t len, const char *oid, const char *ref,
		     const char *other, struct push_status *status)
{
	AUTO_FREE char *refspec = mem_printf("%s:%s", oid, ref);
	struct push_status second = {.outcome = PUSH_NO_LINE};
	struct line line;

	*status = (struct push_status){.outcome = PUSH_NO_LINE};
	while (take_line(&text, &len, &line)) {
		/* other lines ("To URL", "Done") have no tab there */
		if (line.len < 2 || line.data[1] != '\t')
			continue;
		if (!take_status(&line, refspec, status) &&
		    !(other && take_status(&line, other, &second))) {
			*status = (struct push_status){.outcome = PUSH_NO_LINE};
			return;
		}
	}
	if (other)
		join(status, &second);
}

int porcelain_ls_remote(const char *text, size_t len, const char *ref, char tip[65],
			struct error *err)
{
	int found = 0;

	/* git matches the end of names too ("refs/x/refs/heads/y"): only the very name counts
	 */
	while (len) {
		const char *end = memchr(text, '\n', len), *tab = memchr(text, '\t', len);
		size_t width = tab ? (size_t)(tab - text) : 0;
		AUTO_FREE char *oid = mem_strndup(text, width > 64 ? 64 : width);

		if (!end || !tab || tab > end || (width != 40 && width != 64) ||
		    !text_is_hex(oid, width))
			return error_set(err, ERROR_FAILED,
					 "the remote's list of refs is malformed");
		if ((size_t)(end - tab) == strlen(ref) + 1 &&
		    memcmp(tab + 1, ref, strlen(ref)) == 0) {
			snprintf(tip, 65, "%s", oid);
			found = 1;
		}
		len -= (size_t)(end + 1 - text);
		text = end + 1;
	}
	return found;
}

struct symptom {
	const char *words; /* of git, curl or ssh with LC_ALL=C */
	enum error_kind kind;
	const char *message;
	const char *next; /* "%s" stands for the host */
};

static const struct symptom https_symptoms[] = {
    {"Authentication failed", ERROR_USAGE, "the server refused the credential",
     "check the source that publish.token names: the token may have expired or lack the "
     "right to push"},
    {"could not read Username", ERROR_USAGE,
     "the server asks for a credential and there is none",
     "name its source: publish.token = env:NAME or file:PATH"},
    {"could not read Password", ERROR_USAGE,
     "the server asks for a credential and there is none that fits",
     "name its source: publish.token = env:NAME or file:PATH"},
    {"returned error: 401", ERROR_USAGE, "the server refused the credential",
     "check the source that publish.token names"},
    {"returned error: 403", ERROR_USAGE, "the credential may not push there",
     "give the token the right to write this repository"},
    {"returned error: 404", ERROR_USAGE, "no such repository, or the credential may not see it",
     "check the remote's URL and the token's rights"},
    {"not found", ERROR_USAGE, "no such repository, or the credential may not see it",
     "check the remote's URL and the token's rights"},
    {"returned error: 30", ERROR_USAGE,
     "the server redirects elsewhere; redirects are not followed",
     "set the remote's URL to the place that the server names"},
    {"certificate", ERROR_USAGE, "the server's certificate cannot be verified",
     "if its authority is your own, name it: publish.ca = FILE"},
    {"timed out", ERROR_FAILED, "the server did not answer in time",
     "try again with agent publish"},
};

static const struct symptom ssh_symptoms[] = {
    {"REMOTE HOST IDENTIFICATION HAS CHANGED", ERROR_USAGE,
     "the server's host key is not the one in known_hosts: it has changed, or somebody is in "
     "between",
     "find out why; if the new key is right, replace the line for %s in known_hosts"},
    {"host key is known for", ERROR_USAGE, "known_hosts has no host key for the server",
     "check its fingerprint with the operator, then add a line for %s to known_hosts"},
    {"revoked", ERROR_USAGE, "known_hosts marks the server's host key as revoked",
     "ask the server's operator for the new host key of %s"},
    {"Host key verification failed", ERROR_USAGE, "the server's host key could not be verified",
     "check the line for %s in known_hosts"},
    {"Permission denied", ERROR_USAGE, "the server refused the SSH key",
     "check the source that publish.sshKey names, and that the server knows its public "
     "key"},
    {"no mutual signature", ERROR_USAGE,
     "server and SSH key have no signature algorithm in common", "use an ed25519 key"},
    {"Unable to negotiate", ERROR_FAILED, "no encryption method in common with the server",
     "the server's OpenSSH may be too old"},
    {"No user exists for uid", ERROR_FAILED, "ssh finds no user for the uid that agent runs as",
     "run agent as a user with an entry in the user database"},
    {"does not appear to be a git repository", ERROR_USAGE,
     "no repository at that path on the server", "check the remote's URL"},
    {"not found", ERROR_USAGE, "no repository at that path on the server",
     "check the remote's URL"},
    {"timed out", ERROR_FAILED, "the server did not answer in time",
     "try again with agent publish"},
};

static const struct symptom local_symptoms[] = {
    {"unpack", ERROR_FAILED, "the remote could not take the objects",
     "its messages are in the publish log"},
};

/* What git adds to the words of ssh, which say more. */
static bool says_nothing(const struct line *line)
{
	static const char *const empty[] = {
	    "fatal: Could not read from remote repository",
	    "Please make sure you have the correct access rights", "and the repository exists",
	    "@@@"};

	for (size_t i = 0; i < ARRAY_LEN(empty); i++)
		if (begins(line, empty[i]))
			return true;
	return line->len == 0;
}

/* The line for the message: the one with the words, or, where words is NULL, the last that says
 * something. */
static void telling_line(const char *text, size_t len, const char *words, char *out,
			 size_t size)
{
	struct line line, found = {"", 0};

	while (take_line(&text, &len, &line))
		if (words ? !found.len && holds(line.data, line.len, words)
			  : !says_nothing(&line))
			found = line;
	for (size_t i = 0; i < 2; i++)
		if (begins(&found, i ? "error: " : "fatal: ")) {
			found.data += 7;
			found.len -= 7;
		}
	text_escape(out, size, found.data, found.len);
}

/* Without what the server's hooks said ("remote: …"): it may not steer the diagnosis. */
static void own_words(const char *text, size_t len, struct strbuf *out)
{
	struct line line;

	while (take_line(&text, &len, &line)) {
		if (begins(&line, "remote:"))
			continue;
		strbuf_add(out, line.data, line.len);
		strbuf_addc(out, '\n');
	}
}

static int diagnose(const struct remote *remote, const char *text, size_t len,
		    struct error *err)
{
	const struct symptom *symptoms = local_symptoms;
	size_t count = ARRAY_LEN(local_symptoms);
	char words[512];

	if (remote->kind == REMOTE_HTTPS) {
		symptoms = https_symptoms;
		count = ARRAY_LEN(https_symptoms);
	} else if (remote->kind == REMOTE_SSH) {
		symptoms = ssh_symptoms;
		count = ARRAY_LEN(ssh_symptoms);
	}
	for (size_t i = 0; i < count; i++) {
		const char *mark = strstr(symptoms[i].next, "%s");
		AUTO_FREE char *host = NULL;

		if (!holds(text, len, symptoms[i].words))
			continue;
		telling_line(text, len, symptoms[i].words, words, sizeof(words));
		host = remote->host ? remote_host_key_name(remote) : mem_strdup("");
		error_set(err, symptoms[i].kind, "cannot push to %s: %s (%s)", remote->url,
			  symptoms[i].message, words);
		if (!mark)
			return error_next(err, "%s", symptoms[i].next);
		return error_next(err, "%.*s%s%s", (int)(mark - symptoms[i].next),
				  symptoms[i].next, host, mark + 2);
	}
	telling_line(text, len, NULL, words, sizeof(words));
	return error_set(err, ERROR_FAILED, "cannot push to %s: %s", remote->url,
			 words[0] ? words : "git ended without saying why");
}

int porcelain_diagnose(const struct remote *remote, const char *text, size_t len,
		       struct error *err)
{
	AUTO_STRBUF struct strbuf own = STRBUF_NONE;

	strbuf_init(&own, len + 2);
	own_words(text, len, &own);
	return diagnose(remote, own.data, own.len, err);
}

void porcelain_server_text(const char *text, size_t len, struct strbuf *out)
{
	struct line line;

	while (take_line(&text, &len, &line)) {
		size_t from = line.len > 7 && line.data[7] == ' ' ? 8 : 7, to = line.len;

		/* git has this from the server's report, which says "unpacker error" of each ref */
		if (begins(&line, "error: remote unpack failed:"))
			from = strlen("error: remote ");
		else if (!begins(&line, "remote:"))
			continue;
		while (to > from && line.data[to - 1] == ' ')
			to--;
		strbuf_add(out, line.data + from, to - from);
		strbuf_addc(out, '\n');
	}
}
