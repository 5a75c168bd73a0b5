/*
 * Edits in a text tried on a tree or a directory: what `agent edit` shows, and what it writes
 * when it is told to. The text and the files are hostile.
 */
#ifndef GITOPS_TRIAL_H
#define GITOPS_TRIAL_H

struct error;
struct json;
struct strbuf;

/*
 * job: {"paths":{"repo","common"?,"alternates"?,"objects","dir"?},"tree":OID? (none: the
 * directory),"format","limits":{"files","bytes"},"policy":{...} (gitops/policy.h),
 * "index":true? (bring it into a copy of the index, "index" in objects)}. Reads at most what
 * text holds.
 *
 * *out, new: {"kind":"trial","version":1,"outcome":CODE,"format","line"?,"message"? (of a text
 * that is refused as a whole),"edits":[{"path","op","code","message","line"}],"tree"?,
 * "policy"?,"files":[{"path","mode"? (none: removed),"content"|"content_base64","old"?:sha256,
 * "old_mode"?}]}. patch gets the canonical diff. 0 whenever the text was decided; ERROR_NO when
 * the policy refuses the change; else as view_new.
 */
int trial_run(const struct json *job, const char *text, unsigned long len, struct strbuf *patch,
	      struct json **out, struct error *err);

#endif
