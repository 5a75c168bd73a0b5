#include "jail_manifest.h"

#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "sandbox/jail_spec.h"

/*
 * Read-only inside, at the same path. A missing one is skipped; a link is made again as a link. Of /etc only what programs do
 * look for: each line costs every jail, and so does each change of the directory.
 */
static const char *const toolchain[] = {
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/maven/m2.conf", /* not settings.xml: it may name passwords */
    "/etc/maven/logging",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/protocols",
    "/etc/services",
    "/etc/mime.types",
    "/etc/localtime",
    "/etc/fonts",
    "/etc/os-release",
    "/etc/perl",
    "/etc/php",
    "/etc/chromium",
    "/etc/chromium.d",
    "/etc/postgresql-common",
    "/etc/texmf",
    "/etc/xml",
    "/etc/sgml",
    "/etc/ImageMagick-6",
    "/etc/ImageMagick-7",
    "/etc/OpenCL",
    "/etc/timezone",
    "/etc/debian_version",
    "/etc/lsb-release"};

static const struct {
	const char *name, *value;
} environment[] = {
    {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
    {"HOME", JAIL_HOME},
    {"USER", "agent"},
    {"LOGNAME", "agent"},
    {"SHELL", "/bin/sh"},
    {"TMPDIR", "/tmp"},
    {"LANG", "C.UTF-8"},
    {"TZ", "UTC"},
    {"TERM", "dumb"},
    {"COLUMNS", "80"},
    {"CI", "1"},
    {"XDG_CACHE_HOME", JAIL_HOME "/.cache"},
    {"XDG_CONFIG_HOME", JAIL_HOME "/.config"},
    {"XDG_DATA_HOME", JAIL_HOME "/.local/share"},
    {"XDG_STATE_HOME", JAIL_HOME "/.local/state"},
    {"XDG_RUNTIME_DIR", JAIL_RUNTIME},
    {"GIT_CONFIG_NOSYSTEM", "1"},
    {"GIT_TERMINAL_PROMPT", "0"},
    {"GIT_AUTHOR_NAME", "agent"},
    {"GIT_AUTHOR_EMAIL", "agent@localhost"},
    {"GIT_COMMITTER_NAME", "agent"},
    {"GIT_COMMITTER_EMAIL", "agent@localhost"},
};

static bool is_link(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The JDK keeps its configuration in /etc, below a name with its version. */
static void add_matches(struct jail_spec *spec, const char *pattern)
{
	glob_t found;

	if (glob(pattern, 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		jail_spec_add_mount(spec, JAIL_BIND_RO, true, found.gl_pathv[i],
				    found.gl_pathv[i]);
	globfree(&found);
}

/* Puts a directory in front of the PATH that the environment has by now. */
static void prepend_path(struct jail_spec *spec, const char *dir)
{
	for (size_t i = 0; spec->env && spec->env[i]; i++) {
		char *old AUTO_FREE = NULL;

		if (strncmp(spec->env[i], "PATH=", 5) != 0)
			continue;
		old = spec->env[i];
		spec->env[i] = mem_printf("PATH=%s:%s", dir, old + 5);
		return;
	}
}

/* Where the programs of an admitted path are: below its bin, in itself when it is one, beside a
 * single file. */
static void prepend_programs(struct jail_spec *spec, const char *path)
{
	char *bin AUTO_FREE = mem_printf("%s/bin", path);
	char *dir AUTO_FREE = mem_strdup(path);
	const char *name = strrchr(path, '/') + 1;

	if (is_dir(bin))
		prepend_path(spec, bin);
	else if (is_dir(path) && strcmp(name, "bin") == 0)
		prepend_path(spec, path);
	else if (!is_dir(path) && access(path, X_OK) == 0 && name - 1 > path) {
		dir[name - 1 - path] = '\0';
		prepend_path(spec, dir);
	}
}

void jail_manifest_default(struct jail_spec *spec)
{
	for (size_t i = 0; i < ARRAY_LEN(toolchain); i++)
		jail_spec_add_mount(spec, JAIL_BIND_RO, true, toolchain[i], toolchain[i]);
	add_matches(spec, "/etc/java-*");
	add_matches(spec, "/etc/python3*");
	for (size_t i = 0; i < ARRAY_LEN(environment); i++)
		jail_spec_add_env(spec, environment[i].name, environment[i].value);
}

int jail_manifest_add_path(struct jail_spec *spec, const char *path, struct error *err)
{
	char *real AUTO_FREE = path[0] == '/' ? realpath(path, NULL) : NULL;

	if (!real && path[0] != '/')
		return error_set(err, ERROR_USAGE, "[jail] path = %s: not an absolute path",
				 path);
	if (!real)
		return error_errno(err, ERROR_USAGE, errno, "[jail] path = %s", path);
	if (strcmp(real, "/") == 0 || strcmp(real, "/proc") == 0 || strcmp(real, "/sys") == 0 ||
	    strcmp(real, "/dev") == 0 || strcmp(real, "/run") == 0)
		return error_set(err, ERROR_USAGE,
				 "[jail] path = %s: this would take in the whole machine",
				 path);
	jail_spec_add_mount(spec, JAIL_BIND_RO, false, real, real);
	if (strcmp(real, path) != 0 && is_link(path))
		jail_spec_add_mount(spec, JAIL_BIND_RO, true, path, path);
	prepend_programs(spec, real);
	if (strcmp(real, path) != 0 && !is_dir(path))
		prepend_programs(spec, path);
	return 0;
}
