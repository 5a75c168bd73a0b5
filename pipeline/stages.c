#include "stages.h"

#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/fds.h"

/* ---- environments: the whole of it, never inherited ---- */

static const struct stage_env env_plain[] = {{"LANG", "C.UTF-8"}, {"TZ", "UTC"}, {NULL, NULL}};
static const struct stage_env env_publish[] = {{"LANG", "C.UTF-8"},
					       {"TZ", "UTC"},
					       {"PATH", "/usr/bin:/bin"},
					       {"HOME", "/nonexistent"},
					       {NULL, NULL}};

/* ---- descriptors beside 0, 1, 2 ---- */

static const int fds_dial[] = {FD_CONTROL, FD_JOB, FD_NET, FD_SECRET, -1};
static const int fds_base[] = {FD_CONTROL, FD_JOB, FD_OUT, -1};
static const int fds_status[] = {FD_CONTROL, FD_JOB, -1};
static const int fds_fetch[] = {FD_CONTROL, FD_JOB,    FD_OUT,	 FD_LOG,    FD_FACTS,
				FD_SPEC,    FD_FACTS2, FD_SPEC2, FD_EGRESS, -1};
static const int fds_layer[] = {FD_CONTROL, FD_JOB, FD_BOARD, -1};
static const int fds_egress[] = {FD_CONTROL, FD_JOB, FD_EGRESS, -1};
static const int fds_model[] = {FD_CONTROL, FD_JOB,	FD_OUT,	 FD_SECRET, FD_NET,
				FD_ISSUE,   FD_CHANGES, FD_TALK, FD_REPLAY, -1};
static const int fds_forge_issue[] = {FD_CONTROL, FD_JOB, FD_OUT, FD_SECRET, FD_NET, -1};
static const int fds_pushed[] = {FD_CONTROL, FD_JOB, FD_OUT, -1};
static const int fds_words[] = {FD_CONTROL, FD_JOB, FD_OUT, -1};
static const int fds_forge_pull[] = {FD_CONTROL, FD_JOB,  FD_OUT, FD_SECRET,
				     FD_NET,	 FD_TEXT, -1};
static const int fds_edit[] = {FD_CONTROL, FD_JOB, FD_OUT, FD_CHANGES, FD_PATCH, -1};
static const int fds_test[] = {FD_CONTROL, FD_JOB,   FD_OUT,	FD_TREE,   FD_LOG, FD_FACTS,
			       FD_SPEC,	   FD_STDIN, FD_STDOUT, FD_STDERR, -1};
static const int fds_jail[] = {FD_FACTS,  FD_SPEC,   FD_GO,   FD_STDIN, FD_STDOUT,
			       FD_STDERR, FD_EGRESS, FD_TAKE, -1};
static const int fds_change[] = {FD_CONTROL, FD_JOB,  FD_OUT,	 FD_LOG,
				 FD_FACTS,   FD_SPEC, FD_EGRESS, -1};
static const int fds_mirror[] = {FD_CONTROL, FD_JOB, FD_SECRET, FD_NET, -1};
static const int fds_publish[] = {FD_CONTROL, FD_JOB, FD_OUT,	 FD_SECRET, FD_NET, FD_TREE,
				  FD_VERDICT, FD_LOG, FD_REMOTE, FD_SIGN,   -1};

/* ---- paths: "{key}" is filled from the job ---- */

static const struct stage_path paths_none[] = {{NULL, PATH_READ}};
static const struct stage_path paths_resolver[] = {{"/etc/resolv.conf", PATH_READ},
						   {"/etc/hosts", PATH_READ},
						   {"/etc/nsswitch.conf", PATH_READ},
						   {"/etc/gai.conf", PATH_READ},
						   {"/etc/host.conf", PATH_READ},
						   {"/run/systemd/resolve", PATH_READ},
						   {"/lib", PATH_READ},
						   {"/usr/lib", PATH_READ},
						   {"/lib64", PATH_READ},
						   {"/etc/ld.so.cache", PATH_READ},
						   {NULL, PATH_READ}};
static const struct stage_path paths_repo[] = {{"{repo}", PATH_READ},
					       {"{common}", PATH_READ},
					       {"{workdir}", PATH_READ},
					       {"{alternates}", PATH_READ},
					       {NULL, PATH_READ}};
