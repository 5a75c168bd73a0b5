/* agent queue add|list|show|cancel|retry: jobs for agent work (work.c). Those of task branches: reconcile.c. */
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/queue.h"

/* ---- add ---- */

/* -9 to 9 */
static int parse_priority(const char *text, long long *priority, struct error *err)
{
	bool negative = text[0] == '-';

	if (text_parse_size(text + negative, 9, priority) < 0)
		return error_set(err, ERROR_USAGE, "--priority %s is not a number from -9 to 9",
				 text);
	if (negative)
		*priority = -*priority;
	return 0;
}

static int check_origin(const char *origin, struct error *err)
{
	if (!strcmp(origin, "person") || !strcmp(origin, "hook") || !strcmp(origin, "cron"))
		return 0;
	return error_set(err, ERROR_USAGE, "--origin %s: must be one of: person hook cron",
			 origin);
}

/* A job's secrets are opened where it runs, by a process that gets no environment but a listed one: a
 * variable of ours, or of the worker's, cannot come there (law L2). */
static int check_sources(const struct config *config, bool by_model, struct error *err)
{
	/* forge.readToken is not among them: the issue is read here and now. */
	static const char *const keys[] = {"model.key",	       "publish.token",
					   "publish.sshKey",   "publish.signingKey",
					   "forge.writeToken", "http.proxyCredential"};
	const char *model = config_get(config, "model.name");

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *source = config_get(config, keys[i]);

		if (!source || strncmp(source, "env:", 4) != 0)
			continue;
		error_set(err, ERROR_USAGE,
			  "%s: %s = %s: a queued job gets no secret from the environment",
			  config_origin(config, keys[i]), keys[i], source);
		return error_next(err, "name a source that the worker can open: file:PATH, "
				       "credential:NAME or command:ARGV");
	}
	if (by_model && !config_get(config, "model.key") &&
	    !config_get(config, "model.baseUrl") && strncmp(model, "replay:", 7) != 0)
		fprintf(stderr, "agent: note: model.key is not set here, and the worker takes "
				"none from its environment: it needs file:PATH, "
				"credential:NAME or command:ARGV there\n");
	return 0;
}

static int add(struct options *options, struct queue *queue, struct error *err)
{
	struct strbuf issue AUTO_STRBUF = STRBUF_NONE, text AUTO_STRBUF = STRBUF_NONE;
	struct json *request AUTO_JSON = NULL;
	struct queue_new job = {.origin = options->origin ? options->origin : "person"};
	const struct json *about;
	char digest[65];
	long long id;

	if (check_origin(job.origin, err) ||
	    (options->priority && parse_priority(options->priority, &job.priority, err)) ||
	    check_sources(options->config, !options->change_command, err) ||
	    request_make(options, &issue, &request, err))
		return err->kind;
	about = js_get(request, "issue");
	request_digest(request, digest);
	strbuf_init(&text, STRBUF_MAX);
	js_format(request, &text);
	job.repository = js_str(request, "repository", "");
	job.identity = js_str(about, "identity", "");
	job.title = js_str(about, "title", "");
	job.digest = digest;
	job.request = text.data;
	job.issue = issue.data;
	job.issue_len = issue.len;
	if (queue_add(queue, &job, &id, err))
		return err->kind;
	if (options->json)
		printf("{\"job\":%lld}\n", id);
	else
		printf("job %lld queued: agent queue show %lld follows it\n", id, id);
	return 0;
}

/* ---- list, show ---- */

static void span(char *dst, size_t size, long long ms)
{
	long long s = ms > 0 ? ms / 1000 : 0;

	if (s < 120)
		snprintf(dst, size, "%lld s", s);
	else if (s < 7200)
		snprintf(dst, size, "%lld min", s / 60);
	else if (s < 48LL * 3600)
		snprintf(dst, size, "%lld h", s / 3600);
	else
		snprintf(dst, size, "%lld d", s / 86400);
}

static long long wall_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void put_row(struct strbuf *out, const struct json *job)
{
	const char *title = js_str(job, "title", ""), *reason = js_str(job, "reason", "");
	const char *repository = js_str(job, "repository", "");
	char shown[80], where[200], why[1000], age[32];

	span(age, sizeof(age), wall_ms() - js_int(job, "added", 0));
	text_escape(shown, sizeof(shown), title, strlen(title));
	text_escape(where, sizeof(where), repository, strlen(repository));
	strbuf_addf(out, "%5lld  %-10s %3lld  %5lld  %-7s  %s  (%s)\n", js_int(job, "id", 0),
		    js_str(job, "state", ""), js_int(job, "priority", 0),
		    js_int(job, "attempts", 0), age, shown, where);
	text_escape(why, sizeof(why), reason, strlen(reason));
	if (reason[0])
		strbuf_addf(out, "       %s\n", why);
}

