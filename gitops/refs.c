#include "refs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <git2.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define REF_FILE_MAX 4096
#define CONFIG_FILE_MAX (4u << 20)
#define SYMREF_DEPTH 5
#define REFS_MAX 1000000
#define REF_DEPTH 64
#define PACKED_MAX (256u << 20)

/* ---- files ---- */

static const char *top_dir(const struct gitops_paths *paths)
{
	return paths->common ? paths->common : paths->gitdir;
}

static int open_dir(const char *path, struct error *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		error_errno(err, ERROR_USAGE, errno, "%s", path);
	return fd;
}

/* A small file below dir without its trailing blanks. 0, 1 when it is not there, or
 * ERROR_USAGE. */
static int read_small(int dir, const char *name, struct strbuf *out, struct error *err)
{
	int fd AUTO_FD = fd_open_beneath(dir, name, O_RDONLY | O_NONBLOCK, 0);
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EISDIR))
		return 1;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, ERROR_USAGE, errno, "reading %s of the repository",
				   name);
	if (S_ISDIR(st.st_mode)) /* refs/heads/a while refs/heads/a/b exists */
		return 1;
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERROR_USAGE, "%s of the repository is not a file", name);
	if (fd_read_all(fd, out) < 0)
		return error_errno(err, ERROR_USAGE, errno, "reading %s of the repository",
				   name);
	while (out->len && isspace((unsigned char)out->data[out->len - 1]))
		out->data[--out->len] = '\0';
	return 0;
}

/* ---- refs ---- */

/* Looks name up in packed-refs: lines "<oid> <name>", comments '#', peeled values '^'. 0 or
 * 1. */
static int find_packed(int dir, const char *name, char oid[GITOPS_OID_SIZE], struct error *err)
{
	int fd AUTO_FD = fd_open_beneath(dir, "packed-refs", O_RDONLY | O_NONBLOCK, 0);
	size_t name_len = strlen(name);
	struct stat st;
	int found = 1;

	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, ERROR_USAGE, errno,
				   "reading packed-refs of the repository");
	if (!S_ISREG(st.st_mode) || st.st_size == 0)
		return 1;
	size_t size = (size_t)st.st_size;
	char *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return error_errno(err, ERROR_USAGE, errno,
				   "reading packed-refs of the repository");
	/* " refs/heads/x" between an object id and the line's end */
	AUTO_FREE char *needle = mem_printf(" %s", name);
	for (size_t pos = 0; found == 1 && pos < size;) {
		const char *hit = memmem(data + pos, size - pos, needle, name_len + 1);
		if (!hit)
			break;
		size_t at = (size_t)(hit - data), end = at + 1 + name_len;
		size_t oid_len = GITOPS_OID_SIZE - 1;
		bool whole = (end == size || data[end] == '\n' || data[end] == '\r') &&
			     at >= oid_len && (at == oid_len || data[at - oid_len - 1] == '\n');
		if (whole) {
			memcpy(oid, data + at - oid_len, oid_len);
			oid[oid_len] = '\0';
			found = text_is_hex(oid, oid_len)
				    ? 0
				    : error_set(err, ERROR_USAGE,
						"packed-refs: malformed entry of %s", name);
		}
		pos = at + 1;
	}
	munmap(data, size);
	return found;
}

/* One step: the file of a ref, or its packed value. 0 with either oid or target set; 1 not
 * there. */
static int read_ref(int dir, int common, const char *name, char oid[GITOPS_OID_SIZE],
		    char target[REF_NAME_SIZE], struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	bool own =
	    strncmp(name, "refs/", 5) != 0; /* HEAD and the like belong to the work tree */

	strbuf_init(&text, REF_FILE_MAX);
	int rc = read_small(own ? dir : common, name, &text, err);
	if (rc == 1)
		return own ? 1 : find_packed(common, name, oid, err);
	if (rc < 0)
		return rc;
	if (strncmp(text.data, "ref:", 4) == 0) {
		const char *to = text.data + 4 + strspn(text.data + 4, " \t");
		if (strlen(to) >= REF_NAME_SIZE || !git_reference_is_valid_name(to))
			return error_set(err, ERROR_USAGE,
					 "%s of the repository names no valid ref", name);
		snprintf(target, REF_NAME_SIZE, "%s", to);
		return 0;
	}
	if (!text_is_hex(text.data, GITOPS_OID_SIZE - 1)) {
		error_set(err, ERROR_USAGE, "%s of the repository is malformed", name);
		return error_next(err, "git fsck says what is wrong with the repository");
	}
	memcpy(oid, text.data, GITOPS_OID_SIZE);
	return 0;
}

