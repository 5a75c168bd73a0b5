#include "steers.h"

#include <fnmatch.h>
#include <string.h>

#include "pipeline/base/mem.h"

/* Names without a dot in front, from the tools' own manuals. What is a manifest or a lock file is not here, even
 * where it can hold settings as well. */
static const char *const names[] = {
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
    /* whatever is run by them */
    "mise.toml",
    "mise.*.toml",
    "gitconfig",
    "netrc",
    "curlrc",
    "wgetrc",
};

bool steers_by_name(const char *path)
{
	const char *name = strrchr(path, '/');

	if (path[0] == '.' || strstr(path, "/."))
		return true;
	name = name ? name + 1 : path;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (fnmatch(names[i], name, FNM_CASEFOLD) == 0)
			return true;
	return false;
}

bool steers_by_bytes(const char *data, size_t len)
{
	return len >= 2 && memcmp(data, "#!", 2) == 0;
}
