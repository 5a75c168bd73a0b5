/*
 * agent doctor --attack: the bundled attacks (sandbox/probe/table.h), each in a jail as tests get it, judged
 * by its own word and by canaries of ours: listeners, files, a process. Those that need a host which takes
 * part in more than that are left to the tests of the sources, and said to be.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/spawn.h"
#include "sandbox/jail_spec.h"

#define INSIDE "/opt/agent-probe"
#define OUTPUT_MAX ((size_t)4 << 20)
#define LIST_MAX ((size_t)1 << 20)
#define WALL_MS 90000
#define DYING_MS 300 /* a process that was killed may take to end on a busy machine */

extern char **environ;

static const char planted[] = "planted-for-agent-doctor\n";

/* Where and how: the same for all attacks. */
struct place {
	struct json *rows;
	struct supervisor *sup;
	struct config *config; /* owned */
	const char *state, *backend;
	char *group, *probe; /* owned */
};

struct canaries {
	char mark[32];	      /* what everything of ours is named by */
	char dir[64];	      /* of the files; "" when not made */
	char words[4][96];    /* name=value with a value of this run's */
	int tcp, local, path; /* owned: listeners */
	struct child victim;  /* owned: a process that must not be reached */
};

/* ---- canaries ---- */

static int listener(int family, const void *address, socklen_t len)
{
	int sock = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (sock >= 0 && bind(sock, address, len) == 0 && listen(sock, 16) == 0)
		return sock;
	fd_close_ptr(&sock);
	return -1;
}

static int listen_at(const char *dir, const char *mark, bool abstract)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int n = abstract ? snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "%s", mark)
			 : snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", dir);

	/* behind the name's own NUL, or in front of an abstract one's first letter, there is one byte more */
	return listener(AF_UNIX, &at,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + 1));
}

static int put(const char *dir, const char *name)
{
	char *path AUTO_FREE = mem_printf("%s/%s", dir, name);
	int fd AUTO_FD = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	/* for everybody: it is the jail that must keep it, and not the mode */
	return fd < 0 || fchmod(fd, 0666) < 0 ? -1
					      : fd_write_all(fd, planted, sizeof(planted) - 1);
}

static int start_victim(struct canaries *canaries, const char *probe, struct error *err)
{
	const char *const argv[] = {probe, "--sleep", canaries->mark, NULL};
	const char *const env[] = {"TOKEN=planted-for-agent-doctor", NULL};
	int null AUTO_FD = open("/dev/null", O_RDWR | O_CLOEXEC);

	return spawn_outside(argv, env, null, null, null, (uid_t)-1, &canaries->victim, err);
}

static int make_canaries(struct canaries *canaries, const char *probe, struct error *err)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	unsigned char random[6];
	char hex[13];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return error_errno(err, ERROR_FAILED, errno, "getrandom");
	text_hex(hex, random, sizeof(random));
	snprintf(canaries->mark, sizeof(canaries->mark), "agent-doctor-%s", hex);
	snprintf(canaries->dir, sizeof(canaries->dir), "/tmp/%s", canaries->mark);
	if (mkdir(canaries->dir, 0700) < 0) {
		canaries->dir[0] = '\0';
		return error_errno(err, ERROR_FAILED, errno,
				   "a directory for canaries in /tmp");
	}
	canaries->tcp = listener(AF_INET, &at, sizeof(at));
	canaries->local = listen_at(canaries->dir, canaries->mark, true);
	canaries->path = listen_at(canaries->dir, canaries->mark, false);
	if (chmod(canaries->dir, 0755) < 0 || put(canaries->dir, "secret") < 0 ||
	    put(canaries->dir, "victim") < 0 || canaries->tcp < 0 || canaries->local < 0 ||
	    canaries->path < 0 || getsockname(canaries->tcp, (struct sockaddr *)&at, &len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "canaries cannot be set up");
	snprintf(canaries->words[0], sizeof(canaries->words[0]), "mark=%s", canaries->mark);
	snprintf(canaries->words[1], sizeof(canaries->words[1]), "abstract=%s", canaries->mark);
	snprintf(canaries->words[2], sizeof(canaries->words[2]), "lo=%u", ntohs(at.sin_port));
	if (start_victim(canaries, probe, err))
		return err->kind;
	snprintf(canaries->words[3], sizeof(canaries->words[3]), "pid=%d",
		 (int)canaries->victim.pid);
	return 0;
}

