#include "scope.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/spawn.h"
#include "sandbox/own_group.h"

#define ANSWER_MS 5000 /* of systemd; then as long again until we are in the scope */
#define POLL_MS 2

/* ---- the user's systemd ---- */

/* Directory of the user's bus: as the environment says or, without a session (cron), where a lingering manager has it. */
static char *runtime_dir(struct error *err)
{
	const char *named = getenv("XDG_RUNTIME_DIR");
	char *dir AUTO_FREE = named && named[0] == '/' ? mem_strdup(named)
						       : mem_printf("/run/user/%u", geteuid());
	char *bus AUTO_FREE = mem_printf("%s/bus", dir);
	struct stat st;

	if (stat(bus, &st) < 0 || !S_ISSOCK(st.st_mode) || st.st_uid != geteuid()) {
		error_set(err, ERROR_ISOLATION,
			  "there is no systemd of the user's to ask: no socket of theirs at %s",
			  bus);
		return NULL;
	}
	return MEM_STEAL(dir);
}

/* What busctl wrote, its first line; text is one that we print. */
static void put_words(int fd, struct error *err)
{
	char text[300];
	ssize_t len = pread(fd, text, sizeof(text) - 1, 0);

	text[len > 0 ? len : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	error_set(err, ERROR_ISOLATION, "systemd gave us no scope: %s",
		  text[0] ? text : "busctl failed");
}

/* Starts busctl and waits for it. */
static int call(const char *const *argv, const char *const *env, struct error *err)
{
	struct child child __attribute__((cleanup(spawn_release))) = {0, -1, -1, -1};
	int null AUTO_FD = open("/dev/null", O_RDWR | O_CLOEXEC);
	int words AUTO_FD = memfd_create("busctl", MFD_CLOEXEC);
	siginfo_t info = {0};
	int result, ready;

	if (null < 0 || words < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "memory file for busctl");
	result = spawn_outside(argv, env, null, null, words, (uid_t)-1, &child, err);
	if (result < 0)
		return result;
	do
		ready =
		    poll(&(struct pollfd){.fd = child.pidfd, .events = POLLIN}, 1, ANSWER_MS);
	while (ready < 0 && errno == EINTR);
	if (ready <= 0)
		return error_set(err, ERROR_ISOLATION,
				 "systemd gave us no scope: no answer within %d s",
				 ANSWER_MS / 1000);
	if (waitid(P_PIDFD, (id_t)child.pidfd, &info, WEXITED | WNOWAIT) < 0 ||
	    info.si_code != CLD_EXITED || info.si_status != 0) {
		put_words(words, err);
		return err->kind;
	}
	return 0;
}

/* systemd answers before it has moved us. */
static int wait_until_in(const char *unit, struct error *err)
{
	for (int waited_ms = 0; waited_ms < ANSWER_MS; waited_ms += POLL_MS) {
		struct own_group_tables tables AUTO_TABLES = OWN_GROUP_TABLES_NONE;
		char *path AUTO_FREE = NULL;
		int fd AUTO_FD = own_group_open(&tables, NULL, &path);
		const char *slash = fd >= 0 ? strrchr(path, '/') : NULL;

		if (slash && strcmp(slash + 1, unit) == 0)
			return 0;
		poll(NULL, 0, POLL_MS);
	}
	return error_set(err, ERROR_ISOLATION,
			 "systemd has made the scope %s but not put us there", unit);
}

/* org.freedesktop.systemd1(5): StartTransientUnit(name, mode, properties, further units) */
static int ask_systemd(struct error *err)
{
	char *dir AUTO_FREE = runtime_dir(err);
	char *env_dir AUTO_FREE = dir ? mem_printf("XDG_RUNTIME_DIR=%s", dir) : NULL;
	char *address AUTO_FREE =
	    dir ? mem_printf("DBUS_SESSION_BUS_ADDRESS=unix:path=%s/bus", dir) : NULL;
	char name[OWN_GROUP_NAME_MAX], pid[16], unit[OWN_GROUP_NAME_MAX + 8];
	const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", env_dir,
				   address, NULL};
	const char *const argv[] = {"busctl",
				    "--user",
				    "--quiet",
				    "call",
				    "org.freedesktop.systemd1",
				    "/org/freedesktop/systemd1",
				    "org.freedesktop.systemd1.Manager",
				    "StartTransientUnit",
				    "ssa(sv)a(sa(sv))",
				    unit,
				    "fail",
				    "4",
				    "Description",
				    "s",
				    "agent",
				    "PIDs",
				    "au",
				    "1",
				    pid,
				    "Delegate",
				    "b",
				    "true",
				    "CollectMode",
				    "s",
				    "inactive-or-failed",
				    "0",
				    NULL};
	int result;

	if (!dir)
		return err->kind;
	own_group_name(name);
	snprintf(unit, sizeof(unit), "%s" OWN_GROUP_SCOPE, name);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	result = call(argv, env, err);
	return result ? result : wait_until_in(unit, err);
}

/* ---- */

int scope_enter(struct error *err)
{
	struct own_group_tables tables AUTO_TABLES = OWN_GROUP_TABLES_NONE;
	int place AUTO_FD = -1;
	int result;

	if (own_group_is_in(&tables, "memory") > 0 && own_group_is_in(&tables, "pids") > 0)
		return error_set(err, ERROR_ISOLATION,
				 "the memory and pids controllers are cgroup v1's here");
	/* root could write beside its unit as well, where nothing ends with that */
	if (own_group_is_delegated() && own_group_step_aside() == 0)
		return 0;
	place = own_group_find_place(&tables, NULL);
	if (place >= 0 || own_group_step_aside() == 0)
		return 0;
	if (geteuid() == 0)
		return error_set(err, ERROR_ISOLATION,
				 "cgroup v2 is not to be had with memory and process limits");
	result = ask_systemd(err);
	if (result < 0)
		return result;
	if (own_group_step_aside() < 0)
		return error_errno(err, ERROR_ISOLATION, errno,
				   "systemd gave us a scope without memory and process limits");
	return 0;
}
