#include "helper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/exitcode.h"
#include "pipeline/fds.h"
#include "pipeline/secret.h"
#include "pipeline/spawn.h"

/* ---- askpass ---- */

/* strbuf_add_percentencode of git: newer versions show the user in that form. The caller frees.
 */
static char *percent_encode(const char *text)
{
	AUTO_STRBUF struct strbuf out = STRBUF_NONE;

	strbuf_init(&out, strlen(text) * 3 + 1);
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
		    (*c >= '0' && *c <= '9') || strchr("-._~", *c))
			strbuf_addc(&out, (char)*c);
		else
			strbuf_addf(&out, "%%%02x", *c);
	}
	return strbuf_steal(&out);
}

enum askpass_question askpass_match(const char *prompt, const char *url, const char *user)
{
	const char *host = strstr(url, "://");
	AUTO_FREE char *encoded = percent_encode(user);
	AUTO_FREE char *want_user = NULL, *want_raw = NULL, *want_encoded = NULL;

	if (!host)
		return ASKPASS_OTHER;
	host += 3;
	want_user = mem_printf("Username for '%s': ", url);
	want_raw = mem_printf("Password for '%.*s%s@%s': ", (int)(host - url), url, user, host);
	want_encoded =
	    mem_printf("Password for '%.*s%s@%s': ", (int)(host - url), url, encoded, host);
	if (strcmp(prompt, want_user) == 0)
		return ASKPASS_USERNAME;
	if (strcmp(prompt, want_raw) == 0 || strcasecmp(prompt, want_encoded) == 0)
		return ASKPASS_PASSWORD;
	return ASKPASS_OTHER;
}

static bool is_one_line(const char *text, size_t len)
{
	return len && !memchr(text, '\n', len) && !memchr(text, '\r', len) &&
	       !memchr(text, '\0', len);
}

char *askpass_split(const char *secret, size_t len, const char *named, const char **token,
		    size_t *token_len, struct error *err)
{
	const char *colon = memchr(secret, ':', len);
	size_t user_len = colon ? (size_t)(colon - secret) : 0;
	bool split =
	    colon &&
	    (!*named || (strlen(named) == user_len && memcmp(named, secret, user_len) == 0));
	size_t from = split ? user_len + 1 : 0;

	if (!is_one_line(secret + from, len - from) ||
	    (split && !is_one_line(secret, user_len))) {
		error_set(err, ERROR_USAGE,
			  "the push token is not one line of the form TOKEN or USER:TOKEN");
		return NULL;
	}
	*token = secret + from;
	*token_len = len - from;
	if (split)
		return mem_strndup(secret, user_len);
	return mem_strdup(*named ? named : HELPER_DEFAULT_USER);
}

/* One line for git to read. */
static int print_line(const char *text, size_t len, struct error *err)
{
	if (fd_write_all(1, text, len) < 0 || fd_write_all(1, "\n", 1) < 0)
		return error_errno(err, ERROR_FAILED, errno, "askpass: git");
	return 0;
}

static int answer_with(const struct secret *secret, const char *prompt, const char *url,
		       const char *named, struct error *err)
{
	size_t len, token_len = 0;
	const char *text = secret_expose(secret, &len), *token = NULL;
	AUTO_FREE char *user = askpass_split(text, len, named, &token, &token_len, err);

	if (!user)
		return err->kind;
	switch (askpass_match(prompt, url, user)) {
	case ASKPASS_USERNAME:
		return print_line(user, strlen(user), err);
	case ASKPASS_PASSWORD:
		return print_line(token, token_len, err);
	case ASKPASS_OTHER:
		break;
	}
	return error_set(err, ERROR_USAGE, "askpass: no answer to \"%s\"", prompt);
}

static int askpass_answer(const char *prompt, struct error *err)
{
	const char *url = getenv(HELPER_ENV_URL), *named = getenv(HELPER_ENV_USER);
	struct secret *secret;
	int kind;

	if (!prompt || !url || !named)
		return error_set(err, ERROR_USAGE, "askpass: not started by git push");
	secret = secret_take(FD_SECRET, err);
	if (!secret)
		return err->kind;
	kind = answer_with(secret, prompt, url, named, err);
	secret_wipe(secret);
	return kind;
}

/* ---- ssh ---- */

bool ssh_command_is_gits(const char *command)
{
	static const char *const verbs[] = {"git-receive-pack '", "git-upload-pack '"};

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		size_t verb = strlen(verbs[i]), len = strlen(command);
		const char *c = command + verb;

		if (strncmp(command, verbs[i], verb) != 0 || len <= verb ||
		    command[len - 1] != '\'')
			continue;
		/* git's quoting (sq_quote_buf): inside, ' is '\'' and ! is '\!' */
		for (; c < command + len - 1; c++) {
			if (*c != '\'')
				continue;
			if (strncmp(c, "'\\''", 4) != 0 && strncmp(c, "'\\!'", 4) != 0)
				return false;
			c += 3;
		}
		return c == command + len - 1;
	}
	return false;
}

