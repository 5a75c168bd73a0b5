#include "commit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <git2.h>

#include "gitops/tree.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define COMMIT_MESSAGE_MAX (1u << 20)
#define COMMIT_YEAR_9999 253402300799LL

/* ---- bytes ---- */

static int check_identity(const char *what, const char *text, struct error *err)
{
	const char *fault = text_person_fault(text ? text : "");

	return fault ? error_set(err, ERROR_USAGE, "%s '%s' %s", what, text ? text : "", fault)
		     : 0;
}

int commit_format(const struct commit_spec *spec, struct strbuf *out, struct error *err)
{
	size_t message = spec->message ? strlen(spec->message) : 0;
	int rc = check_identity("author name", spec->name, err);

	if (rc == 0)
		rc = check_identity("author address", spec->email, err);
	if (rc < 0)
		return rc;
	if (!spec->tree || !text_is_hex(spec->tree, GITOPS_OID_SIZE - 1) ||
	    (spec->parent && !text_is_hex(spec->parent, GITOPS_OID_SIZE - 1)))
		return error_set(err, ERROR_USAGE, "commit: malformed tree or parent id");
	if (spec->time < 0 || spec->time > COMMIT_YEAR_9999)
		return error_set(err, ERROR_USAGE, "commit: time out of range");
	if (message == 0 || message > COMMIT_MESSAGE_MAX ||
	    !text_is_utf8(spec->message, message) || spec->message[message - 1] != '\n')
		return error_set(
		    err, ERROR_USAGE,
		    "commit: the message must be UTF-8 text that ends with a newline");
	strbuf_addf(out, "tree %s\n", spec->tree);
	if (spec->parent)
		strbuf_addf(out, "parent %s\n", spec->parent);
	strbuf_addf(out, "author %s <%s> %lld +0000\n", spec->name, spec->email, spec->time);
	strbuf_addf(out, "committer %s <%s> %lld +0000\n\n", spec->name, spec->email,
		    spec->time);
	strbuf_adds(out, spec->message);
	return out->full ? error_set(err, ERROR_USAGE, "commit: too big") : 0;
}

int commit_add_signature(const struct strbuf *plain, const char *signature, struct strbuf *out,
			 struct error *err)
{
	const char *body = memmem(plain->data, plain->len, "\n\n", 2);
	size_t len = strlen(signature);

	if (!body)
		return error_set(err, ERROR_USAGE, "commit: no end of its header");
	while (len > 0 && signature[len - 1] == '\n')
		len--;
	if (len == 0 || len > 65536)
		return error_set(err, ERROR_USAGE, "commit: empty or oversized signature");
	size_t head = (size_t)(body - plain->data) + 1;
	strbuf_add(out, plain->data, head);
	strbuf_adds(out, "gpgsig ");
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)signature[i] < 0x20 && signature[i] != '\n')
			return error_set(err, ERROR_USAGE,
					 "commit: control character in the signature");
		strbuf_addc(out, signature[i]);
		if (signature[i] == '\n') /* lines of one header field go on behind a blank */
			strbuf_addc(out, ' ');
	}
	strbuf_addc(out, '\n');
	strbuf_add(out, plain->data + head, plain->len - head);
	return out->full ? error_set(err, ERROR_USAGE, "commit: too big") : 0;
}

/* ---- objects ---- */

int commit_write(struct gitops_repo *repo, const struct strbuf *bytes,
		 char oid[GITOPS_OID_SIZE], struct error *err)
{
	git_oid id;

	if (git_odb_write(&id, repo_odb(repo), bytes->data, bytes->len, GIT_OBJECT_COMMIT) < 0)
		return gitops_error(err, ERROR_FAILED,
				    "writing the commit into the quarantine");
	git_oid_tostr(oid, GITOPS_OID_SIZE, &id);
	return 0;
}

int commit_prepare(struct gitops_repo *repo, const struct commit_spec *spec, struct strbuf *out,
		   struct error *err)
{
	enum gitops_type type;
	uint64_t size;
	int rc = commit_format(spec, out, err);

	if (rc == 0)
		rc = repo_header(repo, spec->tree, &type, &size, err);
	if (rc == 0 && type != GITOPS_TREE)
		rc = error_set(err, ERROR_FAILED, "commit: %s is not a tree", spec->tree);
	if (rc == 0 && spec->parent)
		rc = repo_header(repo, spec->parent, &type, &size, err);
	if (rc == 0 && spec->parent && type != GITOPS_COMMIT)
		rc = error_set(err, ERROR_FAILED, "commit: parent %s is not a commit",
			       spec->parent);
	return rc;
}