static void release_canaries(struct canaries *canaries)
{
	fd_close_ptr(&canaries->tcp);
	fd_close_ptr(&canaries->local);
	fd_close_ptr(&canaries->path);
	if (canaries->dir[0])
		fd_remove_tree(AT_FDCWD, canaries->dir);
	if (canaries->victim.pid > 0)
		spawn_release(&canaries->victim);
}

static bool is_as_planted(const char *dir, const char *name)
{
	char *path AUTO_FREE = mem_printf("%s/%s", dir, name);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	strbuf_init(&text, 4096);
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
	       (st.st_mode & 07777) == 0666 && fd_read_all(fd, &text) == 0 &&
	       strcmp(text.data, planted) == 0;
}

static void oracle(const struct place *place, const char *what, bool good, const char *bad,
		   unsigned *holes)
{
	doctor_row(place->rows, place->group, what, good ? "blocked" : "worked",
		   good ? "untouched" : bad, "");
	*holes += !good;
}

static bool nobody_came(int sock)
{
	int fd AUTO_FD = accept4(sock, NULL, NULL, SOCK_CLOEXEC);

	return fd < 0;
}

static void ask_oracles(const struct place *place, const struct canaries *canaries,
			const char *output, unsigned *holes)
{
	struct pollfd victim = {.fd = canaries->victim.pidfd, .events = POLLIN};

	oracle(place, "canary: a listener on the host's loopback", nobody_came(canaries->tcp),
	       "somebody connected", holes);
	oracle(place, "canary: an abstract socket of the host", nobody_came(canaries->local),
	       "somebody connected", holes);
	oracle(place, "canary: a socket in the host's /tmp", nobody_came(canaries->path),
	       "somebody connected", holes);
	oracle(place, "canary: files that everybody may write",
	       is_as_planted(canaries->dir, "secret") && is_as_planted(canaries->dir, "victim"),
	       "one was changed", holes);
	oracle(place, "canary: what is in them and in a process's environment",
	       !strstr(output, "planted-for"), "it came out", holes);
	oracle(place, "canary: a process of the same user", poll(&victim, 1, DYING_MS) == 0,
	       "it was ended", holes);
}

/* ---- attacks ---- */

struct verdicts {
	unsigned blocked, worked, untried;
};

/* "ID: word: reason" of the probe's output, the last one; *reason up to the line's end. NULL: no word came. */
static const char *word_of(char *output, const char *id, char reason[512])
{
	const size_t len = strlen(id);
	static const char *const words[] = {"worked", "blocked", "done", "not tried"};
	const char *found = NULL;

	for (const char *at = output; (at = strstr(at, id)); at += len) {
		const char *text = at + len + 2;

		if ((at != output && at[-1] != '\n') || strncmp(at + len, ": ", 2) != 0)
			continue;
		for (size_t i = 0; i < ARRAY_LEN(words); i++) {
			size_t word = strlen(words[i]);

			if (strncmp(text, words[i], word) != 0 || text[word] != ':')
				continue;
			snprintf(reason, 512, "%.*s", (int)strcspn(text + word + 2, "\n"),
				 text + word + 2);
			found = words[i];
		}
	}
	return found;
}

static void judge(const struct place *place, const char *id, const char *mechanism,
		  char *output, struct verdicts *verdicts)
{
	char name[300], reason[512] = "no word came of it: the jail ended before";
	const char *word = word_of(output, id, reason);
	bool worked = word && strcmp(word, "worked") == 0;
	bool blocked = word && (strcmp(word, "blocked") == 0 || strcmp(word, "done") == 0);

	snprintf(name, sizeof(name), "%s %s", id, mechanism);
	doctor_row(place->rows, place->group, name,
		   worked    ? "worked"
		   : blocked ? "blocked"
			     : "not tried",
		   reason, "");
	verdicts->worked += worked;
	verdicts->blocked += blocked;
	verdicts->untried += !worked && !blocked;
}

