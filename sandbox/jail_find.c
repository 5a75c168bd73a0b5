#include "jail_find.h"

#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/mem.h"

#define LAST_BYTES 8192 /* of the output that are looked at */
#define LAST_LINES 20

/* ---- where it lies ---- */

/* Where toolchain managers put programs: a pattern of directories below home (or absolute), and
 * what to cut off for the directory that a toolchain needs as a whole. */
static const struct {
	const char *programs, *cut;
} managers[] = {
    {".nvm/versions/node/*/bin", "/bin"},
    {".volta/tools/image/node/*/bin", "/bin"},
    {".pyenv/versions/*/bin", "/bin"},
    {".rustup/toolchains/*/bin", "/bin"},
    {".sdkman/candidates/*/current/bin", "/bin"},
    {".sdkman/candidates/*/*/bin", "/bin"},
    {".asdf/installs/*/*/bin", "/bin"},
    {".local/share/mise/installs/*/*/bin", "/bin"},
    {".rbenv/versions/*/bin", "/bin"},
    {".goenv/versions/*/bin", "/bin"},
    {".deno/bin", "/bin"},
    {".bun/bin", "/bin"},
    {".dotnet", ""},
    {"/usr/local/go/bin", "/bin"},
    {"/opt/*/bin", "/bin"},
};

/* Where single programs lie beside what is nobody's business (~/.cargo/credentials.toml,
 * ~/.local/share). */
static const char *const mixed[] = {".cargo/bin", ".local/bin", "go/bin", "bin"};

/* What the jail's own PATH has: a program there is not missing. */
static const char *const inside[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
				     "/usr/bin",	"/sbin",	  "/bin"};

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_program(const char *path)
{
	return access(path, X_OK) == 0 && !is_dir(path);
}

/* A plain file name: what a PATH would be searched for. */
static bool is_plain_name(const char *name)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789._+-";
	size_t len = strlen(name);

	return len > 0 && len < JAIL_FIND_NAME && strspn(name, plain) == len &&
	       name[0] != '-' && name[0] != '.';
}

static char *directory_of(const char *path)
{
	return mem_strndup(path, (size_t)(strrchr(path, '/') - path));
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len > end_len && strcmp(text + len - end_len, end) == 0;
}

/* A link (sdkman's "current") is judged by what it leads to. */
static char *toolchain_of(const char *program, const char *cut)
{
	char *dir AUTO_FREE = directory_of(program);
	char *real = realpath(dir, NULL);

	if (real && cut[0] && ends_with(real, cut))
		real[strlen(real) - strlen(cut)] = '\0';
	return real;
}

static bool has(const char *dir, const char *name)
{
	char *path AUTO_FREE = mem_printf("%s/%s", dir, name);

	return is_dir(path);
}

/* Whether dir is more than a toolchain: home, or what lies right in it. */
static bool is_mixed(const char *dir, const char *home)
{
	for (size_t i = 0; home && i < sizeof(mixed) / sizeof(mixed[0]); i++) {
		char *path AUTO_FREE = mem_printf("%s/%s", home, mixed[i]);
		char *parent AUTO_FREE = directory_of(path);
		char *real AUTO_FREE = realpath(parent, NULL);

		if (strcmp(dir, parent) == 0 || (real && strcmp(dir, real) == 0))
			return true;
	}
	return strcmp(dir, "") == 0 || strcmp(dir, "/usr") == 0 || strcmp(dir, "/opt") == 0 ||
	       strcmp(dir, "/snap") == 0;
}

/* What to admit for a program: the toolchain around it, where it has one of its own, else the
 * file. */
static char *around(const char *program, const char *home)
{
	char *real AUTO_FREE = realpath(program, NULL);
	char *dir = real ? directory_of(real) : NULL;
	const char *own = strrchr(program, '/');

	if (!dir)
		return NULL;
	if (ends_with(dir, "/bin")) {
		dir[strlen(dir) - strlen("/bin")] = '\0';
		if (!is_mixed(dir, home) &&
		    (has(dir, "lib") || has(dir, "lib64") || has(dir, "libexec")))
			return dir;
	}
	free(dir);
	/* one that looks at the name by which it was called must keep it */
	return mem_strdup(strcmp(own, strrchr(real, '/')) == 0 ? real : program);
}

static char *from_managers(const char *home, const char *name)
{
	for (size_t i = 0; i < sizeof(managers) / sizeof(managers[0]); i++) {
		bool absolute = managers[i].programs[0] == '/';
		char *pattern AUTO_FREE =
		    mem_printf("%s%s%s/%s", absolute || !home ? "" : home, absolute ? "" : "/",
			       managers[i].programs, name);
		char *found = NULL;
		glob_t matches;

		if ((!absolute && !home) || glob(pattern, 0, NULL, &matches) != 0)
			continue;
		/* sorted: the last is the newest version */
		for (size_t k = matches.gl_pathc; k-- > 0 && !found;)
			if (is_program(matches.gl_pathv[k]))
				found = toolchain_of(matches.gl_pathv[k], managers[i].cut);
		globfree(&matches);
		if (found)
			return found;
	}
	return NULL;
}