const char **ssh_arguments(const char *port, const char *host_key, const char *user,
			   const char *command)
{
	/* -F none: neither the user's nor the machine's configuration; each -o says one thing
	 * that it could have said. The key comes from our own agent only. */
	static const char known_hosts[] = "UserKnownHostsFile=" HELPER_KNOWN_HOSTS;
	static const char agent[] = "IdentityAgent=" HELPER_AGENT_SOCKET;
	static const char *const fixed[] = {
	    "ssh",  "-F",
	    "none", "-T",
	    "-a",   "-x",
	    "-o",   "BatchMode=yes",
	    "-o",   "CheckHostIP=no",
	    "-o",   "ClearAllForwardings=yes",
	    "-o",   "ConnectTimeout=60",
	    "-o",   "ControlMaster=no",
	    "-o",   "ControlPath=none",
	    "-o",   "EscapeChar=none",
	    "-o",   "ForwardAgent=no",
	    "-o",   "GlobalKnownHostsFile=/dev/null",
	    "-o",   "GSSAPIAuthentication=no",
	    "-o",   "HostbasedAuthentication=no",
	    "-o",   "IdentitiesOnly=no",
	    "-o",   agent,
	    "-o",   "IdentityFile=none",
	    "-o",   "KbdInteractiveAuthentication=no",
	    "-o",   "LogLevel=INFO",
	    "-o",   "NumberOfPasswordPrompts=0",
	    "-o",   "PasswordAuthentication=no",
	    "-o",   "PermitLocalCommand=no",
	    "-o",   "PreferredAuthentications=publickey",
	    "-o",   "ProxyCommand=none",
	    "-o",   "ServerAliveCountMax=4",
	    "-o",   "ServerAliveInterval=30",
	    "-o",   "StrictHostKeyChecking=yes",
	    "-o",   "UpdateHostKeys=no",
	    "-o",   known_hosts,
	    "-o",   "VerifyHostKeyDNS=no",
	};
	const char *last[] = {"-o", host_key, "-o",	   port,    "-l",
			      user, "--",     "127.0.0.1", command, NULL};
	const char **argv = mem_calloc(ARRAY_LEN(fixed) + ARRAY_LEN(last), sizeof(*argv));

	memcpy(argv, fixed, sizeof(fixed));
	memcpy(argv + ARRAY_LEN(fixed), last, sizeof(last));
	return argv;
}

static int ssh_exec(int argc, char **argv, struct error *err)
{
	const char *port = getenv(HELPER_ENV_PORT), *host_key = getenv(HELPER_ENV_HOST_KEY);
	const char *user = getenv(HELPER_ENV_USER);
	const char *const envp[] = {"PATH=/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C",
				    "TZ=UTC", NULL};
	AUTO_FREE char *program = spawn_find("ssh", envp, err), *port_option = NULL,
		       *alias_option = NULL;
	AUTO_FREE const char **arguments = NULL;
	union {
		const char *const *in;
		char *const *out;
	} args, env;

	if (!program)
		return err->kind;
	if (!port || !host_key || !user || argc < 2)
		return error_set(err, ERROR_USAGE, "ssh helper: not started by git push");
	if (!ssh_command_is_gits(argv[argc - 1]))
		return error_set(err, ERROR_USAGE, "ssh helper: not a command of git's: %s",
				 argv[argc - 1]);
	port_option = mem_printf("Port=%s", port);
	alias_option = mem_printf("HostKeyAlias=%s", host_key);
	arguments = ssh_arguments(port_option, alias_option, user, argv[argc - 1]);
	args.in = arguments;
	env.in = envp;
	execve(program, args.out, env.out);
	return error_errno(err, ERROR_FAILED, errno, "%s cannot be started", program);
}

bool helper_main(int argc, char **argv, int *status)
{
	const char *kind = getenv(HELPER_ENV);
	struct error err = {0};

	if (!kind)
		return false;
	if (strcmp(kind, "askpass") == 0)
		askpass_answer(argc == 2 ? argv[1] : NULL, &err);
	else if (strcmp(kind, "ssh") == 0)
		ssh_exec(argc, argv, &err);
	else
		error_set(&err, ERROR_USAGE, "unknown helper");
	if (err.kind)
		dprintf(2, "agent-publish: %s\n", err.message);
	*status = error_exit_status(err.kind);
	return true;
}
