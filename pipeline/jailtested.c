#include "jailtested.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/spawn.h"
#include "sandbox/jail_spec.h"

#define NAME "selftest"
#define PART "selftest.part"
#define KEY_LINE 65 /* 64 digits and the end of the line */
#define KEYS_MOST 32
#define FIRST_PAGE 4096

/* ---- the key ---- */

/* The file's identity: whoever writes to it changes its ctime, which nobody can set. */
static bool add_program(struct strbuf *text, const char *program)
{
	char page[FIRST_PAGE];
	struct stat st;
	int fd AUTO_FD = open(program, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	len = pread(fd, page, sizeof(page), 0);
	if (len <= 0)
		return false;
	strbuf_addf(text, "%llu %llu %lld %lld.%09ld %lld.%09ld\n",
		    (unsigned long long)st.st_dev, (unsigned long long)st.st_ino,
		    (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
		    (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
	strbuf_add(text, page, (size_t)len);
	return true;
}

/* All of it but what is the command's, the run's own directories, and how much may be used. */
static void add_spec(struct strbuf *text, const struct jail_spec *spec)
{
	struct jail_spec kind = *spec; /* shallow, never released */

	kind.argv = kind.env = NULL;
	kind.cwd = kind.store = kind.scratch = kind.work_dir = NULL;
	kind.tested = kind.audit = false;
	memset(&kind.limits, 0, sizeof(kind.limits));
	kind.limits.degraded_ok = spec->limits.degraded_ok;
	jail_spec_format(&kind, text);
	strbuf_addf(text, "%d%d%d\n", spec->store != NULL, spec->scratch != NULL,
		    spec->work_dir != NULL);
}

/* Empty where there can be none: another backend, a program that cannot be read. */
static void make_key(const struct jail_spec *spec, const char *boot, const char *program,
		     struct jailtested *tested)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	tested->key[0] = '\0';
	if (spec->backend != JAIL_NATIVE || !boot[0])
		return;
	strbuf_init(&text, (size_t)2 * JAIL_SPEC_MAX);
	strbuf_addf(&text, "jailtested 1\n%s\n%u %u\n", boot, geteuid(), getegid());
	if (!add_program(&text, program))
		return;
	add_spec(&text, spec);
	if (!text.full)
		sha256_hex(text.data, text.len, tested->key);
}

/* ---- the file ---- */

static bool is_ours_alone(int fd, mode_t type)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == geteuid() &&
	       !(st.st_mode & 022) && (type == S_IFDIR || st.st_nlink == 1);
}

/* The state directory, -1 when it is not ours alone. */
static int open_state(const char *state)
{
	int fd AUTO_FD = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && is_ours_alone(fd, S_IFDIR) ? fd_steal(&fd) : -1;
}

/* What is remembered: nothing when the file is not ours alone or not as we write it. */
static void read_keys(int dir, struct strbuf *keys)
{
	int fd AUTO_FD = openat(dir, NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	strbuf_init(keys, (size_t)KEYS_MOST * KEY_LINE);
	if (fd < 0 || !is_ours_alone(fd, S_IFREG) || fd_read_all(fd, keys) < 0 || keys->full ||
	    keys->len % KEY_LINE)
		strbuf_reset(keys);
}

static bool has_key(const struct strbuf *keys, const char *key)
{
	for (size_t at = 0; at + KEY_LINE <= keys->len; at += KEY_LINE)
		if (memcmp(keys->data + at, key, KEY_LINE - 1) == 0 &&
		    keys->data[at + KEY_LINE - 1] == '\n')
			return true;
	return false;
}

/* The newest ones stay: those of other boots and programs are pushed out. */
static void write_keys(int dir, const struct strbuf *keys, const char *key)
{
	size_t skip = keys->len >= (size_t)KEYS_MOST * KEY_LINE ? KEY_LINE : 0;
	int fd AUTO_FD = -1;

	/* One left by a killed writer goes. Of two at once the later one's may be renamed before it is whole: it is
	 * not believed until then. */
	unlinkat(dir, PART, 0);
	fd = openat(dir, PART, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if ((keys->len && fd_write_all(fd, keys->data + skip, keys->len - skip) < 0) ||
	    fd_write_all(fd, key, KEY_LINE - 1) < 0 || fd_write_all(fd, "\n", 1) < 0 ||
	    renameat(dir, PART, dir, NAME) < 0)
		unlinkat(dir, PART, 0);
}

/* ---- before and after a jail ---- */

static void read_boot(struct strbuf *boot)
{
	int fd AUTO_FD = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	strbuf_init(boot, 64);
	if (fd < 0 || fd_read_all(fd, boot) < 0)
		strbuf_reset(boot);
	strbuf_addc(boot, '\0');
}

void jailtested_look_at(const char *state, const char *boot, const char *program,
			struct jail_spec *spec, struct jailtested *tested)
{
	struct strbuf keys AUTO_STRBUF = STRBUF_NONE;
	int dir AUTO_FD = open_state(state);

	spec->tested = false;
	tested->key[0] = '\0';
	if (dir < 0)
		return;
	make_key(spec, boot, program, tested);
	read_keys(dir, &keys);
	if (tested->key[0] && has_key(&keys, tested->key)) {
		spec->tested = true;
		tested->key[0] = '\0';
	}
}

void jailtested_look(const char *state, struct jail_spec *spec, struct jailtested *tested)
{
	struct strbuf boot AUTO_STRBUF = STRBUF_NONE;
	struct error ignored = {0};
	const char *programs = spawn_program_dir(&ignored);
	char *program AUTO_FREE = programs ? mem_printf("%s/agent-jail", programs) : NULL;

	read_boot(&boot);
	jailtested_look_at(state, boot.data, program ? program : "", spec, tested);
}

/* Whether the payload ran: our own steps, the self-test among them, had all held by then. */
static bool payload_ran(const struct jail_facts *facts)
{
	return facts->outcome != JAIL_SETUP && facts->outcome != JAIL_INTERNAL &&
	       strstr(facts->layers, "selftest") != NULL;
}

void jailtested_keep(const char *state, const struct jailtested *tested,
		     const struct jail_facts *facts)
{
	struct strbuf keys AUTO_STRBUF = STRBUF_NONE;
	int dir AUTO_FD = tested->key[0] && payload_ran(facts) ? open_state(state) : -1;

	if (dir < 0)
		return;
	read_keys(dir, &keys);
	if (!has_key(&keys, tested->key))
		write_keys(dir, &keys, tested->key);
}
