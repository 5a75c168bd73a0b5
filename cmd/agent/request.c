/* What a run is asked: the issue, its branch, the command line, as request.json keeps them. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/publish/rules.h"

#define ISSUE_MAX (1 << 20)

/* ---- the issue ---- */

static int check_text(const char *word, const struct strbuf *text, struct error *err)
{
	if (memchr(text->data, '\0', text->len) || !text_is_utf8(text->data, text->len)) {
		error_set(err, ERROR_USAGE, "issue %s is no text in UTF-8", word);
		return error_next(
		    err, "convert it (iconv -t UTF-8), or describe the issue in a text file");
	}
	return 0;
}

/* about gets what a forge says; an issue that is a file or text leaves it empty. */
static int read_issue(const struct options *options, const struct repository *repo,
		      struct strbuf *text, const char **source, struct json *about,
		      struct error *err)
{
	const char *word = options->word_count ? options->words[0] : NULL;
	int fd AUTO_FD = -1, result;

	if (options->word_count > 1 || (!word == !options->message)) {
		const char *name = options->command->name;
		const char *verb = strcmp(name, "queue") == 0 ? "queue add" : name;

		error_set(err, ERROR_USAGE, "agent %s takes one issue: a file, - or -m TEXT",
			  verb);
		return error_next(
		    err, "agent %s 42.md, agent %s - < 42.md, agent %s -m 'sum() is wrong'",
		    verb, verb, verb);
	}
	if (word && !word[0]) {
		error_set(err, ERROR_USAGE, "the name of the issue is empty");
		return error_next(err,
				  "is a variable not set? else give its text with -m TEXT");
	}
	*source = word ? (strcmp(word, "-") == 0 ? "standard input" : word) : "-m";
	if (!word) {
		if (strbuf_adds(text, options->message) < 0)
			return error_set(err, ERROR_USAGE, "-m: the text is too long");
		return check_text("-m", text, err);
	}
	fd = strcmp(word, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
				    : open(word, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		result = forge_issue(options, repo, word, text, about, err);
		if (result) {
			*source = js_str(about, "source", word);
			return result < 0 ? result : check_text(word, text, err);
		}
		errno = ENOENT;
	}
	if (fd < 0) {
		error_errno(err, ERROR_USAGE, errno, "issue %s cannot be read", word);
		return error_next(err, "name a file with the text of the issue, an issue of "
				       "the forge (42), or give "
				       "it with -m TEXT");
	}
	result = fd_read_all(fd, text);
	if (result < 0 && errno == EFBIG)
		return error_set(err, ERROR_USAGE, "issue %s is larger than 1 MiB", word);
	if (result < 0) {
		error_errno(err, ERROR_USAGE, errno, "issue %s cannot be read", word);
		return error_next(
		    err, "name a file with the text of the issue, or give it with -m TEXT");
	}
	return check_text(word, text, err);
}

/* The first line that says something, without Markdown's heading marks. Owned by the caller. */
static char *issue_title(const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\r\n");
		const char *line = text + strspn(text, "# \t");
		char shown[200];

		if (line < text + len) {
			text_escape(shown, sizeof(shown), line, (size_t)(text + len - line));
			return mem_strdup(shown);
		}
		text += len + (text[len] ? 1 : 0);
	}
	return NULL;
}

static bool is_ascii(const char *text)
{
	while (*text && (unsigned char)*text < 0x80)
		text++;
	return !*text;
}

/* <file name without ending>-<title>, or <title>. */
static char *result_name(const char *source, const char *title, bool from_file)
{
	const char *base = strrchr(source, '/');
	char *stem AUTO_FREE = mem_strdup(base ? base + 1 : source), *whole AUTO_FREE = NULL;
	char *dot = strrchr(stem, '.');
	char slug[64], digest[65];

	if (dot && dot != stem)
		*dot = '\0';
	whole = from_file ? mem_printf("%s-%s", stem, title) : mem_strdup(title);
	text_slug(slug, whole);
	/* Titles that the name cannot tell apart are told apart by a digest. */
	if (from_file || (strlen(title) <= 48 && is_ascii(title)))
		return mem_strdup(slug);
	sha256_hex(title, strlen(title), digest);
	return mem_printf("%.40s-%.6s", slug, digest);
}

