#include "steers.h"

#include <fnmatch.h>
#include <string.h>

#include "pipeline/base/mem.h"

/* Names without a dot in front, from the tools' own manuals. What is a manifest or a lock file is not here, even
 * where it can hold settings as well. */
static const char *const steering[] = {
    /* Python */
    "pip.conf",
    "pip.ini",
    "uv.toml",
    "poetry.toml",
    "pdm.toml",
    "condarc",
    "mambarc",
    "sitecustomize.py",
    "usercustomize.py",
    /* JavaScript */
    "npmrc",
    "yarnrc",
    "bunfig.toml",
    "pnpmfile.*js",
    /* Java */
    "settings.xml",
    "settings-security.xml",
    "toolchains.xml",
    "mvnw*",
    "gradlew*",
    "gradle.properties",
    "gradle-wrapper.*",
    "gradle-daemon-jvm.properties",
    "local.properties",
    "init.gradle*",
    "*.init.gradle*",
    /* Go, Rust */
    "go.env",
    "rust-toolchain",
    "rust-toolchain.toml",
    /* .NET */
    "nuget.config",
    "global.json",
    "dotnet-tools.json",
    "Directory.*.props",
    "Directory.*.targets",
    /* C, PHP */
    "conan.conf",
    "remotes.json",
    "vcpkg-configuration.json",
    "auth.json",
    /* scripts, and what task runners read */
    "*.sh",
    "*.bash",
    "*.bat",
    "*.cmd",
    "*.ps1",
    "makefile",
    "gnumakefile",
    "*.mk",
    "justfile",
    "taskfile.y*ml",
    "rakefile",
    "magefile.go",
    "noxfile.py",
    "tox.ini",
    "build.xml",
    /* whatever is run by them */
    "mise.toml",
    "mise.*.toml",
    "gitconfig",
    "netrc",
    "curlrc",
    "wgetrc",
};

/* Some of them are programs, of which each may well begin with "#!": they name what is to be fetched all the same. */
static const char *const manifests[] = {
    "*.txt",	"*.in",	    "*.json",	 "*.toml",   "*.lock",	     "*.lockfile", "*.xml",
    "*.y*ml",	"*.mod",    "*.sum",	 "*.gradle", "*.gradle.kts", "Gemfile*",   "*.gemspec",
    "Pipfile*", "setup.py", "setup.cfg", "mix.exs",  "*.*proj",	     "*.cabal",	   "Podfile*",
};

static bool is_one_of(const char *const *patterns, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (fnmatch(patterns[i], name, FNM_CASEFOLD) == 0)
			return true;
	return false;
}

enum steers steers_by_name(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (path[0] == '.' || strstr(path, "/.") ||
	    is_one_of(steering, ARRAY_LEN(steering), name))
		return STEERS_YES;
	return is_one_of(manifests, ARRAY_LEN(manifests), name) ? STEERS_NO : STEERS_PROGRAM;
}

bool steers_by_bytes(const char *data, size_t len)
{
	return len >= 2 && memcmp(data, "#!", 2) == 0;
}

bool steers_is_word(const char *word, const char *path, const char *root)
{
	size_t len = strlen(root);

	if (strncmp(word, root, len) == 0 && word[len] == '/')
		word += len + 1;
	while (strncmp(word, "./", 2) == 0)
		word += 2;
	return strcmp(word, path) == 0;
}
