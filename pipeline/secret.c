/*
 * THE WAY OF A SECRET. All of it is in this file; who wants to know what can reach a key reads
 * it here.
 *
 *   operator                 agent (supervisor)                         the one row that the
 * table names
 *   --------                 ------------------ --------------------------------
 *
 *   env:NAME ──────────►  secret_adopt_env, first thing in main:
 *                         value ──► sealed memfd ───────────────┐
 *                         overwritten in place, removed         │
 *                                                               ▼
 *   file:PATH ─────────►  owner, mode checked; opened, ──► secret_open ── FD_SECRET ──►
 * secret_take: credential:NAME       never read                            ▲         (spawn.c)
 * pread ──► locked │                       page, not dumped, command:ARGV ──────►  program
 * writes straight into a ───────┘                       wiped in a fork; memfd of fixed size,
 * once a run;                              FD_SECRET closed status checked, then sealed │ ▼
 *                                                                        secret_expose: the
 * bytes, for one call into a library (curl's header list, the pipe of ssh-add, …); tests/lint
 * counts the places │ ▼ secret_wipe
 *
 * The supervisor passes descriptors on and has no function here that reads one. There is none
 * that prints one. A secret is never in an argument list, an environment (but the one that the
 * operator's shell made, which is overwritten), a file of ours, a log line, an event or an
 * artefact.
 *
 * The table of kept memory files below is this program's only global state outside of cmd/: it
 * is the counterpart of the environment block, which is global too.
 */
#include "secret.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/spawn.h"

#define COMMAND_DEADLINE_MS 30000
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* ---- env: ---- */

/* Variables that hold a secret whenever they are set: they leave the environment whether a row
 * asks for them or not. */
static const char *const well_known[] = {
    "ANTHROPIC_API_KEY",    "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY",  "GEMINI_API_KEY",
    "GOOGLE_API_KEY",	    "OPENROUTER_API_KEY",   "MISTRAL_API_KEY", "AZURE_OPENAI_API_KEY",
    "AGENT_MODEL_KEY",	    "AGENT_PUSH_TOKEN",	    "AGENT_PUSH_KEY",  "AGENT_SIGNING_KEY",
    "AGENT_REGISTRY_TOKEN", "AGENT_FORGE_TOKEN",    "GITHUB_TOKEN",    "GH_TOKEN",
    "GITLAB_TOKEN",	    "GITEA_TOKEN",	    "FORGEJO_TOKEN",   "NPM_TOKEN",
    "NODE_AUTH_TOKEN",
};

#define KEPT_MOST 64

/* A sealed memory file that lives as long as the process: a variable's value, a command's
 * output. */
struct kept {
	char *name; /* owned: "NAME", or "command:ARGV" */
	int fd;	    /* -1: it could not be made, errno_value says why */
	int errno_value;
};

static struct kept kept[KEPT_MOST];
static size_t kept_count;

static struct kept *find_kept(const char *name, size_t len)
{
	for (size_t i = 0; i < kept_count; i++)
		if (strlen(kept[i].name) == len && memcmp(kept[i].name, name, len) == 0)
			return &kept[i];
	return NULL;
}

/* Takes fd, which may be -1 with errno set. NULL when the table is full. */
static const struct kept *keep(const char *name, size_t len, int fd)
{
	struct kept *slot = &kept[kept_count];

	if (kept_count == KEPT_MOST) {
		fd_close_ptr(&fd);
		return NULL;
	}
	slot->errno_value = errno;
	slot->fd = fd;
	slot->name = mem_strndup(name, len);
	kept_count++;
	return slot;
}

