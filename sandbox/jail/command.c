#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/signals.h"
#include "sandbox/jail/run.h"

/* What the command may find of its parent's habits: nothing. */
void command_reset(void)
{
	signals_reset();
	umask(022);
}

static const char *env_value(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

/* A file without a magic number is a shell script, as execvp(3) has it. */
static void execute_file(const char *path, char **argv, char **env)
{
	size_t count = 0;
	char **script;
	char shell[] = "/bin/sh";
	char *name AUTO_FREE = mem_strdup(path);

	execve(path, argv, env);
	if (errno != ENOEXEC)
		return;
	while (argv[count])
		count++;
	script = mem_calloc(count + 2, sizeof(*script));
	script[0] = shell;
	script[1] = name;
	memcpy(script + 2, argv + 1, count * sizeof(*script));
	execve(shell, script, env);
	free(script);
	errno = ENOEXEC;
}

/* With the PATH of env. Returns only on failure: the errno. */
static int execute(char **argv, char **env)
{
	const char *path = env_value(env, "PATH");
	int result = ENOENT;

	if (strchr(argv[0], '/')) {
		execute_file(argv[0], argv, env);
		return errno;
	}
	for (path = path ? path : "/usr/bin:/bin";; path++) {
		size_t len = strcspn(path, ":");
		char *file AUTO_FREE =
		    mem_printf("%.*s%s%s", (int)len, path, len ? "/" : "./", argv[0]);

		execute_file(file, argv, env);
		if (errno != ENOENT && errno != ENOTDIR &&
		    (errno != EACCES || result == ENOENT))
			result = errno;
		if (result != ENOENT && result != EACCES)
			return result;
		path += len;
		if (!*path)
			return result;
	}
}

void command_become(const struct jail_run *run, struct jail_packet *packet)
{
	char *no_env[] = {NULL};

	if (chdir(run->spec.cwd) < 0) {
		packet->failure.err = errno;
		snprintf(packet->failure.what, sizeof(packet->failure.what),
			 "working directory %s", run->spec.cwd);
	}
	if (packet_send(run->payload_sock, packet, -1) < 0)
		_exit(1);
	packet->message = MSG_NOT_RUN;
	if (!packet->failure.err) {
		packet->failure.err =
		    execute(run->spec.argv, run->spec.env ? run->spec.env : no_env);
		snprintf(packet->failure.what, sizeof(packet->failure.what), "%s",
			 run->spec.argv[0]);
	}
	packet_send(run->payload_sock, packet, -1);
	_exit(127);
}
