/* agent doctor: what this machine offers, by trying it, and how to mend what is missing. */
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/scope.h"
#include "sandbox/jail_spec.h"

void doctor_row(struct json *rows, const char *group, const char *name, const char *state,
		const char *detail, const char *next)
{
	struct json *row = js_object_new();

	js_set_str(row, "group", group);
	js_set_str(row, "name", name);
	js_set_str(row, "state", state);
	js_set_str(row, "detail", detail);
	js_set_str(row, "next", next);
	js_push(rows, row);
}

static const char *const backends[] = {"native", "gvisor"};

/* The one that counts. */
static const char *backend_of(const struct options *options)
{
	if (options->backend)
		return options->backend;
	return config_get(options->config, "jail.backend");
}

static bool is_backend(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(backends); i++)
		if (strcmp(backends[i], name) == 0)
			return true;
	return false;
}

/* ---- configuration, state ---- */

static void file_row(struct json *rows, const char *path, bool whole)
{
	bool there = access(path, F_OK) == 0;

	doctor_row(rows, "configuration", path, there ? "yes" : "not tried",
		   !there  ? "not there: nothing is set by it"
		   : whole ? "read"
			   : "there; an error stopped the reading, see below",
		   "");
}

static bool check_configuration(struct json *rows, const struct options *options)
{
	const struct error *bad = &options->config_error;
	char *user AUTO_FREE = config_user_file();

	file_row(rows, CONFIG_SYSTEM_FILE, !bad->kind);
	if (user)
		file_row(rows, user, !bad->kind);
	if (bad->kind)
		doctor_row(rows, "configuration", "values", "no", bad->message,
			   bad->next[0] ? bad->next
					: "mend that line; agent help config lists the keys");
	else
		doctor_row(rows, "configuration", "values", "yes",
			   "all keys and values are understood", "");
	return !bad->kind;
}

static const char *file_system_text(long magic)
{
	static const struct {
		long magic;
		const char *name;
	} known[] = {{0xEF53, "ext4"},	    {0x58465342, "xfs"},     {0x9123683E, "btrfs"},
		     {0x01021994, "tmpfs"}, {0x794c7630, "overlay"}, {0x6969, "nfs"},
		     {0x2fc12fc1, "zfs"},   {0xf2f52010, "f2fs"},    {0x65735546, "fuse"}};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (known[i].magic == magic)
			return known[i].name;
	return "another file system";
}

#define STATE_LEAST (64ULL << 20) /* a run of a small repository has room in it */

static bool check_state(struct json *rows, const char *state, const struct error *err)
{
	char *tmp AUTO_FREE = state ? mem_printf("%s/.doctor-%d", state, (int)getpid()) : NULL;
	char text[512], shown[256];
	struct statfs fs;

	if (!state) {
		doctor_row(rows, "state", "directory", "no", err->message,
			   err->next[0] ? err->next
					: "name one that can be written in AGENT_STATE_DIR");
		return false;
	}
	if (fd_mkdir_all(tmp) < 0 || rmdir(tmp) < 0 || statfs(state, &fs) < 0) {
		snprintf(text, sizeof(text), "%.200s cannot be written: %s", state,
			 strerror(errno));
		doctor_row(rows, "state", "directory", "no", text,
			   "make it writable, or name another one in AGENT_STATE_DIR");
		return false;
	}
	snprintf(shown, sizeof(shown), "%.200s", state);
	snprintf(text, sizeof(text), "%s: %s, %llu MiB free", shown,
		 file_system_text((long)fs.f_type),
		 (unsigned long long)fs.f_bavail * (unsigned long long)fs.f_bsize >> 20);
	if ((unsigned long long)fs.f_bavail * (unsigned long long)fs.f_bsize < STATE_LEAST)
		doctor_row(rows, "state", "directory", "part", text,
			   "make room (agent gc), or name another place in AGENT_STATE_DIR");
	else
		doctor_row(rows, "state", "directory", "yes", text, "");
	return true;
}

static void say_warnings(struct json *rows, const struct options *options)
{
	char text[512];

	doctor_row(rows, "model", "provider", "not tried",
		   "nothing is sent to the model's provider from here: agent run asks it", "");
	snprintf(
	    text, sizeof(text),
	    "results go to %.200s. A branch that is pushed to a forge starts the forge's CI on "
	    "code that a model wrote, with CI's secrets and network: that is outside of the "
	    "jail",
	    config_get(options->config, "publish.ref"));
	doctor_row(rows, "publish", "CI of the server", "note", text,
		   "where CI has secrets, publish to refs/agent/* ([publish] ref) or to a "
		   "fork, and let "
		   "no CI definition be changed ([apply] protect)");
}

/* ---- text ---- */

static const char *mark_of(const char *state)
{
	return strcmp(state, "yes") == 0	 ? "ok"
	       : strcmp(state, "part") == 0	 ? "part"
	       : strcmp(state, "no") == 0	 ? "NO"
	       : strcmp(state, "worked") == 0	 ? "WORKED"
	       : strcmp(state, "not tried") == 0 ? "-"
						 : state;
}

#define ROW_COLUMN 10

/* Without control characters, whatever a tool or a file name said. */
static void add_escaped(struct strbuf *out, const char *name, const char *between,
			const char *text, size_t width)
{
	char *whole AUTO_FREE = mem_printf("%s%s%s", name, between, text);
	size_t size = 8 * strlen(whole) + 8;
	char *shown AUTO_FREE = mem_calloc(size, 1);

	text_escape(shown, size, whole, strlen(whole));
	strbuf_add_wrapped(out, shown, ROW_COLUMN, ROW_COLUMN, width);
}

