/*
 * jailrun - starts agent-jail by hand, for tests and the bench
 *
 * jailrun [option…] -- command [argument…]
 *   --mem N --pids N --disk N --inodes N --fsize N --wall MS --idle MS --cpu S --cpus N --degraded-ok --egress --observe-off --backend NAME --runtime PATH
 *   --store DIR --scratch DIR --layer NAME… --home-layer NAME… --work-dir DIR --work-rw --copy
 *   --ro DIR:DIR --bind-store DIR:DIR --rw DIR:DIR --env NAME=VALUE --cwd DIR --bare (no
 * default toolchain)
 *   --facts FILE   writes the facts there as "key=value" lines, "-" for descriptor 2
 *   --subuid --separate-uid --reclaim --on-disk   as in the spec
 *   --audit FILE   writes what was applied there, as records, "-" for nowhere
 *   --log FILE --log-bytes N   collects the output as a stage does
 *   --fault STEP   runs agent-jail-faults and lets that step fail
 *   --no-go        closes without a go
 *   --raw-spec FILE --raw-go FILE   sends these bytes instead; with --no-go closes behind them
 *
 *   --bench N --against PROGRAM   starts the jail and the program (words, blank-separated; up to 7
 * of them) N times in turn; prints the times of each in milliseconds
 *
 * Ends as env(1) would: the command's status, 128 + signal, 124 at the deadline, 125 when not
 * set up, 126, 127.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/fds.h"
#include "sandbox/jail_applied.h"
#include "sandbox/jail_manifest.h"
#include "sandbox/jail_spec.h"
#include "sandbox/jail_start.h"

#define AGAINST_MOST 8

struct options {
	struct jail_spec spec;
	struct jail_go go;
	const char *facts, *audit, *log, *fault, *raw_spec, *raw_go;
	size_t log_bytes;
	bool bare, no_go;
	int bench;
	char *against[AGAINST_MOST]; /* NULL behind the last */
};

static void __attribute__((noreturn)) die(const char *what, const struct error *err)
{
	fprintf(stderr, "jailrun: %s: %s\n", what, err ? err->message : strerror(errno));
	exit(125);
}

static void add_bind(struct options *o, enum jail_bind how, char *pair)
{
	char *colon = strchr(pair, ':');

	if (!colon)
		die("SOURCE:TARGET is wanted", NULL);
	*colon = '\0';
	jail_spec_add_mount(&o->spec, how, false, pair, colon + 1);
}

enum {
	O_MEM = 256,
	O_PIDS,
	O_DISK,
	O_INODES,
	O_FSIZE,
	O_WALL,
	O_CPU,
	O_CPUS,
	O_IDLE,
	O_DEGRADED,
	O_BACKEND,
	O_RUNTIME,
	O_EGRESS,
	O_TESTED,
	O_OBSERVEOFF,
	O_STORE,
	O_SCRATCH,
	O_LAYER,
	O_HOME,
	O_WORKDIR,
	O_WORKRW,
	O_COPY,
	O_RO,
	O_BINDSTORE,
	O_RW,
	O_ENV,
	O_CWD,
	O_BARE,
	O_FACTS,
	O_LOG,
	O_LOGBYTES,
	O_FAULT,
	O_NOGO,
	O_RAWSPEC,
	O_RAWGO,
	O_BENCH,
	O_AGAINST,
	O_AUDIT,
	O_SUBUID,
	O_RECLAIM,
	O_SEPARATE,
	O_ONDISK,
};