/* Follows symbolic refs. 0, 1 when the last name is not there (value->name says which), or
 * an error. */
static int follow(int dir, int common, const char *name, struct ref_value *value,
		  struct error *err)
{
	snprintf(value->name, sizeof(value->name), "%s", name);
	for (int depth = 0; depth <= SYMREF_DEPTH; depth++) {
		char target[REF_NAME_SIZE] = "";
		int rc = read_ref(dir, common, value->name, value->oid, target, err);
		if (rc != 0)
			return rc;
		if (!target[0])
			return 0;
		snprintf(value->name, sizeof(value->name), "%s", target);
	}
	return error_set(err, ERROR_USAGE, "ref %s leads through more than %d others", name,
			 SYMREF_DEPTH);
}

static int unborn(struct error *err, const char *branch)
{
	error_set(err, ERROR_USAGE, "the repository has no commit yet (%s does not exist)",
		  branch);
	return error_next(
	    err, "commit something first, or name another branch with --base: the change is "
		 "made on top of a commit");
}

static int resolve_in(int dir, int common, const char *rev, struct ref_value *value,
		      struct error *err)
{
	static const char *const places[] = {"%s", "refs/heads/%s", "refs/tags/%s",
					     "refs/remotes/%s"};
	int rc;

	if (strcmp(rev, "HEAD") == 0) {
		rc = follow(dir, common, "HEAD", value, err);
		if (rc == 1 && strcmp(value->name, "HEAD") == 0)
			return error_set(err, ERROR_USAGE, "not a git repository: no HEAD");
		if (rc == 0 && strcmp(value->name, "HEAD") == 0)
			value->name[0] = '\0';
		return rc == 1 ? unborn(err, value->name) : rc;
	}
	/* A full name is that ref or none: where the operator's refs/heads/main is not there, nobody's branch
	 * refs/heads/refs/heads/main takes its place. */
	bool full = strncmp(rev, "refs/", 5) == 0;
	for (size_t i = full ? 0 : 1; i < (full ? 1 : ARRAY_LEN(places)); i++) {
		char name[REF_NAME_SIZE];
		const char *percent = strchr(places[i], '%');
		snprintf(name, sizeof(name), "%.*s%s", (int)(percent - places[i]), places[i],
			 rev);
		if (!git_reference_is_valid_name(name))
			continue;
		if ((rc = follow(dir, common, name, value, err)) != 1)
			return rc;
	}
	value->missing = true;
	error_set(err, ERROR_USAGE, "there is no branch, tag or ref '%.200s'", rev);
	return error_next(
	    err, "name a branch, a tag, a full ref or the id of a commit, as git rev-parse "
		 "prints it; git fetch brings what is only at a remote");
}

int refs_resolve(const struct gitops_paths *paths, const char *rev, struct ref_value *value,
		 struct error *err)
{
	*value = (struct ref_value){.oid = ""};
	if (text_is_hex(rev, GITOPS_OID_SIZE - 1)) {
		memcpy(value->oid, rev, GITOPS_OID_SIZE);
		return 0;
	}
	int dir AUTO_FD = open_dir(paths->gitdir, err);
	int common AUTO_FD = dir < 0 ? -1 : open_dir(top_dir(paths), err);
	if (common < 0)
		return ERROR_USAGE;
	return resolve_in(dir, common, rev, value, err);
}

int refs_look(const struct gitops_paths *paths, const char *name, struct ref_value *value,
	      struct error *err)
{
	*value = (struct ref_value){.oid = ""};
	int dir AUTO_FD = open_dir(paths->gitdir, err);
	int common AUTO_FD = dir < 0 ? -1 : open_dir(top_dir(paths), err);
	if (common < 0)
		return ERROR_USAGE;
	if (strncmp(name, "refs/", 5) != 0 || strlen(name) >= REF_NAME_SIZE ||
	    !git_reference_is_valid_name(name))
		return error_set(err, ERROR_USAGE, "'%.200s' is not the full name of a ref",
				 name);
	return follow(dir, common, name, value, err);
}

