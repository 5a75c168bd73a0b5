#include "subuid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define IDS_LAST 4294967294UL /* (uid_t)-1 is none */
#define OVERFLOW_ID 65534UL   /* whoever has no other: nobody */
#define NO_ID_16 65535UL      /* (uid_t)-1 of old */

/* A number that ends with the given character, and nothing else. Moves *text behind it. */
static bool take_number(const char **text, char end, unsigned long *value)
{
	char *after;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*value = strtoul(*text, &after, 10);
	if (errno || (*after != end && !(end == '\n' && !*after)))
		return false;
	*text = after + (*after != '\0');
	return true;
}

bool subuid_from_text(const char *text, const char *name, uid_t uid, unsigned long own,
		      struct subuid_range *range)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", (unsigned)uid);
	range->count = 0;
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		size_t len;
		unsigned long first, count;
		const char *at;

		line += *line == '\n';
		len = strcspn(line, ":\n");
		if (line[len] != ':' ||
		    !((strlen(number) == len && memcmp(line, number, len) == 0) ||
		      (name && strlen(name) == len && memcmp(line, name, len) == 0)))
			continue;
		at = line + len + 1;
		if (!take_number(&at, ':', &first) || !take_number(&at, '\n', &count))
			continue;
		if (!first || first > IDS_LAST || count > IDS_LAST - first + 1 ||
		    (own >= first && own - first < count) || count <= range->count)
			continue;
		range->first = first;
		range->count = count;
	}
	return range->count > 0;
}

unsigned long subuid_choose(const struct subuid_range *range, unsigned long number)
{
	unsigned long half = range->count / 2;
	unsigned long id = range->first + half + number % (range->count - half);

	if ((id == OVERFLOW_ID || id == NO_ID_16) && range->first < OVERFLOW_ID)
		id = OVERFLOW_ID - 1;
	return id;
}

/* The third field of a line begins with the number. False where the line has none; *name_len: of its first field. */
static bool has_id(const char *line, const char *wanted, size_t *name_len)
{
	const char *field;

	*name_len = strcspn(line, ":\n");
	field = line[*name_len] == ':' ? line + *name_len + 1 : "";
	field += strcspn(field, ":\n");
	return *name_len && *field == ':' && strncmp(field + 1, wanted, strlen(wanted)) == 0;
}

static const char *line_of_id(const char *text, unsigned long id, size_t *name_len)
{
	char wanted[24];

	snprintf(wanted, sizeof(wanted), "%lu:", id);
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (has_id(line, wanted, name_len))
			return line;
	}
	return NULL;
}

bool subuid_is_named(const char *text, unsigned long id)
{
	size_t ignored;

	return line_of_id(text, id, &ignored) != NULL;
}

static bool read_file(const char *path, struct strbuf *text)
{
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC);

	strbuf_init(text, (size_t)1 << 20);
	return fd >= 0 && fd_read_all(fd, text) == 0;
}

/* The name of the uid in passwd(5), a new string; NULL: it has none there. */
static char *own_name(uid_t uid)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	const char *line;
	size_t len;

	if (!read_file("/etc/passwd", &text))
		return NULL;
	line = line_of_id(text.data, uid, &len);
	return line ? mem_strndup(line, len) : NULL;
}

static bool range_of(const char *path, const char *name, unsigned long own,
		     struct subuid_range *range)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	return read_file(path, &text) &&
	       subuid_from_text(text.data, name, geteuid(), own, range);
}

/* Set-uid or with file capabilities, and root's alone to change. */
static bool is_there(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == 0 &&
	       !(st.st_mode & 0022) && access(path, X_OK) == 0;
}

bool subuid_find(struct subuid *ids, const char **why, const char **next)
{
	const uid_t uid = geteuid();
	char *name AUTO_FREE = own_name(uid);

	*next = "give the user one: usermod --add-subuids FIRST-LAST --add-subgids FIRST-LAST "
		"USER";
	if (uid == 0) {
		*why = "root needs no range";
		*next = "";
	} else if (!range_of("/etc/subuid", name, uid, &ids->uids)) {
		*why = "no range of subordinate uids (/etc/subuid)";
	} else if (!range_of("/etc/subgid", name, getegid(), &ids->gids)) {
		*why = "no range of subordinate gids (/etc/subgid)";
	} else if (!is_there(SUBUID_NEWUIDMAP) || !is_there(SUBUID_NEWGIDMAP)) {
		*why = "newuidmap and newgidmap, which map a range, are not in /usr/bin";
		*next = "install them (Debian, Ubuntu: apt-get install uidmap)";
	} else if (!name) {
		*why = "newuidmap serves users of /etc/passwd only";
		*next = "start it as root, or as a user of /etc/passwd";
	} else if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
		*why = "started with no_new_privs, so that newuidmap has no rights";
		*next = "leave NoNewPrivileges out of its unit, or start it as root";
	} else {
		return true;
	}
	return false;
}