static const struct option table[] = {
    {"mem", 1, NULL, O_MEM},
    {"pids", 1, NULL, O_PIDS},
    {"disk", 1, NULL, O_DISK},
    {"inodes", 1, NULL, O_INODES},
    {"fsize", 1, NULL, O_FSIZE},
    {"wall", 1, NULL, O_WALL},
    {"cpu", 1, NULL, O_CPU},
    {"cpus", 1, NULL, O_CPUS},
    {"idle", 1, NULL, O_IDLE},
    {"degraded-ok", 0, NULL, O_DEGRADED},
    {"backend", 1, NULL, O_BACKEND},
    {"runtime", 1, NULL, O_RUNTIME},
    {"egress", 0, NULL, O_EGRESS},
    {"tested", 0, NULL, O_TESTED},
    {"observe-off", 0, NULL, O_OBSERVEOFF},
    {"store", 1, NULL, O_STORE},
    {"scratch", 1, NULL, O_SCRATCH},
    {"layer", 1, NULL, O_LAYER},
    {"home-layer", 1, NULL, O_HOME},
    {"work-dir", 1, NULL, O_WORKDIR},
    {"work-rw", 0, NULL, O_WORKRW},
    {"copy", 0, NULL, O_COPY},
    {"ro", 1, NULL, O_RO},
    {"bind-store", 1, NULL, O_BINDSTORE},
    {"rw", 1, NULL, O_RW},
    {"env", 1, NULL, O_ENV},
    {"cwd", 1, NULL, O_CWD},
    {"bare", 0, NULL, O_BARE},
    {"facts", 1, NULL, O_FACTS},
    {"log", 1, NULL, O_LOG},
    {"log-bytes", 1, NULL, O_LOGBYTES},
    {"fault", 1, NULL, O_FAULT},
    {"no-go", 0, NULL, O_NOGO},
    {"raw-spec", 1, NULL, O_RAWSPEC},
    {"raw-go", 1, NULL, O_RAWGO},
    {"bench", 1, NULL, O_BENCH},
    {"against", 1, NULL, O_AGAINST},
    {"audit", 1, NULL, O_AUDIT},
    {"subuid", 0, NULL, O_SUBUID},
    {"reclaim", 0, NULL, O_RECLAIM},
    {"separate-uid", 0, NULL, O_SEPARATE},
    {"on-disk", 0, NULL, O_ONDISK},
    {NULL, 0, NULL, 0},
};

static uint64_t number(void)
{
	return strtoull(optarg, NULL, 10);
}

static void take_option(struct options *o, int c)
{
	struct jail_limits *limits = &o->spec.limits;
	char *equal;

	switch (c) {
	case O_MEM:
		limits->memory_bytes = number();
		break;
	case O_PIDS:
		limits->processes = number();
		break;
	case O_DISK:
		limits->disk_bytes = number();
		break;
	case O_INODES:
		limits->inodes = number();
		break;
	case O_FSIZE:
		limits->file_bytes = number();
		break;
	case O_WALL:
		limits->wall_ms = number();
		break;
	case O_IDLE:
		limits->idle_ms = number();
		break;
	case O_CPU:
		limits->cpu_s = number();
		break;
	case O_CPUS:
		limits->cpus = number();
		break;
	case O_BACKEND:
		if (jail_backend_parse(optarg, &o->spec.backend) < 0)
			die("no such backend", NULL);
		break;
	case O_RUNTIME:
		o->spec.runtime = mem_strdup(optarg);
		break;
	case O_DEGRADED:
		limits->degraded_ok = true;
		break;
	case O_EGRESS:
		o->spec.egress = true;
		break;
	case O_TESTED:
		o->spec.tested = true;
		break;
	case O_OBSERVEOFF:
		o->spec.observe = false;
		break;
	case O_STORE:
		o->spec.store = mem_strdup(optarg);
		break;
	case O_SCRATCH:
		o->spec.scratch = mem_strdup(optarg);
		break;
	case O_LAYER:
		jail_go_add(&o->go, optarg);
		break;
	case O_HOME:
		jail_go_add_home(&o->go, optarg);
		break;
	case O_WORKDIR:
		o->spec.work_dir = mem_strdup(optarg);
		break;
	case O_WORKRW:
		o->spec.work_rw = true;
		break;
	case O_COPY:
		o->spec.copy_layers = true;
		break;
	case O_RO:
		add_bind(o, JAIL_BIND_RO, optarg);
		break;
	case O_BINDSTORE:
		add_bind(o, JAIL_BIND_STORE, optarg);
		break;
	case O_RW:
		add_bind(o, JAIL_BIND_RW, optarg);
		break;
	case O_ENV:
		equal = strchr(optarg, '=');
		if (!equal)
			die("NAME=VALUE is wanted", NULL);
		*equal = '\0';
		jail_spec_add_env(&o->spec, optarg, equal + 1);
		break;
	case O_CWD:
		o->spec.cwd = mem_strdup(optarg);
		break;
	case O_BARE:
		o->bare = true;
		break;
	case O_FACTS:
		o->facts = optarg;
		break;
	case O_AUDIT:
		o->audit = optarg;
		o->spec.audit = true;
		break;
	case O_SUBUID:
		o->spec.subuid = true;
		break;
	case O_RECLAIM:
		o->spec.reclaim = true;
		break;
	case O_ONDISK:
		o->spec.on_disk = true;
		break;
	case O_SEPARATE:
		o->spec.separate_uid = true;
		break;
	case O_LOG:
		o->log = optarg;
		break;
	case O_LOGBYTES:
		o->log_bytes = number();
		break;
	case O_FAULT:
		o->fault = optarg;
		break;
	case O_NOGO:
		o->no_go = true;
		break;
	case O_RAWSPEC:
		o->raw_spec = optarg;
		break;
	case O_BENCH:
		o->bench = (int)number();
		break;
	case O_AGAINST:
		for (int i = 0; i < AGAINST_MOST - 1; i++)
			if (!o->against[i]) {
				o->against[i] = optarg;
				break;
			}
		break;
	case O_RAWGO:
		o->raw_go = optarg;
		break;
	default:
		exit(125);
	}
}

