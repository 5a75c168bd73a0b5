/*
 * The network of a command that makes a change: the way out that a warm has, and the same hosts. What the jail
 * otherwise holds is the test's (cmd/agent/jailplan.c).
 */
#include "plan_internal.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/config.h"
#include "pipeline/fetch/npm_config.h"

#define SLACK_S 300

/* npm's registries are the operator's own setting; of a machine without npm nobody will ask for them. */
static bool has_npm(const struct fetch_request *request)
{
	const struct json *files = js_get(request->base, "files");
	const struct draft draft = {.request = request};
	AUTO_FREE char *npm = NULL;
	bool wanted = false;

	for (size_t i = 0; i < js_len(files); i++)
		wanted |= strcmp(js_str(js_at(files, i), "path", ""), "package.json") == 0;
	if (!wanted || !draft_from_env(&draft, "PATH"))
		return false;
	npm = npm_find_program(draft_from_env(&draft, "PATH"), "npm", request->work_tree);
	return npm != NULL;
}

static int make(struct draft *draft, struct jail_spec *spec, struct error *err)
{
	if (has_npm(draft->request) && draft_npm_env(draft, spec, err))
		return err->kind;
	if (draft_surroundings(draft, err))
		return err->kind;
	draft_network(draft, spec);
	draft_general_env(draft, spec);
	if (draft_configured_hosts(draft, err))
		return err->kind;
	/* with an empty list all is denied, and told (fetch_explain) */
	return draft_egress_job(draft, err);
}

int fetch_plan_command(const struct fetch_request *request, struct jail_spec *spec,
		       struct json **egress_job, unsigned *wall_s, struct error *err)
{
	struct fetch_plan plan = {.recipe = FETCH_NONE};
	struct draft draft = {.request = request, .plan = &plan};
	int kind;

	plan.egress_job = js_object_new();
	plan.wall_s = (unsigned)config_number(request->config, "command.timeout") + SLACK_S;
	draft.allow = js_array_new();
	draft.hosts = js_array_new();
	strbuf_init(&draft.text, STRBUF_MAX);
	kind = make(&draft, spec, err);
	if (!kind) {
		*egress_job = MEM_STEAL(plan.egress_job);
		*wall_s = plan.wall_s;
	}
	fetch_draft_release(&draft);
	fetch_plan_release(&plan);
	return kind;
}