static const struct stage_path paths_edit[] = {{"{repo}", PATH_READ},
					       {"{common}", PATH_READ},
					       {"{alternates}", PATH_READ},
					       {"{objects}", PATH_WRITE},
					       {NULL, PATH_READ}};
static const struct stage_path paths_try[] = {
    {"{repo}", PATH_READ}, {"{common}", PATH_READ},   {"{alternates}", PATH_READ},
    {"{dir}", PATH_READ},  {"{objects}", PATH_WRITE}, {NULL, PATH_READ}};
static const struct stage_path paths_model[] = {{"{repo}", PATH_READ},
						{"{common}", PATH_READ},
						{"{alternates}", PATH_READ},
						{"{ca}", PATH_READ},
						{NULL, PATH_READ}};
static const struct stage_path paths_fetch[] = {
    {"{repo}", PATH_READ},   {"{common}", PATH_READ},	{"{alternates}", PATH_READ},
    {"{store}", PATH_WRITE}, {"{scratch}", PATH_WRITE}, {NULL, PATH_READ}};
static const struct stage_path paths_layer[] = {
    {"{repo}", PATH_READ},  {"{common}", PATH_READ}, {"{alternates}", PATH_READ},
    {"{check}", PATH_READ}, {"{layer}", PATH_WRITE}, {NULL, PATH_READ}};
static const struct stage_path paths_test[] = {
    {"{repo}", PATH_READ},    {"{common}", PATH_READ},	 {"{alternates}", PATH_READ},
    {"{objects}", PATH_READ}, {"{scratch}", PATH_WRITE}, {NULL, PATH_READ}};
static const struct stage_path paths_change[] = {{"{repo}", PATH_READ},
						 {"{common}", PATH_READ},
						 {"{alternates}", PATH_READ},
						 {"{scratch}", PATH_WRITE},
						 {NULL, PATH_READ}};
static const struct stage_path paths_forge[] = {{"{ca}", PATH_READ}, {NULL, PATH_READ}};
static const struct stage_path paths_verify[] = {
    {"{repo}", PATH_READ},	{"{common}", PATH_READ},     {"{alternates}", PATH_READ},
    {"{scratch}", PATH_WRITE},	{"/usr", PATH_EXECUTE},	     {"/lib", PATH_EXECUTE},
    {"/lib64", PATH_EXECUTE},	{"/bin", PATH_EXECUTE},	     {"/etc/ld.so.cache", PATH_READ},
    {"/etc/passwd", PATH_READ}, {"/etc/group", PATH_READ},   {"/etc/nsswitch.conf", PATH_READ},
    {"/dev/null", PATH_WRITE},	{"/dev/urandom", PATH_READ}, {NULL, PATH_READ}};
static const struct stage_path paths_mirror[] = {{"{mirror}", PATH_WRITE},
						 {"{scratch}", PATH_WRITE},
						 {"{libexec}", PATH_EXECUTE},
						 {"/usr", PATH_EXECUTE},
						 {"/lib", PATH_EXECUTE},
						 {"/lib64", PATH_EXECUTE},
						 {"/bin", PATH_EXECUTE},
						 {"/etc/ld.so.cache", PATH_READ},
						 {"/etc/passwd", PATH_READ},
						 {"/etc/group", PATH_READ},
						 {"/etc/nsswitch.conf", PATH_READ},
						 {"/etc/ssl", PATH_READ},
						 {"/usr/share/ca-certificates", PATH_READ},
						 {"/etc/alternatives", PATH_READ},
						 {"{ca}", PATH_READ},
						 {"/dev/null", PATH_WRITE},
						 {"/dev/urandom", PATH_READ},
						 {NULL, PATH_READ}};
static const struct stage_path paths_publish[] = {{"{repo}", PATH_READ},
						  {"{common}", PATH_READ},
						  {"{alternates}", PATH_READ},
						  {"{objects}", PATH_WRITE},
						  {"{remote}", PATH_READ},
						  {"{scratch}", PATH_WRITE},
						  {"{libexec}", PATH_EXECUTE},
						  {"/usr", PATH_EXECUTE},
						  {"/lib", PATH_EXECUTE},
						  {"/lib64", PATH_EXECUTE},
						  {"/bin", PATH_EXECUTE},
						  {"/etc/ld.so.cache", PATH_READ},
						  {"/etc/passwd", PATH_READ},
						  {"/etc/group", PATH_READ},
						  {"/etc/nsswitch.conf", PATH_READ},
						  {"/etc/ssl", PATH_READ},
						  {"/usr/share/ca-certificates", PATH_READ},
						  {"/etc/alternatives", PATH_READ},
						  {"{ca}", PATH_READ},
						  {"/dev/null", PATH_WRITE},
						  {"/dev/urandom", PATH_READ},
						  {NULL, PATH_READ}};