/* ---- all of them ---- */

static int add_ref(struct json *out, const char *name, const char *oid, struct error *err)
{
	/* A name that is no UTF-8 can be told nobody; one in old encodings must not hide the others. */
	if (!text_is_utf8(name, strlen(name)) || js_get(out, name) ||
	    !text_is_hex(oid, GITOPS_OID_SIZE - 1) || !git_reference_is_valid_name(name))
		return 0;
	if (js_len(out) >= REFS_MAX)
		return error_set(err, ERROR_USAGE, "the repository has more than %d refs",
				 REFS_MAX);
	js_set_str(out, name, oid);
	return 0;
}

/* name: a file or directory below common. */
static int list_loose(int common, const char *name, unsigned depth, struct json *out,
		      struct error *err)
{
	DIR *dir = fd_list_taking(
	    fd_open_beneath(common, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0));
	struct dirent *entry;
	int rc = 0;

	if (!dir) {
		/* emptied and taken away by git meanwhile, or a link that leads out */
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EXDEV
			   ? 0
			   : error_errno(err, ERROR_USAGE, errno, "%s of the repository", name);
	}
	while (rc == 0 && depth < REF_DEPTH && (entry = readdir(dir))) {
		char *path AUTO_FREE = mem_printf("%s/%s", name, entry->d_name);
		char oid[GITOPS_OID_SIZE] = "";
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;

		if (entry->d_name[0] == '.' || strlen(path) >= REF_NAME_SIZE)
			continue;
		if (entry->d_type == DT_DIR) {
			rc = list_loose(common, path, depth + 1, out, err);
			continue;
		}
		strbuf_init(&text, REF_FILE_MAX);
		/* what cannot be read is no ref that anybody could act on */
		if (!git_reference_is_valid_name(path) ||
		    read_small(common, path, &text, &(struct error){0}) != 0 ||
		    text.len < GITOPS_OID_SIZE - 1)
			continue;
		memcpy(oid, text.data, GITOPS_OID_SIZE - 1);
		if (text.len == GITOPS_OID_SIZE - 1)
			rc = add_ref(out, path, oid, err);
	}
	closedir(dir);
	return rc;
}

static int list_packed(int common, struct json *out, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = fd_open_beneath(common, "packed-refs", O_RDONLY | O_NONBLOCK, 0);
	char *rest, *line;
	int rc = 0;

	if (fd < 0 && errno == ENOENT)
		return 0;
	strbuf_init(&text, PACKED_MAX);
	if (fd < 0 || fd_read_all(fd, &text) < 0)
		return error_errno(err, ERROR_USAGE, errno,
				   "reading packed-refs of the repository");
	rest = text.data;
	while (rc == 0 && (line = strsep(&rest, "\n"))) {
		char *name = line;
		const char *oid = strsep(&name, " ");

		if (name && line[0] != '#' && line[0] != '^' && strlen(name) < REF_NAME_SIZE)
			rc = add_ref(out, name, oid, err);
	}
	return rc;
}

int refs_list(const struct gitops_paths *paths, struct json *out, struct error *err)
{
	int common AUTO_FD = open_dir(top_dir(paths), err);
	/* Files first: git packs a ref before it takes its file away. */
	int rc = common < 0 ? err->kind : list_loose(common, "refs", 0, out, err);

	return rc == 0 ? list_packed(common, out, err) : rc;
}

/* ---- format ---- */

/* What of a configuration matters for reading objects and refs. */
struct format_facts {
	long version;
	bool partial;
	char object_format[32], ref_storage[32];
	char unknown[64]; /* an extension that is not known to be harmless */
};

static void note_key(struct format_facts *facts, const char *section, const char *key,
		     const char *value)
{
	static const char *const harmless[] = {
	    "noop",	      "noop-v1",	   "preciousobjects",
	    "worktreeconfig", "relativeworktrees", "compatobjectformat"};

	if (strcmp(section, "core") == 0 && strcmp(key, "repositoryformatversion") == 0)
		facts->version = strtol(value, NULL, 10);
	if (strncmp(section, "remote", 6) == 0 &&
	    ((strcmp(key, "promisor") == 0 && strcasecmp(value, "false") != 0 &&
	      strcmp(value, "0") != 0) ||
	     strcmp(key, "partialclonefilter") == 0))
		facts->partial = true;
	if (strcmp(section, "extensions") != 0)
		return;
	if (strcmp(key, "partialclone") == 0) {
		facts->partial = true;
	} else if (strcmp(key, "objectformat") == 0) {
		snprintf(facts->object_format, sizeof(facts->object_format), "%s", value);
	} else if (strcmp(key, "refstorage") == 0) {
		snprintf(facts->ref_storage, sizeof(facts->ref_storage), "%s", value);
	} else {
		for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
			if (strcmp(key, harmless[i]) == 0)
				return;
		snprintf(facts->unknown, sizeof(facts->unknown), "%s", key);
	}
}