static void read_file(const char *path, struct strbuf *out)
{
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC);

	strbuf_reset(out);
	if (fd < 0 || fd_read_all(fd, out) < 0)
		die(path, NULL);
}

static int make_spec(struct options *o)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd;

	strbuf_init(&text, STRBUF_MAX);
	jail_spec_format(&o->spec, &text);
	if (o->raw_spec)
		read_file(o->raw_spec, &text);
	fd = fd_memfd_sealed("spec", text.data, text.len);
	if (fd < 0)
		die("memfd", NULL);
	return fd;
}

/* As jail_start, but agent-jail-faults with the step as its argument. */
static void start_faulty(struct jail_handle *jail, const char *step, int facts, int spec)
{
	char path[4096];
	int go[2];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 32);

	if (len < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go) < 0)
		die("start", NULL);
	path[len] = '\0';
	memcpy(strrchr(path, '/') + 1, "agent-jail-faults", sizeof("agent-jail-faults"));
	jail->pid = fork();
	if (jail->pid == 0) {
		const int from[] = {facts, spec, go[1], 0, 1, 2};
		int moved[6];
		char name[] = "agent-jail";
		char *argument = mem_strdup(step);
		char *argv[] = {name, argument, NULL};
		char *env[] = {NULL};

		for (int i = 0; i < 6; i++)
			moved[i] = fcntl(from[i], F_DUPFD, 100);
		for (int i = 0; i < 6; i++)
			dup2(moved[i], FD_FACTS + i);
		close_range(100, ~0U, 0);
		execve(path, argv, env);
		_exit(125);
	}
	close(go[1]);
	close(facts);
	close(spec);
	jail->go_fd = go[0];
	jail->output_fd = -1;
}