/* ---- programs that a row may run ---- */

static const char *const no_children[] = {NULL};
static const char *const jail_only[] = {"agent-jail", NULL};
static const char *const publish_children[] = {
    "git", "ssh", "ssh-agent", "ssh-add", "ssh-keygen", "agent-publish", NULL};
static const char *const mirror_children[] = {"git",	 "ssh",		  "ssh-agent",
					      "ssh-add", "agent-publish", NULL};
static const char *const verify_children[] = {"ssh-keygen", NULL};
static const char *const untrusted[] = {"the untrusted command", "newuidmap", "newgidmap",
					"mke2fs", NULL};

/* ---- the table ---- */

static const struct stage_row rows[STAGE_COUNT] = {
    [STAGE_DIAL] = {.name = "agent-dial",
		    .program = "agent-dial",
		    .mode = NULL,
		    .does = "resolves and connects one host:port, pumps bytes to a socketpair",
		    .net = NET_HOST,
		    .net_what = "the one host:port of its job, or the operator's proxy to it",
		    .secret = SECRET_PROXY,
		    .filter = FILTER_PUMP,
		    .fds = fds_dial,
		    .paths = paths_resolver,
		    .env = env_plain,
		    .children = no_children,
		    .wall_s = 0,
		    .data_bytes_mib = 64,
		    .nofile = 256},
    [STAGE_BASE] = {.name = "agent-apply base",
		    .program = "agent-apply",
		    .mode = "base",
		    .does = "opens the repository: base commit, its configuration, manifests",
		    .net = NET_NONE,
		    .filter = FILTER_QUIET,
		    .reads_any_owner = true,
		    .fds = fds_base,
		    .paths = paths_repo,
		    .env = env_plain,
		    .children = no_children,
		    .wall_s = 60,
		    .data_bytes_mib = 2048,
		    .file_bytes_mib = 16,
		    .nofile = 256},
    [STAGE_STATUS] = {.name = "agent-apply status",
		      .program = "agent-apply",
		      .mode = "status",
		      .does = "says whether the work tree has uncommitted changes",
		      .net = NET_NONE,
		      .filter = FILTER_QUIET,
		      .reads_any_owner = true,
		      .fds = fds_status,
		      .paths = paths_repo,
		      .env = env_plain,
		      .children = no_children,
		      .wall_s = 120,
		      .data_bytes_mib = 2048,
		      .file_bytes_mib = 1,
		      .nofile = 256},
    [STAGE_LAYER] = {.name = "agent-layer",
		     .program = "agent-layer",
		     .mode = NULL,
		     .does = "writes a base layer, or its share of one; checks one",
		     .net = NET_NONE,
		     .filter = FILTER_QUIET,
		     .reads_any_owner = true,
		     .fds = fds_layer,
		     .paths = paths_layer,
		     .env = env_plain,
		     .children = no_children,
		     .wall_s = 3600,
		     .data_bytes_mib = 2048,
		     .file_bytes_mib = 4096,
		     .nofile = 1024},
    [STAGE_FETCH] = {.name = "agent-fetch warm",
		     .program = "agent-fetch",
		     .mode = "warm",
		     .does = "skeleton, warm, verify, seal a dependency layer",
		     .net = NET_NONE,
		     .filter = FILTER_QUIET,
		     .reads_any_owner = true,
		     .starts_jail = true,
		     .fds = fds_fetch,
		     .paths = paths_fetch,
		     .env = env_plain,
		     .children = jail_only,
		     .wall_s = 0,
		     .data_bytes_mib = 2048,
		     .file_bytes_mib = 4096,
		     .nofile = 1024},
    [STAGE_EGRESS] = {.name = "agent-egress",
		      .program = "agent-egress",
		      .mode = NULL,
		      .does = "allow-list CONNECT proxy for one warm",
		      .net = NET_HOST,
		      .net_what = "allow-listed registries",
		      .filter = FILTER_PUMP,
		      .fds = fds_egress,
		      .paths = paths_resolver,
		      .env = env_plain,
		      .children = no_children,
		      .wall_s = 0,
		      .data_bytes_mib = 256,
		      .file_bytes_mib = 16,
		      .nofile = 1024},
    [STAGE_MODEL] = {.name = "agent-model",
		     .program = "agent-model",
		     .mode = NULL,
		     .does = "one round of conversation; read-only tools over git objects",
		     .net = NET_DIAL,
		     .net_what = "provider host:port",
		     .secret = SECRET_MODEL_KEY,
		     .filter = FILTER_QUIET,
		     .reads_any_owner = true,
		     .fds = fds_model,
		     .paths = paths_model,
		     .env = env_plain,
		     .children = no_children,
		     .wall_s = 0,
		     .data_bytes_mib = 2048,
		     .file_bytes_mib = 256,
		     .nofile = 256},
    [STAGE_EDIT] =
	{.name = "agent-apply edit",
	 .program = "agent-apply",
	 .mode = "edit",
	 .does = "edits to a tree in the quarantine, canonical diff, path policy, messages",
	 .net = NET_NONE,
	 .filter = FILTER_QUIET,
	 .reads_any_owner = true,
	 .fds = fds_edit,
	 .paths = paths_edit,
	 .env = env_plain,
	 .children = no_children,
	 .wall_s = 120,
	 .data_bytes_mib = 2048,
	 .file_bytes_mib = 1024,
	 .nofile = 256},
    [STAGE_TRY] = {.name = "agent-apply try",
		   .program = "agent-apply",
		   .mode = "try",
		   .does = "`agent edit`: edits in a text, tried on a tree or a directory",
		   .net = NET_NONE,
		   .filter = FILTER_QUIET,
		   .reads_any_owner = true,
		   .fds = fds_edit,
		   .paths = paths_try,
		   .env = env_plain,
		   .children = no_children,
		   .wall_s = 120,
		   .data_bytes_mib = 2048,
		   .file_bytes_mib = 1024,
		   .nofile = 256},
    [STAGE_TEST] = {.name = "agent-test",
		    .program = "agent-test",
		    .mode = NULL,
		    .does = "lays out exactly that tree, starts the jail, collects its log",
		    .net = NET_NONE,
		    .filter = FILTER_QUIET,
		    .reads_any_owner = true,
		    .starts_jail = true,
		    .fds = fds_test,
		    .paths = paths_test,
		    .env = env_plain,
		    .children = jail_only,
		    .wall_s = 0,
		    .data_bytes_mib = 2048,
		    .file_bytes_mib = 4096,
		    .nofile = 1024},
    [STAGE_JAIL] =
	{.name = "agent-jail",
	 .program = "agent-jail",
	 .mode = NULL,
	 .does = "builds a jail and runs one command in it; sends exit facts to the supervisor",
	 .net = NET_JAIL,
	 .net_what = "none",
	 .filter = FILTER_JAIL,
	 .fds = fds_jail,
	 .paths = paths_none,
	 .env = env_plain,
	 .children = untrusted,
	 .wall_s = 0,
	 .nofile = 1024},
    [STAGE_PUBLISH] = {.name = "agent-publish",
		       .program = "agent-publish",
		       .mode = NULL,
		       .does = "checks tested tree = committed tree, commits, signs, pushes",
		       .net = NET_LOOPBACK,
		       .net_what = "one git host",
		       .secret = SECRET_PUSH,
		       .second = SECRET_SIGN,
		       .filter = FILTER_LAUNCHER,
		       .reads_any_owner = true,
		       .needs_user = true,
		       .fds = fds_publish,
		       .paths = paths_publish,
		       .env = env_publish,
		       .children = publish_children,
		       .wall_s = 0,
		       .data_bytes_mib = 4096,
		       .file_bytes_mib = 4096,
		       .nofile = 1024},
    [STAGE_VERIFY] = {.name = "agent-verify",
		      .program = "agent-verify",
		      .mode = NULL,
		      .does = "checks a commit's signature and attestation against the objects",
		      .net = NET_NONE,
		      .filter = FILTER_LAUNCHER,
		      .reads_any_owner = true,
		      .needs_user = true,
		      .fds = fds_base,
		      .paths = paths_verify,
		      .env = env_publish,
		      .children = verify_children,
		      .wall_s = 120,
		      .data_bytes_mib = 4096,
		      .file_bytes_mib = 64,
		      .nofile = 256},
    [STAGE_FORGE_ISSUE] = {.name = "agent-forge issue",
			   .program = "agent-forge",
			   .mode = "issue",
			   .does = "reads an issue and its comments from the forge",
			   .net = NET_DIAL,
			   .net_what = "the forge's API",
			   .secret = SECRET_FORGE_READ,
			   .filter = FILTER_QUIET,
			   .fds = fds_forge_issue,
			   .paths = paths_forge,
			   .env = env_plain,
			   .children = no_children,
			   .wall_s = 300,
			   .data_bytes_mib = 1024,
			   .file_bytes_mib = 16,
			   .nofile = 64},
    [STAGE_WORDS] = {.name = "agent-apply words",
		     .program = "agent-apply",
		     .mode = "words",
		     .does = "writes the pull request's text as finished bytes",
		     .net = NET_NONE,
		     .filter = FILTER_QUIET,
		     .fds = fds_words,
		     .paths = paths_none,
		     .env = env_plain,
		     .children = no_children,
		     .wall_s = 60,
		     .data_bytes_mib = 1024,
		     .file_bytes_mib = 16,
		     .nofile = 64},
    [STAGE_FORGE_PULL] = {.name = "agent-forge pull",
			  .program = "agent-forge",
			  .mode = "pull",
			  .does = "makes a pull request and a comment of finished bytes",
			  .net = NET_DIAL,
			  .net_what = "the forge's API",
			  .secret = SECRET_FORGE_WRITE,
			  .filter = FILTER_QUIET,
			  .fds = fds_forge_pull,
			  .paths = paths_forge,
			  .env = env_plain,
			  .children = no_children,
			  .wall_s = 300,
			  .data_bytes_mib = 1024,
			  .file_bytes_mib = 16,
			  .nofile = 64},
    [STAGE_PUSHED] = {.name = "agent-apply pushed",
		      .program = "agent-apply",
		      .mode = "pushed",
		      .does =
			  "`agent hook`: reads a pushed tip: its issue, what an agent changed",
		      .net = NET_NONE,
		      .filter = FILTER_QUIET,
		      .reads_any_owner = true,
		      .fds = fds_pushed,
		      .paths = paths_repo,
		      .env = env_plain,
		      .children = no_children,
		      .wall_s = 120,
		      .data_bytes_mib = 2048,
		      .file_bytes_mib = 64,
		      .nofile = 256},
    [STAGE_TASKS] =
	{.name = "agent-apply tasks",
	 .program = "agent-apply",
	 .mode = "tasks",
	 .does = "`agent maintain`: a repository's tasks, what they see, what was merged",
	 .net = NET_NONE,
	 .filter = FILTER_QUIET,
	 .reads_any_owner = true,
	 .fds = fds_base,
	 .paths = paths_repo,
	 .env = env_plain,
	 .children = no_children,
	 .wall_s = 120,
	 .data_bytes_mib = 2048,
	 .file_bytes_mib = 64,
	 .nofile = 256},
    [STAGE_MIRROR] = {.name = "agent-fetch mirror",
		      .program = "agent-fetch",
		      .mode = "mirror",
		      .does = "keeps a mirror of a remote repository",
		      .net = NET_LOOPBACK,
		      .net_what = "one git host",
		      .secret = SECRET_GIT_READ,
		      .filter = FILTER_LAUNCHER,
		      .needs_user = true,
		      .fds = fds_mirror,
		      .paths = paths_mirror,
		      .env = env_publish,
		      .children = mirror_children,
		      .wall_s = 0,
		      .data_bytes_mib = 4096,
		      .file_bytes_mib = 8192,
		      .nofile = 1024},
    [STAGE_CHANGE] = {.name = "agent-change",
		      .program = "agent-change",
		      .mode = NULL,
		      .does = "runs the operator's command on the base in a jail, takes what "
			      "it changed",
		      .net = NET_NONE,
		      .filter = FILTER_QUIET,
		      .reads_any_owner = true,
		      .starts_jail = true,
		      .fds = fds_change,
		      .paths = paths_change,
		      .env = env_plain,
		      .children = jail_only,
		      .wall_s = 0,
		      .data_bytes_mib = 2048,
		      .file_bytes_mib = 4096,
		      .nofile = 1024},
};

