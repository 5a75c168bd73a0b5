#include "jail_spec.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail_record.h"

/* Caps of a parsed spec: far above real use, far below what would hurt agent-jail. */
#define MAX_ARGS 4096
#define MAX_ENV 1024
#define MAX_MOUNTS 512
#define MAX_LAYERS 128
#define MAX_PATH 4095

/* ---- backends ---- */

static const char *const backends[JAIL_BACKEND_COUNT] = {
    [JAIL_NATIVE] = "native",
    [JAIL_GVISOR] = "gvisor",
};

const char *jail_backend_text(enum jail_backend backend)
{
	return (unsigned)backend < JAIL_BACKEND_COUNT ? backends[backend] : "?";
}

int jail_backend_parse(const char *text, enum jail_backend *backend)
{
	for (unsigned i = 0; i < JAIL_BACKEND_COUNT; i++) {
		if (strcmp(backends[i], text) == 0) {
			*backend = (enum jail_backend)i;
			return 0;
		}
	}
	return -1;
}

const char *jail_scratch_text(bool on_disk)
{
	return on_disk ? "disk" : "memory";
}

/* ---- string lists: NULL-terminated, grown one at a time ---- */

static size_t list_len(char **list)
{
	size_t count = 0;

	while (list && list[count])
		count++;
	return count;
}

static void list_add(char ***list, const char *text)
{
	size_t count = list_len(*list);

	*list = mem_realloc(*list, count + 2, sizeof(**list));
	(*list)[count] = mem_strdup(text);
	(*list)[count + 1] = NULL;
}

