#include "sshkey.h"

#include <stdbool.h>

#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

static bool begins(const char *text, size_t len, const char *prefix)
{
	return len >= strlen(prefix) && memcmp(text, prefix, strlen(prefix)) == 0;
}

static bool holds(const char *text, size_t len, const char *needle)
{
	return memmem(text, len, needle, strlen(needle)) != NULL;
}

const struct sshkey_use sshkey_push = {"push credential", "publish.sshKey", STAGE_PUBLISH,
				       ", that may write this one repository"};
const struct sshkey_use sshkey_signing = {"signing key", "publish.signingKey", STAGE_PUBLISH,
					  ""};
const struct sshkey_use sshkey_mirror = {"read credential", "mirror.NAME.sshKey", STAGE_MIRROR,
					 ", that may read this one repository"};

static int refuse(struct error *err, const struct sshkey_use *use, const char *why)
{
	return error_set(err, ERROR_USAGE, "the %s %s", use->noun, why);
}

static int refuse_source(struct error *err, const struct sshkey_use *use, const char *why)
{
	refuse(err, use, why);
	return error_next(err, "check the source that %s names", use->config);
}

static int refuse_encrypted(struct error *err, const struct sshkey_use *use)
{
	refuse(err, use, "is an SSH key with a passphrase, which nobody is here to type");
	return error_next(err,
			  "make a key of its own for the agent, without a passphrase%s: "
			  "ssh-keygen -t ed25519 -N '' -f FILE",
			  use->may);
}

/*
 * The cipher's name stands at the start of the blob: "openssh-key-v1\0", a length of four
 * bytes, the name. Only so many characters of base64 are decoded as reach "none" (23 bytes):
 * they hold nothing of the key.
 */
static int check_openssh(const char *body, size_t len, const struct sshkey_use *use,
			 struct error *err)
{
	static const char plain[] = "openssh-key-v1\0\0\0\0\4none";
	AUTO_STRBUF struct strbuf blob = STRBUF_NONE;
	char head[32];
	size_t n = 0;

	for (size_t i = 0; i < len && n < sizeof(head); i++)
		if (body[i] != '\n' && body[i] != '\r' && body[i] != ' ')
			head[n++] = body[i];
	strbuf_init(&blob, 64);
	if (n < sizeof(head) || text_unbase64(&blob, head, n) < 0 ||
	    blob.len < sizeof(plain) - 1 || memcmp(blob.data, plain, 15) != 0)
		return refuse_source(err, use, "is a damaged OpenSSH key");
	if (memcmp(blob.data, plain, sizeof(plain) - 1) != 0)
		return refuse_encrypted(err, use);
	return 0;
}

int sshkey_check(const char *text, size_t len, const struct sshkey_use *use, struct error *err)
{
	static const char openssh[] = "-----BEGIN OPENSSH PRIVATE KEY-----";

	while (len && strchr(" \t\r\n", *text) && *text) {
		text++;
		len--;
	}
	if (begins(text, len, openssh))
		return check_openssh(text + sizeof(openssh) - 1, len - (sizeof(openssh) - 1),
				     use, err);
	if (begins(text, len, "-----BEGIN ENCRYPTED PRIVATE KEY-----") ||
	    (begins(text, len, "-----BEGIN ") && holds(text, len, "Proc-Type: 4,ENCRYPTED")))
		return refuse_encrypted(err, use);
	if (begins(text, len, "-----BEGIN ") &&
	    holds(text, len < 80 ? len : 80, "PRIVATE KEY-----"))
		return 0;
	if (begins(text, len, "ssh-") || begins(text, len, "ecdsa-") ||
	    begins(text, len, "sk-") || begins(text, len, "---- BEGIN SSH2 PUBLIC KEY")) {
		refuse(err, use, "is a public SSH key");
		return error_next(err, "name the file with the private key");
	}
	if (begins(text, len, "PuTTY-User-Key-File-")) {
		refuse(err, use, "is a key in PuTTY's format");
		return error_next(err,
				  "convert it: puttygen KEY.ppk -O private-openssh -o FILE");
	}
	refuse(err, use, "is not an SSH private key");
	return error_next(err, "one is needed here: %s = file:PATH", use->config);
}