int commit_file_tree(struct gitops_repo *repo, const char *name, const void *data, size_t len,
		     char tree[GITOPS_OID_SIZE], struct error *err)
{
	AUTO_STRBUF struct strbuf entry = STRBUF_NONE;
	char blob[GITOPS_OID_SIZE];
	git_oid id;
	int rc = repo_write_blob(repo, data, len, blob, err);

	if (rc < 0)
		return rc;
	git_oid_fromstr(&id, blob);
	strbuf_init(&entry, 4096);
	strbuf_addf(&entry, "100644 %s", name);
	strbuf_addc(&entry, '\0');
	strbuf_add(&entry, id.id, sizeof(id.id));
	if (git_odb_write(&id, repo_odb(repo), entry.data, entry.len, GIT_OBJECT_TREE) < 0)
		return gitops_error(err, ERROR_FAILED, "writing a tree into the quarantine");
	git_oid_tostr(tree, GITOPS_OID_SIZE, &id);
	return 0;
}

int commit_make(struct gitops_repo *repo, const struct commit_spec *spec,
		char oid[GITOPS_OID_SIZE], struct error *err)
{
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;

	strbuf_init(&bytes, COMMIT_BYTES_MAX);
	int rc = commit_prepare(repo, spec, &bytes, err);
	return rc < 0 ? rc : commit_write(repo, &bytes, oid, err);
}

int commit_read(struct gitops_repo *repo, const char *oid, struct strbuf *out,
		struct error *err)
{
	git_odb_object *object = NULL;
	enum gitops_type type;
	uint64_t size;
	git_oid id;
	int rc = repo_header(repo, oid, &type, &size, err);

	if (rc < 0)
		return rc;
	if (type != GITOPS_COMMIT || size > COMMIT_BYTES_MAX)
		return error_set(err, ERROR_USAGE,
				 "object %s is no commit, or one of more than %zu bytes", oid,
				 COMMIT_BYTES_MAX);
	git_oid_fromstr(&id, oid);
	if (repo_read(repo, &id, &object) < 0)
		return gitops_error(err, ERROR_FAILED, "commit %s", oid);
	strbuf_add(out, git_odb_object_data(object), git_odb_object_size(object));
	git_odb_object_free(object);
	return out->full ? error_set(err, ERROR_FAILED, "commit %s is too big", oid) : 0;
}

int commit_split_signature(const char *bytes, size_t len, struct strbuf *plain,
			   struct strbuf *signature, struct error *err)
{
	bool within = false, seen = false;
	size_t at = 0;

	while (at < len && bytes[at] != '\n') {
		const char *end = memchr(bytes + at, '\n', len - at);
		size_t line = end ? (size_t)(end - bytes) - at + 1 : len - at;
		bool goes_on = bytes[at] == ' ';

		if (!goes_on)
			within = line >= 7 && memcmp(bytes + at, "gpgsig ", 7) == 0;
		if (within && !goes_on && seen)
			return error_set(err, ERROR_NO,
					 "the commit has more than one signature");
		seen = seen || within;
		if (within)
			strbuf_add(signature, bytes + at + (goes_on ? 1 : 7),
				   line - (goes_on ? 1 : 7));
		else
			strbuf_add(plain, bytes + at, line);
		at += line;
	}
	strbuf_add(plain, bytes + at, len - at);
	return plain->full || signature->full
		   ? error_set(err, ERROR_NO, "the commit is too big")
		   : 0;
}

/* The value of a header field, up to the end of its line; NULL when the header has it not. */
static const char *header_field(const char *bytes, size_t len, const char *name,
				size_t *value_len)
{
	size_t size = strlen(name), at = 0;

	while (at < len && bytes[at] != '\n') {
		const char *end = memchr(bytes + at, '\n', len - at);
		size_t line = end ? (size_t)(end - bytes) - at : len - at;

		if (line > size && memcmp(bytes + at, name, size) == 0 &&
		    bytes[at + size] == ' ') {
			*value_len = line - size - 1;
			return bytes + at + size + 1;
		}
		at += line + 1;
	}
	return NULL;
}