/* Opened anew, not duplicated: read-only, with a position of its own. */
static int open_kept(const struct kept *slot, struct error *err)
{
	char path[64];
	int fd;

	if (slot->fd < 0) {
		error_errno(err, ERROR_FAILED, slot->errno_value,
			    "%s cannot be kept in a memory file", slot->name);
		return -1;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", slot->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		error_errno(err, ERROR_FAILED, errno, "memory file of %s", slot->name);
	return fd;
}

static bool is_secret_name(const char *name, size_t len, const char *extra_name)
{
	for (size_t i = 0; i < ARRAY_LEN(well_known); i++)
		if (strlen(well_known[i]) == len && memcmp(well_known[i], name, len) == 0)
			return true;
	return extra_name && strlen(extra_name) == len && memcmp(extra_name, name, len) == 0;
}

/* Addresses of proxies: they stay, without the user and password that may be in them. */
static bool is_proxy_name(const char *name, size_t len)
{
	static const char *const names[] = {"https_proxy", "http_proxy", "all_proxy"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strlen(names[i]) == len && strncasecmp(names[i], name, len) == 0)
			return true;
	return false;
}

/* The first value of a name is the one that getenv would have given. */
static void adopt(const char *name, size_t name_len, const char *value)
{
	if (*value && !find_kept(name, name_len))
		keep(name, name_len, fd_memfd_sealed("secret", value, strlen(value)));
}

/* "scheme://user:password@host": what is before the @ becomes a secret of the variable's name, and leaves the
 * value. */
static void adopt_user(const char *name, size_t name_len, char *value)
{
	char *from = strstr(value, "://"), *at, *to;
	size_t len;

	from = from ? from + 3 : value;
	at = memrchr(from, '@', strcspn(from, "/"));
	if (!at)
		return;
	for (char *in = to = from; in < at; in++) {
		int high = *in == '%' && in + 2 < at ? text_hex_digit(in[1]) : -1;
		int low = high >= 0 ? text_hex_digit(in[2]) : -1;

		*to++ = low >= 0 ? (char)(high * 16 + low) : *in;
		in += low >= 0 ? 2 : 0;
	}
	if (to > from && !find_kept(name, name_len))
		keep(name, name_len, fd_memfd_sealed("secret", from, (size_t)(to - from)));
	len = strlen(at + 1);
	memmove(from, at + 1, len);
	mem_wipe(from + len, (size_t)(at + 1 - from));
}

void secret_adopt_env(char **envp, const char *extra_name)
{
	char **stays = envp;

	for (char **at = envp; *at; at++) {
		size_t len = strcspn(*at, "=");

		if ((*at)[len] == '=' && is_proxy_name(*at, len))
			adopt_user(*at, len, *at + len + 1);
		if ((*at)[len] != '=' || !is_secret_name(*at, len, extra_name)) {
			*stays++ = *at;
			continue;
		}
		adopt(*at, len, *at + len + 1);
		mem_wipe(*at + len + 1, strlen(*at + len + 1));
	}
	*stays = NULL;
}

bool secret_has_env(const char *name)
{
	return find_kept(name, strlen(name)) != NULL;
}

static int open_env(const char *name, struct error *err)
{
	const struct kept *slot = find_kept(name, strlen(name));

	if (slot)
		return open_kept(slot, err);
	error_set(err, ERROR_USAGE, "the environment variable %s is not set", name);
	error_next(err,
		   "export %s where agent is started by hand; a worker's job gets none, and a "
		   "service seldom: name another source, file:PATH, command:ARGV, or "
		   "credential:NAME with LoadCredential=NAME:PATH in the unit",
		   name);
	return -1;
}

/* ---- file:, credential: ---- */

/* What only its owner (we, or root) can read and write. forbidden: mode bits that may not be
 * set. */
static int check_file(int fd, const char *path, mode_t forbidden, struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_errno(err, ERROR_USAGE, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERROR_USAGE, "%s is not a regular file", path);
	if (st.st_uid != geteuid() && st.st_uid != 0) {
		error_set(err, ERROR_USAGE, "%s belongs to another user (uid %u)", path,
			  st.st_uid);
		return error_next(err, "make a copy of your own, readable by you alone");
	}
	if (st.st_mode & forbidden) {
		error_set(err, ERROR_USAGE, "%s can be read or written by others (mode %04o)",
			  path, st.st_mode & 07777);
		return error_next(err, "chmod 600 %s", path);
	}
	if (st.st_size == 0)
		return error_set(err, ERROR_USAGE, "%s is empty", path);
	if (st.st_size > SECRET_MAX)
		return error_set(err, ERROR_USAGE, "%s is larger than %d bytes", path,
				 SECRET_MAX);
	return 0;
}

static int open_file(const char *path, mode_t forbidden, struct error *err)
{
	/* O_NONBLOCK: a FIFO must be refused, not waited for. */
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0) {
		error_errno(err, ERROR_USAGE, errno, "%s cannot be opened", path);
		error_next(err, "have the secret there, readable by you alone (chmod 600), or "
				"name another source");
		return -1;
	}
	if (check_file(fd, path, forbidden, err) < 0)
		return -1;
	return fd_steal(&fd);
}

/* systemd.exec(5), LoadCredential=: files of root that an ACL opens to the service's user; the
 * ACL's mask shows as group bits, so these say nothing there but for writing. */
