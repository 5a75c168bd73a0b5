#include "sshverify.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/publish/gitrun.h"
#include "pipeline/publish/scratch.h"

#define DEADLINE_MS 15000
#define INPUT "input"
#define SIGNATURE "signature"
#define ALLOWED "allowed_signers"

static const char *const plain_env[] = {"PATH=/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C",
					"TZ=UTC", NULL};

/* Runs ssh-keygen with the signed bytes as its input; its words are in run. 0 or an error kind. */
static int keygen(enum stage_id row, const char *const *argv, struct gitrun *run,
		  struct error *err)
{
	int input AUTO_FD = open(INPUT, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	gitrun_init(run);
	if (input < 0)
		return error_errno(err, ERROR_FAILED, errno, "scratch directory: " INPUT);
	run->row = row;
	run->argv = argv;
	run->env = plain_env;
	run->stdin_fd = input;
	run->deadline_ms = fd_now_ms() + DEADLINE_MS;
	return gitrun_wait(run, err);
}

/* "Good … signature with TYPE key SHA256:…" */
static void take_fingerprint(const struct strbuf *out, char fingerprint[SIGN_FINGERPRINT_SIZE])
{
	const char *at = memmem(out->data, out->len, " key SHA256:", 12);
	size_t len = 0;

	if (!at)
		return;
	at += 5;
	while (len + 1 < SIGN_FINGERPRINT_SIZE && at + len < out->data + out->len &&
	       (unsigned char)at[len] > ' ')
		len++;
	memcpy(fingerprint, at, len);
	fingerprint[len] = '\0';
}

static int check_bytes(enum stage_id row, const char *name_space, struct sshverify *found,
		       struct error *err)
{
	const char *const argv[] = {"ssh-keygen", "-Y", "check-novalidate", "-n",
				    name_space,	  "-s", SIGNATURE,	    NULL};
	struct gitrun run __attribute__((cleanup(gitrun_release)));

	if (keygen(row, argv, &run, err))
		return err->kind;
	if (run.status == 0) {
		take_fingerprint(&run.out, found->fingerprint);
		if (found->fingerprint[0])
			found->result = SSHVERIFY_GOOD;
	} else {
		text_escape(found->words, sizeof(found->words), run.errs.data,
			    strcspn(run.errs.data, "\r\n"));
	}
	return 0;
}

/* The first principal that the file has for the key; "" when there is none. */
static int find_principal(enum stage_id row, const char *verify_time, char principal[256],
			  struct error *err)
{
	const char *const argv[] = {"ssh-keygen", "-Y", "find-principals", verify_time, "-f",
				    ALLOWED,	  "-s", SIGNATURE,	   NULL};
	struct gitrun run __attribute__((cleanup(gitrun_release)));
	size_t len;

	principal[0] = '\0';
	if (keygen(row, argv, &run, err))
		return err->kind;
	len = strcspn(run.out.data, "\r\n,");
	if (run.status == 0 && len > 0 && len < 256) {
		memcpy(principal, run.out.data, len);
		principal[len] = '\0';
	}
	return 0;
}

static int check_signer(enum stage_id row, const char *name_space, const char *verify_time,
			struct sshverify *found, struct error *err)
{
	char principal[256];
	const char *const argv[] = {"ssh-keygen", "-Y",	     "verify",	verify_time, "-f",
				    ALLOWED,	  "-I",	     principal, "-n",	     name_space,
				    "-s",	  SIGNATURE, NULL};
	struct gitrun run __attribute__((cleanup(gitrun_release)));

	gitrun_init(&run);
	if (find_principal(row, verify_time, principal, err) || !principal[0])
		return err->kind;
	gitrun_release(&run);
	if (keygen(row, argv, &run, err))
		return err->kind;
	if (run.status == 0) {
		found->result = SSHVERIFY_TRUSTED;
		text_escape(found->principal, sizeof(found->principal), principal,
			    strlen(principal));
	}
	return 0;
}

int sshverify_run(enum stage_id row, const char *name_space, const void *data, size_t len,
		  const char *armour, size_t armour_len, const char *allowed, long long when,
		  struct sshverify *found, struct error *err)
{
	char verify_time[64];
	time_t at = (time_t)when;
	struct tm parts;

	*found = (struct sshverify){.result = SSHVERIFY_BAD};
	if (!gmtime_r(&at, &parts) ||
	    !strftime(verify_time, sizeof(verify_time), "-Overify-time=%Y%m%d%H%M%S", &parts))
		return error_set(err, ERROR_FAILED, "the commit's time is out of range");
	if (scratch_write(INPUT, data, len, err) ||
	    scratch_write(SIGNATURE, armour, armour_len, err) ||
	    check_bytes(row, name_space, found, err))
		return err->kind;
	if (found->result == SSHVERIFY_BAD || !allowed)
		return 0;
	if (scratch_write(ALLOWED, allowed, strlen(allowed), err))
		return err->kind;
	return check_signer(row, name_space, verify_time, found, err);
}