long long commit_time(const char *bytes, size_t len)
{
	size_t size = 0;
	const char *value = header_field(bytes, len, "committer", &size);
	const char *angle = value ? memrchr(value, '>', size) : NULL;
	long long time = 0;

	if (!angle)
		return 0;
	for (const char *p = angle + 1; p < value + size; p++) {
		if (*p >= '0' && *p <= '9' && time < COMMIT_YEAR_9999)
			time = time * 10 + (*p - '0');
		else if (time || *p != ' ')
			break;
	}
	return time > COMMIT_YEAR_9999 ? COMMIT_YEAR_9999 : time;
}

int commit_one_parent(const char *bytes, size_t len, char parent[GITOPS_OID_SIZE])
{
	size_t size = 0, more = 0;
	const char *value = header_field(bytes, len, "parent", &size);
	const char *next = value ? value + size + 1 : NULL;

	if (!value || size != GITOPS_OID_SIZE - 1)
		return -1;
	memcpy(parent, value, size);
	parent[size] = '\0';
	if (!text_is_hex(parent, size) ||
	    (next < bytes + len &&
	     header_field(next, len - (size_t)(next - bytes), "parent", &more)))
		return -1;
	return 0;
}

int commit_read_file(struct gitops_repo *repo, const char *commit, const char *name,
		     struct strbuf *out, struct error *err)
{
	char oid[GITOPS_OID_SIZE];
	AUTO_VIEW struct view *view = NULL;
	struct view_stat st;
	int rc = repo_commit_tree(repo, commit, oid, err);

	if (rc < 0)
		return rc;
	view = view_new(repo, oid, NULL, err);
	if (!view || view_stat(view, name, &st, err) < 0)
		return err->kind;
	if (st.kind != VIEW_FILE && st.kind != VIEW_EXEC)
		return error_set(err, ERROR_NO, "commit %s has no file %s", commit, name);
	return view_read(view, name, out, err);
}

int commit_check(struct gitops_repo *repo, const char *commit, const char *tree,
		 const char *parent, struct error *err)
{
	char have[GITOPS_OID_SIZE];
	git_commit *object = NULL;
	git_oid id;
	int rc = repo_commit_tree(repo, commit, have, err);

	if (rc < 0)
		return rc;
	if (strcmp(have, tree) != 0)
		return error_set(err, ERROR_FAILED,
				 "commit %s has tree %s, not the tested tree %s", commit, have,
				 tree);
	git_oid_fromstr(&id, commit);
	if (git_commit_lookup(&object, repo_git(repo), &id) < 0)
		return gitops_error(err, ERROR_FAILED, "commit %s", commit);
	unsigned parents = git_commit_parentcount(object);
	if (parents == 1)
		git_oid_tostr(have, sizeof(have), git_commit_parent_id(object, 0));
	git_commit_free(object);
	if (parents != 1 || strcmp(have, parent) != 0)
		return error_set(err, ERROR_FAILED,
				 "commit %s does not have the base %s as its one parent",
				 commit, parent);
	return 0;
}

int commit_check_tree(struct gitops_repo *repo, const char *base_commit, const char *base_tree,
		      const struct json *array, const char *tree, struct error *err)
{
	AUTO_FREE struct tree_change *changes = NULL;
	size_t count = 0;
	char have[GITOPS_OID_SIZE];
	int rc = repo_commit_tree(repo, base_commit, have, err);

	if (rc < 0)
		return rc;
	if (strcmp(have, base_tree) != 0)
		return error_set(err, ERROR_FAILED, "base commit %s has tree %s, not %s",
				 base_commit, have, base_tree);
	if ((rc = tree_changes_from_json(array, &changes, &count, err)) < 0)
		return rc;
	for (size_t i = 0; i < count; i++) {
		enum gitops_type type;
		uint64_t size;
		if (changes[i].new_kind == VIEW_NONE)
			continue;
		if ((rc = repo_header(repo, changes[i].new_oid, &type, &size, err)) < 0)
			return rc;
		if (type != GITOPS_BLOB)
			return error_set(err, ERROR_FAILED, "'%s' is no file: %s",
					 changes[i].path, changes[i].new_oid);
	}
	if ((rc = tree_update(repo, base_tree, changes, count, have, err)) < 0)
		return rc;
	if (strcmp(have, tree) != 0)
		return error_set(err, ERROR_FAILED,
				 "the recorded changes make tree %s, but tree %s was tested",
				 have, tree);
	return 0;
}