char *request_result_ref(const struct config *config, const char *name, struct error *err)
{
	const char *pattern = config_get(config, "publish.ref"), *star = strchr(pattern, '*');
	char *ref AUTO_FREE = NULL;

	if (star && !strchr(star + 1, '*'))
		ref = mem_printf("%.*s%s%s", (int)(star - pattern), pattern, name, star + 1);
	if (ref && rules_check_ref(ref, err) == 0)
		return MEM_STEAL(ref);
	error_set(err, ERROR_USAGE, "%s: publish.ref = %s is no place for results",
		  config_origin(config, "publish.ref"), pattern);
	error_next(err, "refs/heads/agent/*, refs/agent/* or another pattern below refs/heads/ "
			"or refs/agent/ with one star");
	return NULL;
}

/* What makes two runs runs of the same issue: the file, or the text. Owned by the caller. */
static char *issue_identity(const char *source, const char *digest, bool from_file)
{
	char *path AUTO_FREE = from_file ? realpath(source, NULL) : NULL;

	return path ? mem_printf("file:%s", path) : mem_printf("text:%s", digest);
}

/* The ref of --branch. NULL with err. */
static char *branch_ref(const char *branch, struct error *err)
{
	char *ref AUTO_FREE = mem_printf("refs/heads/%s", branch);

	if (rules_check_ref(ref, err) == 0)
		return MEM_STEAL(ref);
	error_set(err, ERROR_USAGE, "--branch %s is not a usable branch name", branch);
	error_next(err, "letters, digits and . _ - / are allowed, as in agent/fix-sum");
	return NULL;
}

int run_rename(struct run *run, const char *branch, struct error *err)
{
	char *ref AUTO_FREE = branch_ref(branch, err);

	if (!ref)
		return err->kind;
	if (rundir_has(&run->dir, "publish/receipt.json") && strcmp(ref, run_ref(run)) != 0) {
		error_set(err, ERROR_USAGE, "run %s is pushed already, to %s", run->dir.id,
			  run_ref(run));
		return error_next(
		    err, "git push REMOTE COMMIT:%s, of the commit that agent show %s names",
		    ref, run->dir.id);
	}
	js_set_str(run->request, "ref", ref);
	return rundir_write(&run->dir, "request.json", run->request, err);
}

/* ---- a new run ---- */

/* Who makes the change: nothing for a model. 0 or ERROR_USAGE. */
static int put_change(const struct options *options, struct json *request, struct error *err)
{
	const char *command = options->change_command, *network = options->change_network;
	struct json *change;

	if (!command && network)
		return error_set(err, ERROR_USAGE, "--command-network is for --command");
	if (!command)
		return 0;
	if (!command[strspn(command, " \t\n")] || !text_is_utf8(command, strlen(command)))
		return error_set(err, ERROR_USAGE, "--command: no command");
	if (network && strcmp(network, "none") != 0 && strcmp(network, "registries") != 0)
		return error_set(err, ERROR_USAGE,
				 "--command-network %s: must be one of: none registries",
				 network);
	change = js_object_new();
	js_set_str(change, "by", "command");
	js_set_str(change, "command", command);
	js_set_str(change, "network", network ? network : "none");
	js_set(request, "change", change);
	return 0;
}

