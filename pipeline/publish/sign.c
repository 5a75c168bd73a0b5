#include "sign.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/publish/gitrun.h"
#include "pipeline/publish/helper.h"
#include "pipeline/publish/scratch.h"
#include "pipeline/publish/sshkey.h"
#include "pipeline/publish/sshsig.h"
#include "pipeline/secret.h"

#define SIGNATURE "signature"
#define INPUT "signing.input"

static const char agent_socket[] = "SSH_AUTH_SOCK=" HELPER_AGENT_SOCKET;
static const char *const sign_env[] = {
    "PATH=/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C", "TZ=UTC", agent_socket, NULL};

/* Runs one program to its end with data as its standard input. 0 when it ends with 0. */
static int run_keygen(struct signer *signer, const char *const *argv, const void *data,
		      size_t len, struct strbuf *out, struct error *err)
{
	struct gitrun run __attribute__((cleanup(gitrun_release)));
	int input AUTO_FD = -1;
	char words[256];

	gitrun_init(&run);
	if (scratch_write(INPUT, data, len, err))
		return err->kind;
	input = open(INPUT, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (input < 0)
		return error_errno(err, ERROR_FAILED, errno, "scratch directory: " INPUT);
	run.argv = argv;
	run.env = sign_env;
	run.stdin_fd = input;
	run.deadline_ms = signer->deadline_ms;
	if (gitrun_wait(&run, err))
		return error_wrap(err, "signing");
	if (run.status == 0) {
		strbuf_add(out, run.out.data, run.out.len);
		return out->full
			   ? error_set(err, ERROR_FAILED, "signing: %s says too much", argv[0])
			   : 0;
	}
	text_escape(words, sizeof(words), run.errs.data, run.errs.len);
	return error_set(err, ERROR_FAILED, "signing: %s failed: %s", argv[0], words);
}

/* The public half, as the agent has it: its first line names the one key. */
static int write_public_key(struct signer *signer, struct error *err)
{
	static const char *const argv[] = {"ssh-add", "-L", NULL};
	struct strbuf line AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&line, 65536);
	if (run_keygen(signer, argv, "", 0, &line, err))
		return err->kind;
	if (sshsig_fingerprint(line.data, line.len, signer->fingerprint) < 0)
		return error_set(err, ERROR_FAILED, "signing: ssh-add -L names no key");
	return scratch_write(SIGN_PUBLIC_KEY, line.data, line.len, err);
}

int signer_open(struct signer *signer, int key_fd, struct error *err)
{
	struct secret *key = secret_take(key_fd, err);
	int kind;

	*signer = (struct signer){.agent = SSHAGENT_NONE,
				  .deadline_ms = fd_now_ms() + SIGN_DEADLINE_MS};
	if (!key)
		return error_wrap(err, "signing key");
	kind = sshagent_start(&signer->agent, key, &sshkey_signing, signer->deadline_ms, err);
	secret_wipe(key);
	if (kind == 0)
		kind = write_public_key(signer, err);
	if (kind)
		signer_close(signer);
	return kind;
}

void signer_close(struct signer *signer)
{
	sshagent_stop(&signer->agent);
}

int signer_sign(struct signer *signer, const char *name_space, const void *data, size_t len,
		struct strbuf *out, struct error *err)
{
	const char *const sign[] = {"ssh-keygen", "-Y", "sign",		 "-q", "-n",
				    name_space,	  "-f", SIGN_PUBLIC_KEY, NULL};
	const char *const check[] = {"ssh-keygen", "-Y", "check-novalidate", "-q", "-n",
				     name_space,   "-s", SIGNATURE,	     NULL};
	struct strbuf armour AUTO_STRBUF = STRBUF_NONE, said AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&armour, SSHSIG_ARMOUR_MAX);
	strbuf_init(&said, 65536);
	if (run_keygen(signer, sign, data, len, &armour, err) ||
	    scratch_write(SIGNATURE, armour.data, armour.len, err) ||
	    run_keygen(signer, check, data, len, &said, err))
		return err->kind;
	strbuf_add(out, armour.data, armour.len);
	return out->full ? error_set(err, ERROR_FAILED, "signing: the signature is too long")
			 : 0;
}