static int send_raw(struct jail_handle *jail, const char *path)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	read_file(path, &text);
	return send(jail->go_fd, text.data, text.len, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static void wait_for(struct options *o, struct jail_handle *jail)
{
	struct error err = {0};
	unsigned long long total;
	int cut;

	if (o->log) {
		int log AUTO_FD = open(o->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		jail->idle_ms = (long long)o->spec.limits.idle_ms;
		if (log < 0 || jail_collect(jail, log, o->log_bytes, &total, &cut, &err) < 0)
			die(o->log, err.kind ? &err : NULL);
		fprintf(stderr, "total=%llu cut=%d\n", total, cut);
		return;
	}
	while (waitpid(jail->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
}

/* What was applied comes in front of the facts: it goes elsewhere. */
static void split_applied(const struct options *o, struct strbuf *text)
{
	size_t size = jail_applied_size(text->data, text->len);
	int fd AUTO_FD = -1;

	if (o->audit && strcmp(o->audit, "-") != 0) {
		fd = open(o->audit, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (fd < 0 || fd_write_all(fd, text->data, size) < 0)
			die(o->audit, NULL);
	}
	memmove(text->data, text->data + size, text->len - size);
	text->len -= size;
	text->data[text->len] = '\0';
}

static void print_facts(const char *where, const struct strbuf *text)
{
	FILE *file = strcmp(where, "-") == 0 ? stderr : fopen(where, "we");

	for (size_t i = 0; file && i < text->len; i++)
		fputc(text->data[i] ? text->data[i] : '\n', file);
	if (file)
		fclose(file);
}

static int status_of(const struct jail_facts *facts)
{
	switch (facts->outcome) {
	case JAIL_EXITED:
		return facts->value;
	case JAIL_SIGNALED:
	case JAIL_LIMIT:
		return 128 + facts->value;
	case JAIL_TIMEOUT:
		return 124;
	case JAIL_OOM:
		return 137;
	case JAIL_KILLED:
		return 128 + 31;
	case JAIL_NOT_RUN:
		return facts->value == ENOENT ? 127 : 126;
	case JAIL_SETUP:
	case JAIL_INTERNAL:
		break;
	}
	return 125;
}

/* ---- bench ---- */

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* One jail, from the fork of its starter to the last byte of its facts and its end. */
static void one_jail(struct options *o)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct jail_handle jail = {.pid = -1, .take_fd = -1};
	struct jail_facts facts;
	struct error err = {0};
	int ends[2];

	strbuf_init(&text, JAIL_SPEC_MAX);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		die("socketpair", NULL);
	if (jail_start(&jail, ends[1], make_spec(o), -1, -1, fcntl(1, F_DUPFD_CLOEXEC, 3),
		       fcntl(2, F_DUPFD_CLOEXEC, 3), &err) < 0 ||
	    jail_send_go(&jail, &o->go, &err) < 0)
		die("start", &err);
	if (fd_read_all(ends[0], &text) < 0)
		die("facts", NULL);
	split_applied(o, &text);
	if (jail_facts_parse(text.data, text.len, &facts, &err) < 0 ||
	    facts.outcome != JAIL_EXITED || facts.value != 0)
		die("the jail failed", NULL);
	jail_close(&jail);
	close(ends[0]);
}

static void one_program(char **argv)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status)
		die(argv[0], NULL);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void show(const char *name, double *times, int count)
{
	qsort(times, (size_t)count, sizeof(*times), compare);
	printf("%s least %.2f quarter %.2f median %.2f\n", name, times[0], times[count / 4],
	       times[count / 2]);
}

static int bench(struct options *o)
{
	double *times[AGAINST_MOST] = {NULL};
	char **argv[AGAINST_MOST] = {NULL};

	for (int k = 0; k < AGAINST_MOST; k++)
		times[k] = mem_calloc((size_t)o->bench, sizeof(double));
	for (int k = 0; o->against[k]; k++)
		argv[k] = text_split_words(o->against[k]);
	for (int i = 0; i < o->bench; i++) {
		double begun;

		/* each behind one of its own kind, whose leavings the kernel takes down meanwhile */
		one_jail(o);
		begun = now_ms();
		one_jail(o);
		times[AGAINST_MOST - 1][i] = now_ms() - begun;
		for (int k = 0; argv[k]; k++) {
			one_program(argv[k]);
			begun = now_ms();
			one_program(argv[k]);
			times[k][i] = now_ms() - begun;
		}
	}
	show("agent-jail", times[AGAINST_MOST - 1], o->bench);
	for (int k = 0; argv[k]; k++)
		show(argv[k][0], times[k], o->bench);
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = {.log_bytes = 65536};
	struct jail_handle jail = {.pid = -1, .take_fd = -1};
	struct jail_facts facts;
	struct error err = {0};
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int ends[2], egress[2] = {-1, -1}, c, result;

	jail_spec_init(&o.spec);
	jail_go_init(&o.go);
	/* first what can be overridden */
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		o.bare = o.bare || strcmp(argv[i], "--bare") == 0;
	if (!o.bare)
		jail_manifest_default(&o.spec);
	while ((c = getopt_long(argc, argv, "+", table, NULL)) >= 0)
		take_option(&o, c);
	for (int i = optind; i < argc; i++)
		jail_spec_add_arg(&o.spec, argv[i]);
	if (!o.spec.cwd)
		o.spec.cwd = mem_strdup(JAIL_WORK);
	if (o.bench)
		return bench(&o);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0 ||
	    (o.spec.egress && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, egress) < 0))
		die("pipe", NULL);
	if (o.fault)
		start_faulty(&jail, o.fault, ends[1], make_spec(&o));
	else if (jail_start(&jail, ends[1], make_spec(&o), egress[1],
			    fcntl(0, F_DUPFD_CLOEXEC, 3),
			    o.log ? -1 : fcntl(1, F_DUPFD_CLOEXEC, 3),
			    o.log ? -1 : fcntl(2, F_DUPFD_CLOEXEC, 3), &err) < 0)
		die("start", &err);
	if (o.no_go) {
		if (o.raw_go)
			send_raw(&jail, o.raw_go);
		jail_close(&jail);
	} else {
		result =
		    o.raw_go ? send_raw(&jail, o.raw_go) : jail_send_go(&jail, &o.go, &err);
		if (result < 0 && err.kind)
			fprintf(stderr, "jailrun: %s\n", err.message);
		wait_for(&o, &jail);
	}
	strbuf_init(&text, JAIL_SPEC_MAX);
	if (fd_read_all(ends[0], &text) < 0)
		die("facts", NULL);
	split_applied(&o, &text);
	if (o.facts)
		print_facts(o.facts, &text);
	if (!text.len)
		return o.no_go ? 0 : 125;
	if (jail_facts_parse(text.data, text.len, &facts, &err) < 0)
		die("facts", &err);
	return status_of(&facts);
}
