/* EDIT_PATCH of a binary file: git's own patches, which hold its new bytes, or a delta from exactly the old
 * ones. Nothing is searched for: both files are named by their ids. See gitops/edit.h. */
#include "edit_internal.h"

#include <string.h>

#include "gitops/binpatch.h"
#include "gitops/repo.h"

#define ID_DIGITS ((size_t)GITOPS_OID_SIZE - 1)

static bool is_whole_id(const char *digits)
{
	return digits && strlen(digits) == ID_DIGITS;
}

/* What the file is now is in job->data, but for one that is to be made. */
static int check_old(struct edit_job *job)
{
	const struct edit *edit = job->edit;
	char oid[GITOPS_OID_SIZE];

	if (edit->create)
		return 0;
	repo_hash_blob(job->data.data, job->data.len, oid);
	if (strcmp(oid, edit->old_id) == 0)
		return 0;
	if (strcmp(oid, edit->new_id) == 0)
		return edit_decide(job, EDIT_ALREADY_APPLIED,
				   "'%s' has exactly the new bytes already: nothing to do",
				   job->path);
	return edit_decide(job, EDIT_NO_MATCH,
			   "'%s' is blob %.12s, and the binary patch is one of blob %.12s: a "
			   "binary file is not searched for places; make the patch anew",
			   job->path, oid, edit->old_id);
}

int edit_binary_bytes(struct edit_job *job, struct strbuf *out)
{
	const struct edit *edit = job->edit;
	size_t most = view_get_limits(job->view)->file_bytes;
	char oid[GITOPS_OID_SIZE];
	bool made;

	if (!edit->text)
		return edit_decide(job, EDIT_BINARY,
				   "the patch says that '%s' is binary and does not hold its "
				   "bytes; git diff --binary writes them",
				   job->path);
	if (!is_whole_id(edit->new_id) || !is_whole_id(edit->old_id))
		return edit_decide(job, EDIT_BINARY,
				   "the binary patch of '%s' does not name both files by whole "
				   "ids; git diff --binary writes them (index OLD..NEW)",
				   job->path);
	int rc = check_old(job);
	if (rc < 0 || job->result->code)
		return rc;
	made = edit->delta
		   ? binpatch_delta(job->data.data, job->data.len, edit->text, edit->text_len,
				    most, out)
		   : edit->text_len <= most && strbuf_add(out, edit->text, edit->text_len) == 0;
	if (!made)
		return edit_decide(
		    job, EDIT_MALFORMED,
		    "the binary patch of '%s' is damaged, or makes more than %zu "
		    "bytes",
		    job->path, most);
	repo_hash_blob(out->data, out->len, oid);
	if (edit->remove ? out->len != 0 : strcmp(oid, edit->new_id) != 0)
		return edit_decide(job, EDIT_MALFORMED,
				   "the binary patch of '%s' makes blob %.12s, not %.12s as it "
				   "says: it is damaged",
				   job->path, oid, edit->new_id);
	job->result->places = 1;
	return 0;
}