static int open_credential(const char *name, struct error *err)
{
	const char *dir = getenv(SECRET_ENV_DIRECTORY);
	char *path AUTO_FREE = NULL;

	if (!*name || strchr(name, '/') || name[0] == '.') {
		error_set(err, ERROR_USAGE, "credential:%s is no name of a credential", name);
		return -1;
	}
	if (!dir || dir[0] != '/') {
		error_set(err, ERROR_USAGE, "credential:%s: $CREDENTIALS_DIRECTORY is not set",
			  name);
		error_next(err,
			   "add LoadCredential=%s:PATH to the systemd unit, or use file:PATH",
			   name);
		return -1;
	}
	path = mem_printf("%s/%s", dir, name);
	return open_file(path, S_IWGRP | S_IRWXO, err);
}

static int open_path(const char *path, struct error *err)
{
	const char *home = getenv("HOME");
	char *whole AUTO_FREE = NULL;

	if (strncmp(path, "~/", 2) == 0 && home && home[0] == '/')
		whole = mem_printf("%s/%s", home, path + 2);
	return open_file(whole ? whole : path, S_IRWXG | S_IRWXO, err);
}

/* ---- command: ---- */

/* What password managers need to find their agent; nothing else of our environment. */
static const char *const command_env[] = {
    "PATH", "HOME", "LANG", "USER", "LOGNAME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"};

struct env_copy {
	char *items[ARRAY_LEN(command_env) + 1];
};

static void env_copy_release(struct env_copy *copy)
{
	for (size_t i = 0; copy->items[i]; i++)
		free(copy->items[i]);
}

static void env_copy_fill(struct env_copy *copy)
{
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_LEN(command_env); i++) {
		const char *value = getenv(command_env[i]);

		if (value)
			copy->items[count++] = mem_printf("%s=%s", command_env[i], value);
	}
}

static int wait_command(struct child *child, const char *name, struct error *err)
{
	long long deadline = fd_now_ms() + COMMAND_DEADLINE_MS;
	struct pollfd wait = {.fd = child->pidfd, .events = POLLIN};
	siginfo_t info;

	while (!wait.revents) {
		long long left = deadline - fd_now_ms();

		if (left <= 0)
			return error_set(err, ERROR_FAILED, "%s has given no secret in %d s",
					 name, COMMAND_DEADLINE_MS / 1000);
		if (poll(&wait, 1, (int)left) < 0 && errno != EINTR)
			return error_errno(err, ERROR_FAILED, errno, "%s", name);
	}
	if (waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | WNOWAIT) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", name);
	if (info.si_code != CLD_EXITED)
		return error_set(err, ERROR_FAILED, "%s was ended by signal %d", name,
				 info.si_status);
	if (info.si_status != 0)
		return error_set(err, ERROR_FAILED, "%s has failed with exit status %d", name,
				 info.si_status);
	return 0;
}