/* "[section]" or "[section "sub"]" at text; its name in lower case. */
static void read_section(const char *text, char *section, size_t size)
{
	size_t used = 0;

	for (text++; *text && *text != ']' && *text != ' ' && used + 1 < size; text++)
		section[used++] = (char)tolower((unsigned char)*text);
	section[used] = '\0';
}

/* "key = value # comment" at text. Quotes go; escapes do not matter for the values looked
 * for. */
static void read_key(const char *text, const char *section, struct format_facts *facts)
{
	char key[64], value[64];
	size_t used = 0, len = strcspn(text, "= \t");

	if (len == 0 || len >= sizeof(key))
		return;
	for (size_t i = 0; i < len; i++)
		key[i] = (char)tolower((unsigned char)text[i]);
	key[len] = '\0';
	text += len + strspn(text + len, " \t");
	if (*text != '=') {
		note_key(facts, section, key, "true");
		return;
	}
	text++;
	text += strspn(text, " \t");
	for (; *text && *text != '#' && *text != ';' && used + 1 < sizeof(value); text++)
		if (*text != '"')
			value[used++] = *text;
	while (used && isspace((unsigned char)value[used - 1]))
		used--;
	value[used] = '\0';
	note_key(facts, section, key, value);
}

/* As git reads a repository's format: from this one file, without includes. */
static void read_format(char *config, struct format_facts *facts)
{
	char section[64] = "";
	char *rest = config;

	for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
		line += strspn(line, " \t\r");
		if (*line == '[') {
			read_section(line, section, sizeof(section));
			line = strchr(line, ']');
			if (!line)
				continue;
			line++;
			line += strspn(line, " \t");
		}
		if (*line && *line != '#' && *line != ';')
			read_key(line, section, facts);
	}
}

static int judge_format(const struct format_facts *facts, struct error *err)
{
	if (facts->object_format[0] && strcmp(facts->object_format, "sha1") != 0) {
		error_set(
		    err, ERROR_USAGE,
		    "the repository uses %s object ids; only SHA-1 repositories can be read",
		    facts->object_format);
		return error_next(err, "work in a SHA-1 clone: git init --object-format=sha1");
	}
	if (facts->ref_storage[0] && strcmp(facts->ref_storage, "files") != 0) {
		error_set(err, ERROR_USAGE,
			  "the repository keeps its refs as %s; only files can be read",
			  facts->ref_storage);
		return error_next(err, "git refs migrate --ref-format=files");
	}
	if (facts->partial) {
		error_set(err, ERROR_USAGE,
			  "the repository is a partial clone: objects may be missing");
		return error_next(err,
				  "make a full clone, or: git fetch --refetch --no-filter");
	}
	if (facts->version > 1)
		return error_set(err, ERROR_USAGE,
				 "the repository has format version %ld; 0 and 1 can be read",
				 facts->version);
	if (facts->version == 1 && facts->unknown[0])
		return error_set(err, ERROR_USAGE,
				 "the repository uses the unknown extension '%s'",
				 facts->unknown);
	return 0;
}

int refs_check_format(const struct gitops_paths *paths, struct repo_format *format,
		      struct error *err)
{
	struct strbuf config AUTO_STRBUF = STRBUF_NONE;
	struct format_facts facts = {0};
	int dir AUTO_FD = open_dir(top_dir(paths), err);

	if (dir < 0)
		return ERROR_USAGE;
	strbuf_init(&config, CONFIG_FILE_MAX);
	int rc = read_small(dir, "config", &config, err);
	if (rc < 0)
		return rc;
	if (rc == 0)
		read_format(config.data, &facts);
	format->shallow = faccessat(dir, "shallow", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	return judge_format(&facts, err);
}