/* Runs the probe with the words in a jail; its output is added. 0 or an error kind. */
static int attack(const struct place *place, char *const *argv, struct strbuf *out,
		  struct error *err)
{
	struct jail_start start = {.facts_fd = -1, .go_fd = -1};
	struct jail_facts facts = {0};
	struct jail_spec spec;
	int ends[2] = {-1, -1}, result;

	jail_spec_init(&spec);
	result = jailplan_test(place->config, place->state, NULL, FETCH_NONE, argv, &spec, err);
	spec.limits.wall_ms = WALL_MS;
	spec.limits.memory_bytes = (uint64_t)512 << 20;
	spec.limits.processes = 300;
	spec.limits.disk_bytes = spec.limits.file_bytes = (uint64_t)256 << 20;
	spec.limits.inodes = 20000;
	jail_spec_add_mount(&spec, JAIL_BIND_RO, false, place->probe, INSIDE);
	if (result == 0 && pipe2(ends, O_CLOEXEC) < 0)
		result = error_errno(err, ERROR_FAILED, errno, "pipe");
	if (result == 0)
		result = jailplan_begin(place->sup, &spec, -1, ends[1], &start, err);
	fd_close_ptr(&ends[1]);
	while (result == 0) {
		char chunk[8192];
		ssize_t n;
		int ready = supervise_until_readable(place->sup, ends[0], WALL_MS + 30000, err);

		if (ready < 0)
			result = ready;
		n = ready > 0 ? read(ends[0], chunk, sizeof(chunk)) : 0;
		if (n <= 0)
			break;
		strbuf_add(out, chunk, (size_t)n);
	}
	fd_close_ptr(&ends[0]);
	result = jailplan_end(place->sup, &start, result, &facts, NULL, err);
	jail_spec_release(&spec);
	return result ? result : jailplan_judge(&facts, "agent-probe", err);
}

static int attack_with(const struct place *place, const char *first, const char *second,
		       struct canaries *canaries, struct strbuf *out, struct error *err)
{
	char *files[4] = {mem_printf("unix=%s/socket", canaries->dir),
			  mem_printf("file=%s/secret", canaries->dir),
			  mem_printf("victim=%s/victim", canaries->dir),
			  mem_printf("uid=%u", geteuid())};
	/* bounds as in the tests, and addresses that nobody has (RFC 5737, RFC 3849) */
	static const char *const fixed[] = {
	    "memory=192", "processes=150", "fill=64",	      "names=3000",	  "litter=6000",
	    "flood=16",	  "inotify=600",   "host4=192.0.2.1", "host6=2001:db8::1"};
	char *argv[3 + 4 + 4 + ARRAY_LEN(fixed) + 1];
	size_t count = 0, owned = 0;
	int result;

	argv[count++] = mem_strdup(INSIDE);
	argv[count++] = mem_strdup(first);
	if (second)
		argv[count++] = mem_strdup(second);
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		argv[count++] = mem_strdup(fixed[i]);
	owned = count;
	for (size_t i = 0; i < 4; i++)
		argv[count++] = canaries->words[i];
	for (size_t i = 0; i < 4; i++)
		argv[count++] = files[i];
	argv[count] = NULL;
	result = attack(place, argv, out, err);
	for (size_t i = 0; i < owned; i++)
		free(argv[i]);
	for (size_t i = 0; i < 4; i++)
		free(files[i]);
	return result;
}

/* A field of a line of agent-probe --list. A new string. */
static char *field(const char *line, unsigned index)
{
	for (; index; index--)
		line += strcspn(line, "\t\n") + (line[strcspn(line, "\t\n")] == '\t');
	return mem_strndup(line, strcspn(line, "\t\n"));
}