static char *from_directory(const char *dir, const char *home, const char *name)
{
	char *program AUTO_FREE = mem_printf("%s/%s", dir, name);
	char *real AUTO_FREE = realpath(dir, NULL);

	if (dir[0] != '/' || !real || !is_program(program))
		return NULL;
	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++)
		if (strcmp(real, inside[i]) == 0)
			return NULL;
	return around(program, home);
}

static char *from_path(const char *home, const char *path, const char *name)
{
	char *found = NULL;

	while (path && *path && !found) {
		size_t len = strcspn(path, ":");
		char *dir AUTO_FREE = mem_strndup(path, len);

		found = from_directory(dir, home, name);
		path += len + (path[len] != '\0');
	}
	return found;
}

char *jail_find_command(const char *home, const char *path, const char *name, char **line)
{
	char *found;

	if (!is_plain_name(name))
		return NULL;
	found = from_managers(home, name);
	if (!found)
		found = from_path(home, path, name);
	for (size_t i = 0; home && !found && i < sizeof(mixed) / sizeof(mixed[0]); i++) {
		char *dir AUTO_FREE = mem_printf("%s/%s", home, mixed[i]);

		found = from_directory(dir, home, name);
	}
	if (found && line)
		*line = mem_printf("[jail] path = %s", found);
	return found;
}

/* ---- what was missing ---- */

static bool take_name(const char *from, const char *to, char name[JAIL_FIND_NAME])
{
	static const char *const quotes[] = {"'", "`", "\"", "\xe2\x80\x98", "\xe2\x80\x99"};

	for (size_t i = 0; i < sizeof(quotes) / sizeof(quotes[0]); i++) {
		size_t len = strlen(quotes[i]);

		if ((size_t)(to - from) > len && memcmp(from, quotes[i], len) == 0)
			from += len;
		if ((size_t)(to - from) > len && memcmp(to - len, quotes[i], len) == 0)
			to -= len;
	}
	if (to <= from || to - from >= JAIL_FIND_NAME)
		return false;
	memcpy(name, from, (size_t)(to - from));
	name[to - from] = '\0';
	return strlen(name) == (size_t)(to - from) && is_plain_name(name);
}

/* What stands between the last ": " before end and end. */
static const char *last_part(const char *line, const char *end)
{
	const char *at = end;

	while (at > line && !(at - line >= 2 && at[-1] == ' ' && at[-2] == ':'))
		at--;
	return at;
}

static bool cut_end(const char *line, const char **end, const char *text)
{
	size_t len = strlen(text);

	if ((size_t)(*end - line) < len || memcmp(*end - len, text, len) != 0)
		return false;
	*end -= len;
	return true;
}

static enum jail_lack read_line(const char *line, const char *end, char name[JAIL_FIND_NAME])
{
	static const char zsh[] = "command not found: ";
	const char *part = last_part(line, end);
	bool tool = memmem(line, (size_t)(end - line), "make", 4) ||
		    memmem(line, (size_t)(end - line), "env: ", 5);

	if (memmem(line, (size_t)(end - line), "not a git repository", 20))
		return JAIL_LACK_GIT;
	if (part - line >= (ptrdiff_t)sizeof(zsh) - 1 &&
	    memcmp(part - (sizeof(zsh) - 1), zsh, sizeof(zsh) - 1) == 0)
		return take_name(part, end, name) ? JAIL_LACK_PROGRAM : JAIL_LACK_NONE;
	if (!cut_end(line, &end, ": command not found") &&
	    !cut_end(line, &end, ": not found") &&
	    !(tool && cut_end(line, &end, ": No such file or directory")))
		return JAIL_LACK_NONE;
	return take_name(last_part(line, end), end, name) ? JAIL_LACK_PROGRAM : JAIL_LACK_NONE;
}

enum jail_lack jail_find_lack(const char *output, size_t len, char name[JAIL_FIND_NAME])
{
	const char *end = output + len;
	const char *first = len > LAST_BYTES ? end - LAST_BYTES : output;

	for (int lines = 0; end > first && lines < LAST_LINES; lines++) {
		const char *line;
		enum jail_lack lack;

		while (end > first && (end[-1] == '\n' || end[-1] == '\r'))
			end--;
		for (line = end; line > first && line[-1] != '\n'; line--)
			continue;
		lack = read_line(line, end, name);
		if (lack != JAIL_LACK_NONE)
			return lack;
		end = line;
	}
	return JAIL_LACK_NONE;
}

char *jail_find_advice(const char *output, size_t len, const char *home, const char *path,
		       bool has_git)
{
	char name[JAIL_FIND_NAME];
	char *found AUTO_FREE = NULL, *line AUTO_FREE = NULL;

	switch (jail_find_lack(output, len, name)) {
	case JAIL_LACK_GIT:
		return has_git
			   ? NULL
			   : mem_strdup("the jail has no git repository; for one that "
					"knows only the tested tree: [test] git = snapshot");
	case JAIL_LACK_PROGRAM:
		found = jail_find_command(home, path, name, &line);
		return found ? mem_printf("%s lies in %s, which the jail does not see; to "
					  "admit it: %s",
					  name, found, line)
			     : NULL;
	case JAIL_LACK_NONE:
		break;
	}
	return NULL;
}
