#include "base.h"

#include <stdlib.h>
#include <string.h>

#include <git2.h>

#include "gitops/refs.h"
#include "gitops/view_internal.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define CONFIG_PATH ".agent/config"
#define TAG_DEPTH 8

/* Names in the root directory by which recipes know an ecosystem. */
static const char *const manifests[] = {
    "package.json",	"package-lock.json", "npm-shrinkwrap.json",
    "yarn.lock",	"pnpm-lock.yaml",    "go.mod",
    "go.sum",		"Cargo.toml",	     "Cargo.lock",
    "requirements.txt", "pyproject.toml",    "setup.py",
    "setup.cfg",	"Pipfile.lock",	     "poetry.lock",
    "uv.lock",		"pom.xml",	     "build.gradle",
    "build.gradle.kts", "settings.gradle",   "gradle.lockfile",
    "Gemfile",		"Gemfile.lock",	     "composer.json",
    "composer.lock",	"mix.exs",	     "mix.lock",
    "CMakeLists.txt",	"Makefile",	     "meson.build",
    "configure.ac",
};

int base_find(struct gitops_repo *repo, const struct gitops_paths *paths, const char *rev,
	      struct ref_value *value, struct error *err)
{
	struct error wrong = {0};
	int rc = refs_resolve(paths, rev, value, err);

	if (rc == 0 || !value->missing)
		return rc;
	rc = repo_expand(repo, rev, value->oid, &wrong);
	if (rc == 0)
		return err->kind;
	*err = wrong;
	value->missing = false;
	value->name[0] = '\0';
	return rc < 0 ? rc : 0;
}

int base_peel(struct gitops_repo *repo, char oid[GITOPS_OID_SIZE], struct error *err)
{
	for (int depth = 0; depth < TAG_DEPTH; depth++) {
		enum gitops_type type;
		uint64_t size;
		git_tag *tag = NULL;
		git_oid id;
		int rc = repo_header(repo, oid, &type, &size, err);
		if (rc < 0)
			return rc == ERROR_FAILED
				   ? error_set(err, ERROR_USAGE, "there is no object %s", oid)
				   : rc;
		if (type == GITOPS_COMMIT)
			return 0;
		if (type != GITOPS_TAG || size > GITOPS_FILE_BYTES_MAX)
			return error_set(err, ERROR_USAGE, "object %s is not a commit", oid);
		git_oid_fromstr(&id, oid);
		if (git_tag_lookup(&tag, repo_git(repo), &id) < 0)
			return gitops_error(err, ERROR_USAGE, "tag %s", oid);
		git_oid_tostr(oid, GITOPS_OID_SIZE, git_tag_target_id(tag));
		git_tag_free(tag);
	}
	return error_set(err, ERROR_USAGE, "tags of tags, more than %d deep", TAG_DEPTH);
}

static int add_commit(struct gitops_repo *repo, const char *oid, struct json *out,
		      struct error *err)
{
	git_commit *commit = NULL;
	git_oid id;
	char tree[GITOPS_OID_SIZE];
	int rc = repo_commit_tree(repo, oid, tree, err);

	if (rc < 0)
		return rc;
	git_oid_fromstr(&id, oid);
	if (git_commit_lookup(&commit, repo_git(repo), &id) < 0)
		return gitops_error(err, ERROR_FAILED, "commit %s", oid);
	const char *subject = git_commit_summary(commit);
	js_set_str(out, "commit", oid);
	js_set_str(out, "tree", tree);
	js_set_int(out, "committer_time", git_commit_time(commit));
	js_set_strn(out, "subject", subject ? subject : "",
		    subject ? strnlen(subject, 200) : 0);
	git_commit_free(commit);
	return 0;
}