static void list_free(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

static int parse_bool(const char *text, bool *value)
{
	if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return -1;
	*value = text[0] == '1';
	return 0;
}

/* Absolute, no empty, "." or ".." component, no slash at the end (but "/" itself), not too
 * long. */
static bool is_clean_path(const char *path)
{
	size_t len = strlen(path);

	if (path[0] != '/' || len > MAX_PATH)
		return false;
	if (len == 1)
		return true;
	while (*path) {
		size_t part;

		path++; /* the slash */
		part = strcspn(path, "/");
		if (!part || (part == 1 && path[0] == '.') ||
		    (part == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		path += part;
	}
	return true;
}

/* ---- spec ---- */

static const struct {
	const char *name;
	enum jail_bind how;
} binds[] = {{"ro", JAIL_BIND_RO}, {"store", JAIL_BIND_STORE}, {"rw", JAIL_BIND_RW}};

void jail_spec_init(struct jail_spec *spec)
{
	memset(spec, 0, sizeof(*spec));
	spec->observe = true;
	spec->limits.wall_ms = 600000;
	spec->limits.memory_bytes = 4ULL << 30;
	spec->limits.processes = 1024;
	spec->limits.disk_bytes = 2ULL << 30;
	spec->limits.inodes = 1000000;
	spec->limits.file_bytes = 8ULL << 30;
}

void jail_spec_release(struct jail_spec *spec)
{
	list_free(spec->argv);
	list_free(spec->env);
	free(spec->cwd);
	free(spec->store);
	free(spec->scratch);
	free(spec->work_dir);
	free(spec->runtime);
	for (size_t i = 0; i < spec->mount_count; i++) {
		free(spec->mounts[i].source);
		free(spec->mounts[i].target);
	}
	free(spec->mounts);
	memset(spec, 0, sizeof(*spec));
}

void jail_spec_add_arg(struct jail_spec *spec, const char *arg)
{
	list_add(&spec->argv, arg);
}

void jail_spec_add_env(struct jail_spec *spec, const char *name, const char *value)
{
	char *text AUTO_FREE = mem_printf("%s=%s", name, value);
	size_t len = strlen(name) + 1;

	for (char **env = spec->env; env && *env; env++) {
		if (strncmp(*env, text, len) != 0)
			continue;
		free(*env);
		*env = MEM_STEAL(text);
		return;
	}
	list_add(&spec->env, text);
}

void jail_spec_remove_env(struct jail_spec *spec, const char *name)
{
	size_t len = strlen(name);

	for (char **env = spec->env; env && *env; env++) {
		if (strncmp(*env, name, len) != 0 || (*env)[len] != '=')
			continue;
		free(*env);
		for (; *env; env++)
			env[0] = env[1];
		return;
	}
}

void jail_spec_add_mount(struct jail_spec *spec, enum jail_bind how, bool optional,
			 const char *source, const char *target)
{
	struct jail_mount *mount;

	spec->mounts = mem_realloc(spec->mounts, spec->mount_count + 1, sizeof(*spec->mounts));
	mount = &spec->mounts[spec->mount_count++];
	mount->how = how;
	mount->optional = optional;
	mount->source = mem_strdup(source);
	mount->target = mem_strdup(target);
}

/* The numbers and switches of a spec, in the order in which they are written. */
struct field {
	const char *key;
	uint64_t *number; /* one of these two */
	bool *flag;
	bool may_be_zero;
};

#define FIELD_COUNT 21

static void list_fields(struct jail_spec *spec, struct field fields[FIELD_COUNT])
{
	struct jail_limits *limits = &spec->limits;
	const struct field all[FIELD_COUNT] = {
	    {"wall_ms", &limits->wall_ms, NULL, false},
	    {"idle_ms", &limits->idle_ms, NULL, true},
	    {"cpu_s", &limits->cpu_s, NULL, true},
	    {"cpus", &limits->cpus, NULL, true},
	    {"memory_bytes", &limits->memory_bytes, NULL, false},
	    {"processes", &limits->processes, NULL, false},
	    {"disk_bytes", &limits->disk_bytes, NULL, false},
	    {"inodes", &limits->inodes, NULL, false},
	    {"file_bytes", &limits->file_bytes, NULL, false},
	    {"degraded_ok", NULL, &limits->degraded_ok, true},
	    {"egress", NULL, &spec->egress, true},
	    {"work_rw", NULL, &spec->work_rw, true},
	    {"copy_layers", NULL, &spec->copy_layers, true},
	    {"on_disk", NULL, &spec->on_disk, true},
	    {"subuid", NULL, &spec->subuid, true},
	    {"reclaim", NULL, &spec->reclaim, true},
	    {"take", NULL, &spec->take, true},
	    {"separate_uid", NULL, &spec->separate_uid, true},
	    {"audit", NULL, &spec->audit, true},
	    {"observe", NULL, &spec->observe, true},
	    {"tested", NULL, &spec->tested, true},
	};

	memcpy(fields, all, sizeof(all));
}

void jail_spec_format(const struct jail_spec *spec, struct strbuf *out)
{
	struct jail_spec copy = *spec; /* shallow: list_fields wants to point into it */
	struct field fields[FIELD_COUNT];

	record_put(out, "jail_spec", "1");
	record_put(out, "backend", jail_backend_text(spec->backend));
	if (spec->runtime)
		record_put(out, "runtime", spec->runtime);
	for (size_t i = 0; spec->argv && spec->argv[i]; i++)
		record_put(out, "arg", spec->argv[i]);
	for (size_t i = 0; spec->env && spec->env[i]; i++)
		record_put(out, "env", spec->env[i]);
	if (spec->cwd)
		record_put(out, "cwd", spec->cwd);
	if (spec->store)
		record_put(out, "store", spec->store);
	if (spec->scratch)
		record_put(out, "scratch", spec->scratch);
	if (spec->work_dir)
		record_put(out, "work_dir", spec->work_dir);
	for (size_t i = 0; i < spec->mount_count; i++) {
		const struct jail_mount *mount = &spec->mounts[i];

		strbuf_addf(out, "mount=%s%s", binds[mount->how].name,
			    mount->optional ? "?" : "");
		strbuf_addc(out, '\0');
		record_put(out, "source", mount->source);
		record_put(out, "target", mount->target);
	}
	list_fields(&copy, fields);
	for (size_t i = 0; i < FIELD_COUNT; i++)
		record_put_number(out, fields[i].key,
				  fields[i].number ? *fields[i].number
						   : (uint64_t)*fields[i].flag);
}

static int set_path(char **where, const struct record *rec, struct error *err)
{
	if (*where)
		return error_set(err, ERROR_USAGE, "jail spec: %.*s given twice",
				 (int)rec->key_len, rec->key);
	if (!is_clean_path(rec->value))
		return record_bad(err, "jail spec", rec);
	*where = mem_strdup(rec->value);
	return 0;
}

/* "mount=HOW", then "source=PATH" and "target=PATH" in this order. */
static int parse_mount(struct jail_spec *spec, const struct record *first, const char **data,
		       size_t *len, struct error *err)
{
	struct record source, target;
	size_t name_len = strcspn(first->value, "?");
	bool optional = first->value[name_len] == '?';

	if (spec->mount_count >= MAX_MOUNTS)
		return error_set(err, ERROR_USAGE, "jail spec: more than %d mounts",
				 MAX_MOUNTS);
	if (optional && first->value[name_len + 1])
		return record_bad(err, "jail spec", first);
	if (record_next(data, len, "jail spec", &source, err) != 1 ||
	    !record_is(&source, "source") ||
	    record_next(data, len, "jail spec", &target, err) != 1 ||
	    !record_is(&target, "target"))
		return error_set(err, ERROR_USAGE,
				 "jail spec: a mount needs its source and target");
	if (!is_clean_path(source.value))
		return record_bad(err, "jail spec", &source);
	if (!is_clean_path(target.value) || !target.value[1])
		return record_bad(err, "jail spec", &target);
	for (size_t i = 0; i < ARRAY_LEN(binds); i++) {
		if (strlen(binds[i].name) != name_len ||
		    memcmp(binds[i].name, first->value, name_len) != 0)
			continue;
		jail_spec_add_mount(spec, binds[i].how, optional, source.value, target.value);
		return 0;
	}
	return record_bad(err, "jail spec", first);
}

static int parse_spec_field(struct field *fields, unsigned *seen, const struct record *rec,
			    struct error *err)
{
	for (unsigned i = 0; i < FIELD_COUNT; i++) {
		if (!record_is(rec, fields[i].key))
			continue;
		if (*seen & 1U << i)
			return error_set(err, ERROR_USAGE, "jail spec: %s given twice",
					 fields[i].key);
		*seen |= 1U << i;
		if (fields[i].flag)
			return parse_bool(rec->value, fields[i].flag) < 0
				   ? record_bad(err, "jail spec", rec)
				   : 0;
		if (record_number(rec->value, fields[i].number) < 0 ||
		    (!*fields[i].number && !fields[i].may_be_zero))
			return record_bad(err, "jail spec", rec);
		return 0;
	}
	return error_set(err, ERROR_USAGE, "jail spec: unknown key %.*s", (int)rec->key_len,
			 rec->key);
}

static int parse_spec_record(struct jail_spec *spec, struct field *fields, unsigned *seen,
			     const struct record *rec, const char **data, size_t *len,
			     struct error *err)
{
	if (record_is(rec, "arg")) {
		if (list_len(spec->argv) >= MAX_ARGS)
			return error_set(err, ERROR_USAGE, "jail spec: more than %d arguments",
					 MAX_ARGS);
		jail_spec_add_arg(spec, rec->value);
		return 0;
	}
	if (record_is(rec, "env")) {
		if (list_len(spec->env) >= MAX_ENV || !strchr(rec->value, '=') ||
		    rec->value[0] == '=')
			return record_bad(err, "jail spec", rec);
		list_add(&spec->env, rec->value);
		return 0;
	}
	if (record_is(rec, "mount"))
		return parse_mount(spec, rec, data, len, err);
	if (record_is(rec, "backend"))
		return spec->backend != JAIL_BACKEND_COUNT ||
			       jail_backend_parse(rec->value, &spec->backend) < 0
			   ? record_bad(err, "jail spec", rec)
			   : 0;
	if (record_is(rec, "runtime"))
		return set_path(&spec->runtime, rec, err);
	if (record_is(rec, "cwd"))
		return set_path(&spec->cwd, rec, err);
	if (record_is(rec, "store"))
		return set_path(&spec->store, rec, err);
	if (record_is(rec, "scratch"))
		return set_path(&spec->scratch, rec, err);
	if (record_is(rec, "work_dir"))
		return set_path(&spec->work_dir, rec, err);
	return parse_spec_field(fields, seen, rec, err);
}

static int check_spec(const struct jail_spec *spec, const struct field *fields, unsigned seen,
		      struct error *err)
{
	for (unsigned i = 0; i < FIELD_COUNT; i++)
		if (!(seen & 1U << i))
			return error_set(err, ERROR_USAGE, "jail spec: %s is missing",
					 fields[i].key);
	if (spec->backend == JAIL_BACKEND_COUNT)
		return error_set(err, ERROR_USAGE, "jail spec: backend is missing");
	if (!spec->argv || !spec->argv[0][0])
		return error_set(err, ERROR_USAGE, "jail spec: no command");
	if (!spec->cwd)
		return error_set(err, ERROR_USAGE, "jail spec: cwd is missing");
	if (spec->reclaim && !spec->scratch)
		return error_set(err, ERROR_USAGE, "jail spec: reclaim without scratch");
	if (spec->work_rw && !spec->work_dir)
		return error_set(err, ERROR_USAGE, "jail spec: work_rw without work_dir");
	if (spec->work_rw && spec->take)
		return error_set(err, ERROR_USAGE, "jail spec: take with work_rw");
	return 0;
}

int jail_spec_parse(const char *data, size_t len, struct jail_spec *spec, struct error *err)
{
	struct jail_spec parsed;
	struct field fields[FIELD_COUNT];
	struct record rec;
	unsigned seen = 0;
	int result;

	memset(&parsed, 0, sizeof(parsed));
	parsed.backend = JAIL_BACKEND_COUNT;
	list_fields(&parsed, fields);
	if (len > JAIL_SPEC_MAX)
		return error_set(err, ERROR_USAGE, "jail spec: larger than %d bytes",
				 JAIL_SPEC_MAX);
	result = record_next(&data, &len, "jail spec", &rec, err);
	if (result < 0)
		return result;
	if (!result || !record_is(&rec, "jail_spec") || strcmp(rec.value, "1") != 0)
		return error_set(err, ERROR_USAGE,
				 "jail spec: does not begin with jail_spec=1");
	while ((result = record_next(&data, &len, "jail spec", &rec, err)) > 0) {
		result = parse_spec_record(&parsed, fields, &seen, &rec, &data, &len, err);
		if (result < 0)
			break;
	}
	if (result == 0)
		result = check_spec(&parsed, fields, seen, err);
	if (result < 0) {
		jail_spec_release(&parsed);
		return result;
	}
	*spec = parsed;
	return 0;
}

/* ---- go ---- */

void jail_go_init(struct jail_go *go)
{
	memset(go, 0, sizeof(*go));
}

void jail_go_release(struct jail_go *go)
{
	list_free(go->layers);
	list_free(go->home_layers);
	memset(go, 0, sizeof(*go));
}

void jail_go_add(struct jail_go *go, const char *layer)
{
	list_add(&go->layers, layer);
	go->layer_count++;
}

void jail_go_add_home(struct jail_go *go, const char *layer)
{
	list_add(&go->home_layers, layer);
	go->home_count++;
}

void jail_go_format(const struct jail_go *go, struct strbuf *out)
{
	for (size_t i = 0; i < go->layer_count; i++)
		record_put(out, "layer", go->layers[i]);
	for (size_t i = 0; i < go->home_count; i++)
		record_put(out, "home", go->home_layers[i]);
	record_put(out, "go", "1"); /* last: a go that was cut is no go */
}

/* Relative; each component [A-Za-z0-9._-]+, at most 255 bytes, not "." or "..". */
static bool is_layer_name(const char *name)
{
	static const char allowed[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

	if (strlen(name) > 1024)
		return false;
	for (;;) {
		size_t part = strspn(name, allowed);

		if (!part || part > 255 || (part == 1 && name[0] == '.') ||
		    (part == 2 && name[0] == '.' && name[1] == '.'))
			return false;
		if (!name[part])
			return true;
		if (name[part] != '/')
			return false;
		name += part + 1;
	}
}

int jail_go_parse(const char *data, size_t len, struct jail_go *go, struct error *err)
{
	struct jail_go parsed;
	struct record rec;
	bool ended = false;
	int result;

	jail_go_init(&parsed);
	while ((result = record_next(&data, &len, "jail go", &rec, err)) > 0) {
		if (ended) {
			result = error_set(err, ERROR_USAGE, "jail go: more behind its end");
			break;
		}
		if (record_is(&rec, "go") && strcmp(rec.value, "1") == 0) {
			ended = true;
			continue;
		}
		if ((!record_is(&rec, "layer") && !record_is(&rec, "home")) ||
		    !is_layer_name(rec.value) ||
		    parsed.layer_count + parsed.home_count >= MAX_LAYERS) {
			result = record_bad(err, "jail go", &rec);
			break;
		}
		if (record_is(&rec, "layer"))
			jail_go_add(&parsed, rec.value);
		else
			jail_go_add_home(&parsed, rec.value);
	}
	if (result == 0 && !ended)
		result = error_set(err, ERROR_USAGE, "jail go: it is cut");
	if (result < 0) {
		jail_go_release(&parsed);
		return result;
	}
	*go = parsed;
	return 0;
}