const struct stage_row *stage_row(enum stage_id id)
{
	return &rows[id];
}

enum stage_id stage_id_of(const struct stage_row *row)
{
	return (enum stage_id)(row - rows);
}

const struct stage_row *stage_find(const char *program, const char *mode)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(rows[i].program, program) != 0)
			continue;
		if (!rows[i].mode || (mode && strcmp(rows[i].mode, mode) == 0))
			return &rows[i];
	}
	return NULL;
}

const char *stage_net_text(enum stage_net net)
{
	switch (net) {
	case NET_NONE:
		return "none";
	case NET_DIAL:
		return "through agent-dial";
	case NET_LOOPBACK:
		return "own loopback, through agent-dial";
	case NET_HOST:
		return "host";
	case NET_JAIL:
		return "own empty namespace";
	}
	return "?";
}

const char *stage_secret_text(enum secret_id secret)
{
	switch (secret) {
	case SECRET_NONE:
		return "none";
	case SECRET_MODEL_KEY:
		return "model key";
	case SECRET_PUSH:
		return "push credential";
	case SECRET_SIGN:
		return "signing key";
	case SECRET_PROXY:
		return "proxy credential";
	case SECRET_GIT_READ:
		return "read credential";
	case SECRET_FORGE_READ:
		return "forge token (read)";
	case SECRET_FORGE_WRITE:
		return "forge token (write)";
	}
	return "?";
}