/* The repository's own configuration, as bytes of a commit. */
static int add_config(struct view *view, struct json *out, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct view_stat st;
	int rc = view_stat(view, CONFIG_PATH, &st, err);

	if (rc < 0 || st.kind == VIEW_NONE) {
		js_set_str(out, "config", NULL);
		js_set_str(out, "config_oid", NULL);
		return rc == ERROR_NO ? 0 : rc; /* .agent may be a file of somebody else's */
	}
	if (st.kind != VIEW_FILE && st.kind != VIEW_EXEC)
		return error_set(err, ERROR_USAGE, CONFIG_PATH " is not a regular file");
	if (st.size > BASE_CONFIG_MAX)
		return error_set(err, ERROR_USAGE, CONFIG_PATH " is bigger than %d bytes",
				 BASE_CONFIG_MAX);
	strbuf_init(&text, BASE_CONFIG_MAX);
	if ((rc = view_read(view, CONFIG_PATH, &text, err)) < 0)
		return rc;
	if (!text_is_utf8(text.data, text.len) || memchr(text.data, '\0', text.len))
		return error_set(err, ERROR_USAGE, CONFIG_PATH " is not UTF-8 text");
	js_set_strn(out, "config", text.data, text.len);
	js_set_str(out, "config_oid", st.oid);
	return 0;
}

static int add_files(struct view *view, struct json *out, struct error *err)
{
	struct json *files AUTO_JSON = js_array_new();

	for (size_t i = 0; i < ARRAY_LEN(manifests); i++) {
		struct view_stat st;
		int rc = view_stat(view, manifests[i], &st, err);
		if (rc < 0)
			return rc;
		if (st.kind != VIEW_FILE && st.kind != VIEW_EXEC)
			continue;
		struct json *file = js_object_new();
		js_set_str(file, "path", manifests[i]);
		js_set_str(file, "oid", st.oid);
		js_set_int(file, "size", (long long)st.size);
		js_set_str(file, "mode", view_mode_text(st.kind));
		js_push(files, file);
	}
	js_set(out, "files", MEM_STEAL(files));
	return 0;
}

/* rev: whose .agent/config counts. */
static int add_trusted(struct gitops_repo *repo, const struct gitops_paths *paths,
		       const char *rev, struct json *out, struct error *err)
{
	AUTO_VIEW struct view *view = NULL;
	struct ref_value value = {.oid = ""};
	char tree[GITOPS_OID_SIZE];
	int rc = base_find(repo, paths, rev, &value, err);

	if (rc == 0)
		rc = base_peel(repo, value.oid, err);
	if (rc == 0)
		rc = repo_commit_tree(repo, value.oid, tree, err);
	if (rc == 0 && !(view = view_new(repo, tree, NULL, err)))
		rc = err->kind;
	if (rc == 0)
		rc = add_config(view, out, err);
	if (rc < 0)
		return error_wrap(err, "the configuration at %s", rev);
	js_set_str(out, "config_ref", value.name[0] ? value.name : NULL);
	js_set_str(out, "config_commit", value.oid);
	return 0;
}

static int gather(const struct gitops_paths *paths, const char *rev, const char *config_rev,
		  struct json *out, struct error *err)
{
	AUTO_REPO struct gitops_repo *repo = NULL;
	AUTO_VIEW struct view *view = NULL;
	struct repo_format format = {0};
	struct ref_value value = {.oid = ""};
	int rc = repo_open(paths, &repo, err);

	if (rc == 0)
		rc = refs_check_format(paths, &format, err);
	if (rc == 0)
		rc = base_find(repo, paths, rev, &value, err);
	if (rc == 0)
		rc = base_peel(repo, value.oid, err);
	if (rc == 0)
		rc = add_commit(repo, value.oid, out, err);
	if (rc < 0)
		return rc;
	js_set_str(out, "ref", value.name[0] ? value.name : NULL);
	js_set_str(out, "object_format", "sha1");
	js_set_bool(out, "shallow", format.shallow);
	view = view_new(repo, js_str(out, "tree", ""), NULL, err);
	if (!view)
		return err ? err->kind : ERROR_FAILED;
	rc = add_trusted(repo, paths, config_rev ? config_rev : value.oid, out, err);
	if (rc == 0 && !config_rev && value.name[0])
		js_set_str(out, "config_ref", value.name);
	return rc < 0 ? rc : add_files(view, out, err);
}

struct json *base_read(const struct gitops_paths *paths, const char *rev,
		       const char *config_rev, struct error *err)
{
	struct json *out AUTO_JSON = js_artefact_new("base", 1);

	return gather(paths, rev, config_rev, out, err) < 0 ? NULL : MEM_STEAL(out);
}