/* Cuts the memory file to what was written and seals it. */
static int seal_output(int fd, const char *name, struct error *err)
{
	off_t len = lseek(fd, 0, SEEK_CUR); /* the position that the command shared with us */

	if (len < 0)
		return error_errno(err, ERROR_FAILED, errno, "memory file for %s", name);
	if (len == 0)
		return error_set(err, ERROR_FAILED, "%s has written nothing", name);
	if (len > SECRET_MAX)
		return error_set(err, ERROR_FAILED, "%s has written more than %d bytes", name,
				 SECRET_MAX);
	if (ftruncate(fd, len) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
	    fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return error_errno(err, ERROR_FAILED, errno, "memory file for %s", name);
	return 0;
}

static int run_command(char **argv, struct error *err)
{
	struct env_copy env __attribute__((cleanup(env_copy_release))) = {{NULL}};
	struct child child __attribute__((cleanup(spawn_release))) = {0, -1, -1, -1};
	int null AUTO_FD = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int fd AUTO_FD = memfd_create("secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	/* One byte more than allowed, and not growing: the command can fill no memory. */
	if (null < 0 || fd < 0 || ftruncate(fd, SECRET_MAX + 1) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0) {
		error_errno(err, ERROR_FAILED, errno, "memory file for %s", argv[0]);
		return -1;
	}
	env_copy_fill(&env);
	if (spawn_outside((const char *const *)argv, (const char *const *)env.items, null, fd,
			  STDERR_FILENO, (uid_t)-1, &child, err) < 0)
		return -1;
	if (wait_command(&child, argv[0], err) < 0)
		return -1;
	/* Ends what it left running: nothing may write any more. */
	spawn_release(&child);
	if (seal_output(fd, argv[0], err) < 0)
		return -1;
	return fd_steal(&fd);
}

/* source with its "command:". Several rounds ask for the same secret: the command runs once. */
static int open_command(const char *source, struct error *err)
{
	const struct kept *slot = find_kept(source, strlen(source));
	char **argv;
	int fd;

	if (slot)
		return open_kept(slot, err);
	argv = text_split_words(source + strlen("command:"));
	if (!argv) {
		error_set(err, ERROR_USAGE,
			  "command: a quote is not closed, or no command is named");
		return -1;
	}
	fd = run_command(argv, err);
	text_free_words(argv);
	if (fd < 0)
		return -1;
	slot = keep(source, strlen(source), fd);
	if (slot)
		return open_kept(slot, err);
	error_set(err, ERROR_USAGE, "more than %d secrets", KEPT_MOST);
	return -1;
}

int secret_open(const char *source, struct error *err)
{
	static const char *const kinds = "env:NAME, file:PATH, credential:NAME or command:ARGV";
	const char *colon = strchr(source, ':');
	int fd = -1;

	if (colon && !colon[1]) {
		error_set(err, ERROR_USAGE, "the source of a secret names nothing");
		error_next(err, "write %s", kinds);
	} else if (strncmp(source, "env:", 4) == 0)
		fd = open_env(source + 4, err);
	else if (strncmp(source, "file:", 5) == 0)
		fd = open_path(source + 5, err);
	else if (strncmp(source, "credential:", 11) == 0)
		fd = open_credential(source + 11, err);
	else if (strncmp(source, "command:", 8) == 0)
		fd = open_command(source, err);
	else
		/* The source is not shown: somebody may have put the secret itself there. */
		error_set(err, ERROR_USAGE, "a secret's source must be %s", kinds);
	return fd;
}

/* ---- in the row that owns it ---- */

struct secret {
	size_t len;
	char bytes[SECRET_MAX + 1]; /* NUL behind len */
};

static struct secret *secret_new(struct error *err)
{
	void *page = mmap(NULL, sizeof(struct secret), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED) {
		error_errno(err, ERROR_FAILED, errno, "memory for a secret");
		return NULL;
	}
	if (mlock(page, sizeof(struct secret)) < 0) {
		error_errno(err, ERROR_FAILED, errno, "memory for a secret cannot be locked");
		error_next(err,
			   "raise the limit of locked memory (ulimit -l) to 64 KiB or more");
	} else if (madvise(page, sizeof(struct secret), MADV_DONTDUMP) < 0 ||
		   madvise(page, sizeof(struct secret), MADV_WIPEONFORK) < 0) {
		error_errno(err, ERROR_FAILED, errno, "memory for a secret");
	} else {
		return page;
	}
	munmap(page, sizeof(struct secret));
	return NULL;
}

static int fill(struct secret *secret, int fd, struct error *err)
{
	while (secret->len <= SECRET_MAX) {
		ssize_t n = pread(fd, secret->bytes + secret->len, SECRET_MAX + 1 - secret->len,
				  (off_t)secret->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, ERROR_FAILED, errno,
					   "the secret cannot be read");
		if (n == 0)
			break;
		secret->len += (size_t)n;
	}
	if (secret->len > SECRET_MAX)
		return error_set(err, ERROR_USAGE, "the secret is larger than %d bytes",
				 SECRET_MAX);
	if (secret->len > 0 && secret->bytes[secret->len - 1] == '\n')
		secret->len--;
	secret->bytes[secret->len] = '\0';
	if (secret->len == 0)
		return error_set(err, ERROR_USAGE, "the secret is empty");
	if (memchr(secret->bytes, '\0', secret->len))
		return error_set(err, ERROR_USAGE, "the secret has a NUL byte in it");
	return 0;
}

struct secret *secret_take(int fd, struct error *err)
{
	int owned AUTO_FD = fd;
	struct secret *secret = secret_new(err);

	if (secret && fill(secret, owned, err) < 0) {
		secret_wipe(secret);
		return NULL;
	}
	return secret;
}

const char *secret_expose(const struct secret *secret, size_t *len)
{
	*len = secret->len;
	return secret->bytes;
}

void secret_wipe(struct secret *secret)
{
	if (!secret)
		return;
	mem_wipe(secret, sizeof(*secret));
	munmap(secret, sizeof(*secret));
}