const char *stage_fd_text(int number)
{
	static const char *const names[FD_LAST + 1] = {[0] = "null",
						       [1] = "null",
						       [2] = "last words",
						       [FD_CONTROL] = "control",
						       [FD_JOB] = "job",
						       [FD_OUT] = "out",
						       [FD_SECRET] = "secret",
						       [FD_NET] = "net",
						       [FD_ISSUE] = "issue",
						       [FD_CHANGES] = "changes",
						       [FD_TALK] = "talk",
						       [FD_TREE] = "tree",
						       [FD_PATCH] = "patch",
						       [FD_LOG] = "log",
						       [FD_VERDICT] = "verdict",
						       [FD_FACTS] = "facts",
						       [FD_SPEC] = "spec",
						       [FD_GO] = "go",
						       [FD_STDIN] = "stdin",
						       [FD_STDOUT] = "stdout",
						       [FD_STDERR] = "stderr",
						       [FD_REMOTE] = "remote",
						       [FD_EGRESS] = "egress",
						       [FD_REPLAY] = "replay",
						       [FD_FACTS2] = "facts 2",
						       [FD_SPEC2] = "spec 2",
						       [FD_BOARD] = "board",
						       [FD_SIGN] = "signing key",
						       [FD_TEXT] = "text",
						       [FD_TAKE] = "take"};

	return number >= 0 && number <= FD_LAST && names[number] ? names[number] : "?";
}

static void print_row(struct strbuf *out, const struct stage_row *row)
{
	strbuf_addf(out, "| `%s` | %s | %s", row->name, row->does, stage_net_text(row->net));
	if (row->net_what && row->net != NET_JAIL)
		strbuf_addf(out, ": %s", row->net_what);
	strbuf_addf(out, " | %s", stage_secret_text(row->secret));
	if (row->second)
		strbuf_addf(out, ", %s", stage_secret_text(row->second));
	strbuf_adds(out, " |");
	for (const char *const *child = row->children; *child; child++)
		strbuf_addf(out, "%s %s", child == row->children ? "" : ",", *child);
	strbuf_adds(out, row->children[0] ? " |\n" : " nothing |\n");
}

void stage_print_table(struct strbuf *out)
{
	strbuf_adds(out,
		    "| row | does | network | secret | may run |\n|---|---|---|---|---|\n");
	strbuf_adds(
	    out,
	    "| `agent` | command line, supervisor, budget ledger | none | passes on, does not "
	    "look | the rows below; `git receive-pack` for a local remote; the hook that "
	    "`agent hook` found in a repository; `busctl`, once, for a control group |\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		print_row(out, &rows[i]);
}