/* What mends a row, or the name of an earlier one that the same mends. */
static void add_next(struct strbuf *out, const struct json *rows, size_t at, size_t width)
{
	const char *next = js_str(js_at(rows, at), "next", "");
	size_t first = 0;

	if (!next[0])
		return;
	while (strcmp(js_str(js_at(rows, first), "next", ""), next) != 0)
		first++;
	strbuf_adds(out, "\n          ");
	if (first < at)
		add_escaped(out, "fix: as for ", "", js_str(js_at(rows, first), "name", "?"),
			    width);
	else
		add_escaped(out, "fix", ": ", next, width);
}

static void print_rows(const struct json *rows, struct strbuf *out)
{
	const char *group = "";
	size_t width = fd_columns(STDOUT_FILENO);

	for (size_t i = 0; i < js_len(rows); i++) {
		const struct json *row = js_at(rows, i);

		if (strcmp(group, js_str(row, "group", "")) != 0) {
			group = js_str(row, "group", "");
			strbuf_addf(out, "%s%s\n", i ? "\n" : "", group);
		}
		strbuf_addf(out, "  %-7s ", mark_of(js_str(row, "state", "?")));
		add_escaped(out, js_str(row, "name", "?"), ": ", js_str(row, "detail", ""),
			    width);
		add_next(out, rows, i, width);
		strbuf_addc(out, '\n');
	}
}

static int tell(const struct options *options, struct json *rows, bool fit, bool well,
		struct error *err)
{
	struct json *report AUTO_JSON = js_artefact_new("doctor", 1);
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&out, STRBUF_MAX);
	js_set_str(report, "backend", backend_of(options));
	js_set_bool(report, "can_run", fit);
	js_set(report, "rows", js_copy(rows));
	if (options->json) {
		js_format_ascii(report, &out);
		strbuf_addc(&out, '\n');
	} else {
		print_rows(rows, &out);
		strbuf_addf(
		    &out, "\n%s\n",
		    !fit    ? "agent run cannot be used here yet: see NO above"
		    : !well ? "the jail holds here, but not all is well: see NO or WORKED above"
			    : "agent run can be used here");
	}
	if (fd_write_all(STDOUT_FILENO, out.data, out.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "standard output");
	return 0;
}

/* ---- all ---- */

static bool examine(struct json *rows, const struct options *options, const char *state,
		    bool *safe, struct error *err)
{
	struct journal journal;
	struct supervisor sup;
	bool fit = false;

	*safe = true;
	journal_init(&journal, false);
	journal.quiet = true;
	journal.terminal = false;
	if (supervise_init(&sup, &journal, err) == 0) {
		for (size_t i = 0; i < ARRAY_LEN(backends) && !err->kind; i++) {
			bool chosen = strcmp(backends[i], backend_of(options)) == 0;
			bool starts;

			if (options->backend && strcmp(options->backend, backends[i]) != 0)
				continue;
			starts = doctor_jail(rows, &sup, options, state, backends[i], chosen);

			fit |= starts && chosen;
			if (options->attack && starts && isatty(STDERR_FILENO) == 1)
				fprintf(stderr, "attacking a jail of %s …\n", backends[i]);
			if (options->attack && starts)
				*safe &=
				    doctor_attack(rows, &sup, options, state, backends[i], err);
		}
	}
	supervise_release(&sup);
	journal_release(&journal);
	return fit;
}

/* Of cgroup v2; where there is none, version 1 may do, which the row of the control group says. */
static void place_row(struct json *rows, const struct error *none)
{
	const char *text = none->message, *state = "part", *next = "";
	char *instead AUTO_FREE = NULL;

	for (size_t i = 0; i < js_len(rows); i++) {
		const struct json *row = js_at(rows, i);

		if (strcmp(js_str(row, "name", ""), "control group") != 0)
			continue;
		state = js_str(row, "state", state);
		next = js_str(row, "next", next);
	}
	if (!none->kind) {
		state = "yes";
		text = "a part of cgroup v2 is ours, delegated or by a scope of systemd's";
	} else if (strcmp(state, "yes") == 0) {
		text = instead =
		    mem_printf("none is needed in cgroup v2, see control group: %s", text);
	} else {
		state = "part";
	}
	doctor_row(rows, "machine", "place for groups", state, text,
		   strcmp(state, "yes") == 0 ? "" : next);
}

int cmd_doctor(struct options *options, struct error *err)
{
	struct json *rows AUTO_JSON = js_array_new();
	struct error state_error = {0}, no_place = {0};
	char *state AUTO_FREE = rundir_state_dir(&state_error);
	bool configured, writable, equipped, fit, safe;

	if (options->word_count) {
		error_set(err, ERROR_USAGE, "agent doctor takes options only, not %s",
			  options->words[0]);
		return error_next(err, "agent doctor --help lists its options");
	}
	if (options->backend && !is_backend(options->backend))
		return error_set(err, ERROR_USAGE,
				 "--backend %s: must be one of: native gvisor",
				 options->backend);
	/* first: what comes after lies in the group that this gives us */
	scope_enter(&no_place);
	doctor_machine(rows, state ? state : "/tmp");
	place_row(rows, &no_place);
	fit = examine(rows, options, state ? state : "/nonexistent", &safe, err);
	if (err->kind)
		return err->kind;
	equipped = doctor_tools(rows, options->config);
	writable = check_state(rows, state, &state_error);
	configured = check_configuration(rows, options);
	say_warnings(rows, options);
	if (tell(options, rows, fit, configured && writable && equipped && safe, err))
		return err->kind;
	return !fit			? ERROR_ISOLATION
	       : !safe			? ERROR_NO
	       : !configured		? ERROR_USAGE
	       : !writable || !equipped ? ERROR_FAILED
					: 0;
}
