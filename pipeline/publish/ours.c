#include "ours.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gitops/commit.h"
#include "gitops/repo.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/publish/sign.h"
#include "pipeline/publish/sshsig.h"
#include "pipeline/publish/sshverify.h"

bool ours_names_issue(const char *bytes, size_t len, const char *issue)
{
	char *line AUTO_FREE = mem_printf(OURS_TRAILER "%s\n", issue);
	size_t size = strlen(line), last = 0;

	while (len && bytes[len - 1] == '\n' && len > 1 && bytes[len - 2] == '\n')
		len--;
	for (size_t at = 0; at + 1 < len; at++)
		if (bytes[at] == '\n' && bytes[at + 1] == '\n')
			last = at + 2;
	for (size_t at = last; at + size <= len;) {
		const char *end;

		if (memcmp(bytes + at, line, size) == 0)
			return true;
		end = memchr(bytes + at, '\n', len - at);
		at = end ? (size_t)(end - bytes) + 1 : len;
	}
	return false;
}

/* A file of allowed signers with our own key alone, for commits alone. */
static int allow_ourselves(struct strbuf *allowed, struct error *err)
{
	struct strbuf line AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = open(SIGN_PUBLIC_KEY, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	const char *space;
	size_t key;

	strbuf_init(&line, 65536);
	if (fd < 0 || fd_read_all(fd, &line) < 0)
		return error_errno(err, ERROR_FAILED, errno,
				   "scratch directory: " SIGN_PUBLIC_KEY);
	space = memchr(line.data, ' ', line.len);
	key = space ? (size_t)(space - line.data) + 1 : 0;
	if (!key || memchr(line.data, '\n', key))
		return error_set(err, ERROR_FAILED, SIGN_PUBLIC_KEY ": not a public key");
	key += strcspn(line.data + key, " \r\n");
	strbuf_adds(allowed, "agent namespaces=\"" SIGN_NAMESPACE_GIT "\" ");
	strbuf_add(allowed, line.data, key);
	strbuf_addc(allowed, '\n');
	return 0;
}

static int judge(const struct strbuf *bytes, const char *issue, char why[256],
		 struct error *err)
{
	struct strbuf plain AUTO_STRBUF = STRBUF_NONE, armour AUTO_STRBUF = STRBUF_NONE;
	struct strbuf allowed AUTO_STRBUF = STRBUF_NONE;
	struct error no = {0};
	struct sshverify found;

	strbuf_init(&plain, COMMIT_BYTES_MAX);
	strbuf_init(&armour, SSHSIG_ARMOUR_MAX);
	strbuf_init(&allowed, 65536);
	if (commit_split_signature(bytes->data, bytes->len, &plain, &armour, &no)) {
		snprintf(why, 256, "%.255s", no.message);
		return 0;
	}
	if (!armour.len) {
		snprintf(why, 256, "it is not signed");
		return 0;
	}
	if (allow_ourselves(&allowed, err) ||
	    sshverify_run(STAGE_PUBLISH, SIGN_NAMESPACE_GIT, plain.data, plain.len, armour.data,
			  armour.len, allowed.data, commit_time(bytes->data, bytes->len),
			  &found, err))
		return err->kind;
	if (found.result == SSHVERIFY_BAD)
		snprintf(why, 256, "its signature is not one of its bytes");
	else if (found.result == SSHVERIFY_GOOD)
		snprintf(why, 256, "it is signed by another key, %s", found.fingerprint);
	else if (!ours_names_issue(plain.data, plain.len, issue))
		snprintf(why, 256, "it is signed by our key, but made for another issue");
	else
		return 1;
	return 0;
}

/* The remote's object directories behind those of the job. New. */
static struct json *with_objects(const struct json *paths, const struct json *objects)
{
	struct json *all = js_copy(paths), *list = js_array_new();
	const struct json *have = js_get(paths, "alternates");

	if (js_is_string(have))
		js_push_str(list, js_text(have));
	for (size_t i = 0; i < js_len(have); i++)
		js_push_str(list, js_text(js_at(have, i)));
	if (js_is_string(objects))
		js_push_str(list, js_text(objects));
	for (size_t i = 0; i < js_len(objects); i++)
		js_push_str(list, js_text(js_at(objects, i)));
	js_set(all, "alternates", list);
	return all;
}

int ours_check(const struct json *paths, const struct json *objects, const char *commit,
	       const char *issue, char why[256], struct error *err)
{
	struct json *all AUTO_JSON = with_objects(paths, objects);
	struct strbuf bytes AUTO_STRBUF = STRBUF_NONE;
	struct gitops_repo *repo AUTO_REPO = NULL;
	struct error no = {0};

	strbuf_init(&bytes, COMMIT_BYTES_MAX);
	why[0] = '\0';
	if (repo_open_job(all, false, &repo, &no) || commit_read(repo, commit, &bytes, &no)) {
		snprintf(why, 256, "it cannot be read: %.200s", no.message);
		return 0;
	}
	return judge(&bytes, issue, why, err);
}
