#include "unsay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/fds.h"
#include "pipeline/publish/helper.h"
#include "pipeline/scrub.h"
#include "pipeline/secret.h"

#define PART_MIN 4

static void take_out(const char *key, size_t len, struct strbuf *text)
{
	const struct scrub scrub = {key, len};
	struct strbuf clean AUTO_STRBUF = STRBUF_NONE;

	/* its beginning, where what git printed was cut off */
	for (size_t part = len < text->len ? len : text->len; text->full && part >= PART_MIN;
	     part--)
		if (memcmp(text->data + text->len - part, key, part) == 0) {
			text->len -= part;
			text->data[text->len] = '\0';
			break;
		}
	if (!scrub_finds(&scrub, text->data, text->len))
		return;
	strbuf_init(&clean, text->max);
	scrub_text(&scrub, text->data, text->len, &clean);
	strbuf_reset(text);
	strbuf_add(text, clean.data, clean.len);
}

void unsay_secret(const char *secret, size_t len, const char *user, struct strbuf *text)
{
	struct error ignored = {0};
	const char *token = NULL;
	size_t token_len = 0;
	char *name AUTO_FREE = askpass_split(secret, len, user, &token, &token_len, &ignored);
	struct strbuf pair AUTO_STRBUF = STRBUF_NONE, basic AUTO_STRBUF = STRBUF_NONE;

	if (!name || !text->len)
		return; /* git got none */
	strbuf_init(&pair, STRBUF_MAX);
	strbuf_init(&basic, STRBUF_MAX);
	strbuf_addf(&pair, "%s:", name);
	strbuf_add(&pair, token, token_len);
	text_base64(&basic, pair.data, pair.len);
	take_out(basic.data, basic.len, text);
	take_out(token, token_len, text);
	mem_wipe(pair.data, pair.len);
	mem_wipe(basic.data, basic.len);
}

static const char *user_of(const char *const *env)
{
	static const char name[] = HELPER_ENV_USER "=";

	for (; env && *env; env++)
		if (strncmp(*env, name, sizeof(name) - 1) == 0)
			return *env + sizeof(name) - 1;
	return "";
}

int unsay(const char *const *env, struct strbuf *const *texts, size_t count, struct error *err)
{
	/* secret_take closes what it reads */
	int fd = fcntl(FD_SECRET, F_DUPFD_CLOEXEC, FD_LAST + 1);
	struct secret *secret = fd < 0 ? NULL : secret_take(fd, err);
	const char *text;
	size_t len;

	if (fd < 0)
		error_errno(err, ERROR_FAILED, errno, "the token for git");
	if (!secret) {
		for (size_t i = 0; i < count; i++)
			strbuf_reset(texts[i]);
		return err->kind;
	}
	text = secret_expose(secret, &len);
	for (size_t i = 0; i < count; i++)
		unsay_secret(text, len, user_of(env), texts[i]);
	secret_wipe(secret);
	return 0;
}