static struct json *make_request(const struct options *options, const struct repository *repo,
				 const struct strbuf *issue, const char *source,
				 const struct json *forge, const char *id, struct error *err)
{
	struct json *request AUTO_JSON = js_artefact_new("request", 1), *about = js_copy(forge);
	char *title AUTO_FREE = issue_title(issue->data), *name AUTO_FREE = NULL;
	char *number AUTO_FREE = NULL, *identity AUTO_FREE = NULL, *ref AUTO_FREE = NULL;
	bool from_file;
	char digest[65];

	js_set(request, "issue", about);
	if (!title) {
		error_set(err, ERROR_USAGE, "the issue (%s) is empty", source);
		error_next(err, "say what is wrong and what should be");
		return NULL;
	}
	from_file = options->word_count && strcmp(options->words[0], "-") != 0;
	number =
	    js_int(about, "number", 0) ? mem_printf("%lld", js_int(about, "number", 0)) : NULL;
	name = result_name(number ? number : source, title, from_file);
	ref = options->branch ? branch_ref(options->branch, err)
			      : request_result_ref(options->config, name, err);
	if (!ref)
		return NULL;
	sha256_hex(issue->data, issue->len, digest);
	js_set_str(request, "id", id);
	js_set_str(request, "agent", AGENT_VERSION);
	js_set_int(request, "created", (long long)time(NULL));
	js_set_str(request, "repository", repo->work_dir ? repo->work_dir : repo->git_dir);
	js_set_str(about, "source", source);
	js_set_str(about, "title", title);
	js_set_str(about, "sha256", digest);
	if (!js_str(about, "identity", NULL)) {
		identity = issue_identity(source, digest, from_file);
		js_set_str(about, "identity", identity);
	}
	js_set_str(request, "ref", ref);
	js_set_str(request, "rev", options->base ? options->base : "HEAD");
	js_set_bool(request, "dry_run", options->dry_run);
	js_set_bool(request, "status", !options->no_status);
	js_set(request, "pairs", js_copy(options->pairs));
	return put_change(options, request, err) ? NULL : MEM_STEAL(request);
}

void request_digest(const struct json *request, char digest[65])
{
	struct json *asked AUTO_JSON = js_copy(request);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	js_unset(asked, "id");
	js_unset(asked, "created");
	js_unset(asked, "agent");
	strbuf_init(&text, STRBUF_MAX);
	js_format(asked, &text);
	sha256_hex(text.data, text.len, digest);
}

int request_make(const struct options *options, struct strbuf *issue, struct json **request,
		 struct error *err)
{
	struct json *about AUTO_JSON = js_object_new();
	struct repository repo;
	const char *source = "-m";

	strbuf_init(issue, ISSUE_MAX);
	if (repository_find(NULL, &repo, err) == 0 &&
	    read_issue(options, &repo, issue, &source, about, err) == 0)
		*request = make_request(options, &repo, issue, source, about, "", err);
	repository_release(&repo);
	return *request ? 0 : err->kind;
}

const char *request_base_name(const struct json *request, const struct json *base)
{
	const char *rev = js_str(request, "rev", "HEAD");
	const char *task = js_str(js_get(request, "task"), "ref", NULL);

	if (js_str(base, "ref", NULL))
		return js_str(base, "ref", NULL);
	if (task)
		return task;
	if (strcmp(rev, "HEAD") == 0)
		return "detached HEAD";
	return text_is_hex(rev, strlen(rev)) ? "the commit" : rev;
}

int request_make_task(const struct options *options, const struct repository *repo,
		      const char *task, const char *rev, const struct strbuf *text,
		      struct json **request, struct error *err)
{
	char *identity AUTO_FREE = mem_printf("maintain:%s", task);
	char *name AUTO_FREE = mem_printf("maintain-%s", task), *ref AUTO_FREE = NULL;
	struct json *about AUTO_JSON = js_object_new();
	struct options asked = *options;

	asked.branch = NULL;
	asked.base = rev;
	asked.word_count = 0;
	asked.dry_run = false;
	asked.no_status = true;
	js_set_str(about, "identity", identity);
	ref = request_result_ref(options->config, name, err);
	if (!ref)
		return err->kind;
	*request = make_request(&asked, repo, text, identity, about, "", err);
	if (!*request)
		return err->kind;
	js_set_str(*request, "ref", ref);
	return 0;
}

int request_store(const struct rundir *dir, struct json *request, const char *issue, size_t len,
		  struct error *err)
{
	int result = fd_replace_file(dir->fd, "issue.md", issue, len, 0400, err);

	js_set_str(request, "id", dir->id);
	return result ? result : rundir_write(dir, "request.json", request, err);
}

int run_begin(struct run *run, struct options *options, struct error *err)
{
	struct strbuf issue AUTO_STRBUF = STRBUF_NONE;
	struct json *request AUTO_JSON = NULL;
	char *state AUTO_FREE = NULL;

	if (request_make(options, &issue, &request, err))
		return err->kind;
	state = rundir_state_dir(err);
	if (!state || rundir_create(state, &run->dir, err))
		return err->kind;
	return request_store(&run->dir, request, issue.data, issue.len, err);
}