/* All rows in the order of the table; those that want a jail of their own get one. 0 or an error kind. */
static int attack_all(const struct place *place, const char *table, struct canaries *canaries,
		      struct verdicts *verdicts, struct strbuf *all, struct error *err)
{
	if (attack_with(place, "--many", "together", canaries, all, err))
		return err->kind;
	for (const char *line = table; *line;) {
		char *id AUTO_FREE = field(line, 0), *mechanism AUTO_FREE = field(line, 3),
			 *how AUTO_FREE = field(line, 5);
		size_t len = strcspn(line, "\n");

		if (strcmp(how, "host") == 0) {
			char name[300];

			snprintf(name, sizeof(name), "%s %s", id, mechanism);
			doctor_row(
			    place->rows, place->group, name, "not tried",
			    "needs a host that takes part: tests/wall/attack.py of the sources "
			    "tries it",
			    "");
			verdicts->untried++;
		} else {
			if (strcmp(how, "alone") == 0 &&
			    attack_with(place, id, NULL, canaries, all, err))
				return err->kind;
			judge(place, id, mechanism, all->data, verdicts);
		}
		line += len + (line[len] == '\n');
	}
	return 0;
}

static bool tell_sum(const struct place *place, const struct verdicts *verdicts, unsigned holes)
{
	/* What works on a kernel of the backend's own is done to that kernel: there the canaries count. */
	bool native = strcmp(place->backend, "native") == 0, good = !holes;
	char text[300];

	snprintf(
	    text, sizeof(text),
	    "%u blocked, %u worked, %u could not be tried; %u canaries reached%s",
	    verdicts->blocked, verdicts->worked, verdicts->untried, holes,
	    native || !verdicts->worked
		? ""
		: "; what worked was done to the backend's own kernel, by the attack's word");
	if (native && verdicts->worked)
		good = false;
	doctor_row(place->rows, place->group, "sum",
		   !good	      ? "worked"
		   : verdicts->worked ? "note"
				      : "blocked",
		   text, "");
	return good;
}

static bool attack_place(const struct place *place, const char *table, struct error *err)
{
	struct canaries canaries = {.tcp = -1, .local = -1, .path = -1};
	struct strbuf all AUTO_STRBUF = STRBUF_NONE;
	struct verdicts verdicts = {0, 0, 0};
	struct error why = {0};
	unsigned holes = 0;
	int result;

	strbuf_init(&all, OUTPUT_MAX);
	result = make_canaries(&canaries, place->probe, &why);
	if (result == 0)
		result = attack_all(place, table, &canaries, &verdicts, &all, &why);
	if (result == 0)
		ask_oracles(place, &canaries, all.data, &holes);
	release_canaries(&canaries);
	if (result == 0)
		return tell_sum(place, &verdicts, holes);
	if (result == ERROR_INTERRUPTED)
		*err = why;
	else
		doctor_row(place->rows, place->group, "start", "no", why.message, why.next);
	return false;
}

bool doctor_attack(struct json *rows, struct supervisor *sup, const struct options *options,
		   const char *state, const char *backend, struct error *err)
{
	char *pair AUTO_FREE = mem_printf("jail.backend=%s", backend);
	struct strbuf table AUTO_STRBUF = STRBUF_NONE;
	struct place place = {.rows = rows, .sup = sup, .state = state, .backend = backend};
	const char *programs = spawn_program_dir(err);
	bool good = false;

	if (!programs)
		return false;
	place.config = doctor_config(options, pair);
	place.group = mem_printf("attacks: %s", backend);
	place.probe = mem_printf("%s/agent-probe", programs);
	strbuf_init(&table, LIST_MAX);
	if (doctor_ask((const char *const[]){place.probe, "--list", NULL}, 5000, &table) == 0)
		good = attack_place(&place, table.data, err);
	else
		doctor_row(rows, place.group, "agent-probe", "no", "it does not run",
			   "install all programs of this project into one directory");
	free(place.group);
	free(place.probe);
	config_free(place.config);
	return good;
}