static int list(struct options *options, struct queue *queue, struct error *err)
{
	struct json *jobs AUTO_JSON = queue_list(queue, 0, options->all, err);
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	if (!jobs)
		return err->kind;
	strbuf_init(&out, STRBUF_MAX);
	if (options->json) {
		js_format_ascii(jobs, &out);
		strbuf_addc(&out, '\n');
	} else if (!js_len(jobs)) {
		strbuf_adds(&out, options->all ? "no jobs yet\n" : "no jobs wait or run\n");
	} else {
		strbuf_adds(&out, "  job  state      pri  tries  age      issue\n");
		for (size_t i = 0; i < js_len(jobs); i++)
			put_row(&out, js_at(jobs, i));
	}
	if (fd_write_all(STDOUT_FILENO, out.data, out.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "standard output");
	return 0;
}

static void put_text(const struct json *job, const char *label, const char *key)
{
	const char *text = js_str(job, key, NULL);
	char shown[1536];

	if (!text)
		return;
	text_escape(shown, sizeof(shown), text, strlen(text));
	printf("%-10s %s\n", label, shown);
}

static void put_time(const struct json *job, const char *label, const char *key)
{
	time_t at = (time_t)(js_int(job, key, 0) / 1000);
	char stamp[40];
	struct tm local;

	if (!at || !localtime_r(&at, &local))
		return;
	strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S %z", &local);
	printf("%-10s %s\n", label, stamp);
}

static int show(struct options *options, struct queue *queue, long long id, struct error *err)
{
	struct json *jobs AUTO_JSON = queue_list(queue, id, true, err);
	const struct json *job = js_at(jobs, 0);
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	if (!jobs)
		return err->kind;
	if (options->json) {
		strbuf_init(&out, STRBUF_MAX);
		js_format_ascii(job, &out);
		printf("%s\n", out.data);
		return 0;
	}
	printf("%-10s %lld\n", "job", id);
	put_text(job, "state", "state");
	put_text(job, "why", "reason");
	put_text(job, "asked", "stop");
	put_text(job, "issue", "title");
	put_text(job, "identity", "identity");
	put_text(job, "in", "repository");
	put_text(job, "origin", "origin");
	printf("%-10s %lld\n%-10s %lld\n", "priority", js_int(job, "priority", 0), "attempts",
	       js_int(job, "attempts", 0));
	put_time(job, "added", "added");
	if (strcmp(js_str(job, "state", ""), "queued") == 0)
		put_time(job, "not before", "due");
	put_time(job, "started", "started");
	put_time(job, "ended", "ended");
	put_text(job, "run", "run");
	if (js_str(job, "run", NULL))
		printf("%-10s agent show %s\n", "story", js_str(job, "run", ""));
	return 0;
}

/* ---- */

/* What a verb takes. */
struct verb {
	const char *name;
	bool run;    /* what says what to run */
	bool config; /* operator configuration */
	bool words;
};

static const struct verb verbs[] = {
    {"list"},
    {"add", true, true, true},
    {"show", .words = true},
    {"cancel", .words = true},
    {"retry", .words = true},
    {"reconcile", .config = true},
    {"take", .config = true}, /* for agent work alone */
};

static int check_options(const struct options *options, const struct verb *verb,
			 struct error *err)
{
	if (options->repo && strcmp(verb->name, "reconcile") != 0)
		return error_set(err, ERROR_USAGE, "agent queue %s: --repo is for reconcile",
				 verb->name);
	if (options->all && strcmp(verb->name, "list") != 0)
		return error_set(err, ERROR_USAGE, "agent queue %s: --all is for list",
				 verb->name);
	if ((!verb->run &&
	     (options->message || options->base || options->branch || options->dry_run ||
	      options->no_status || options->again || options->priority || options->origin)) ||
	    (!verb->config && js_len(options->pairs)))
		return error_set(
		    err, ERROR_USAGE,
		    "agent queue %s takes no options but --json, to list --all, and to "
		    "reconcile --repo and -c",
		    verb->name);
	if (!verb->words && options->word_count)
		return error_set(err, ERROR_USAGE, "agent queue %s takes no words", verb->name);
	return 0;
}

static int of_job(struct options *options, struct queue *queue, const char *verb,
		  struct error *err)
{
	const char *word = options->word_count == 1 ? options->words[0] : NULL;
	bool running = false;
	long long id = 0;

	if (!word || text_parse_size(word, 1LL << 60, &id) < 0 || !id) {
		error_set(err, ERROR_USAGE, "agent queue %s takes the number of a job%s%s",
			  verb, word ? ", not " : "", word ? word : "");
		return error_next(err, "agent queue list tells them");
	}
	if (strcmp(verb, "show") == 0)
		return show(options, queue, id, err);
	if (strcmp(verb, "retry") == 0) {
		if (queue_retry(queue, id, err) == 0)
			printf("job %lld queued again\n", id);
		return err->kind;
	}
	if (queue_cancel(queue, id, &running, err) == 0)
		printf("job %lld %s\n", id, running ? "is asked to end" : "cancelled");
	return err->kind;
}

static int do_verb(struct options *options, const char *verb, const char *state,
		   struct queue *queue, struct error *err)
{
	if (strcmp(verb, "add") == 0)
		return add(options, queue, err);
	if (strcmp(verb, "list") == 0)
		return list(options, queue, err);
	if (strcmp(verb, "reconcile") == 0)
		return queue_reconcile(options, state, queue, err);
	if (strcmp(verb, "take") == 0)
		return queue_take(options, queue, err);
	return of_job(options, queue, verb, err);
}

int cmd_queue(struct options *options, struct error *err)
{
	const char *word = options->word_count ? options->words[0] : "list";
	const struct verb *verb = NULL;
	struct queue *queue AUTO_QUEUE = NULL;
	char *state AUTO_FREE = NULL;

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(verbs[i].name, word) == 0)
			verb = &verbs[i];
	if (!verb) {
		error_set(err, ERROR_USAGE, "agent queue %s: no such thing to do", word);
		return error_next(err, "add, list, show, cancel, retry or reconcile");
	}
	/* The verb is done with; what follows are the words of it. */
	if (options->word_count)
		memmove(options->words, options->words + 1,
			--options->word_count * sizeof(*options->words));
	if (check_options(options, verb, err))
		return err->kind;
	state = rundir_state_dir(err);
	queue = state ? queue_open(state, err) : NULL;
	return queue ? do_verb(options, verb->name, state, queue, err) : err->kind;
}
