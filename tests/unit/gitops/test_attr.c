/* gitattributes that decide bytes; git itself is the oracle for whole checkouts. */
#include "fixture.h"

#include "gitops/attr.h"
#include "gitops/checkout.h"

static void decide(const char *root, const char *sub, const char *path,
		   struct attr_facts *facts)
{
	struct attr_stack *stack = attr_stack_new();

	attr_push(stack, "", root, strlen(root));
	if (sub)
		attr_push(stack, "sub", sub, strlen(sub));
	attr_decide(stack, path, facts);
	attr_stack_free(stack);
}

static void rules_apply_in_order(void **state)
{
	struct attr_facts facts;

	(void)state;
	decide("* text=auto\n*.txt eol=crlf\n*.bin binary\n", NULL, "a.txt", &facts);
	assert_int_equal(facts.text, ATTR_TEXT_AUTO);
	assert_int_equal(facts.eol, ATTR_EOL_CRLF);
	decide("* text=auto eol=crlf\n*.bin binary\n", NULL, "a.bin", &facts);
	assert_int_equal(facts.text, ATTR_TEXT_UNSET);
	decide("*.txt eol=crlf\n", "*.txt eol=lf ident\n", "sub/a.txt", &facts);
	assert_int_equal(facts.eol, ATTR_EOL_LF);
	assert_true(facts.ident);
	decide("*.txt text\n*.txt !text\n", NULL, "a.txt", &facts);
	assert_int_equal(facts.text, ATTR_TEXT_UNSPECIFIED);
	decide("*.psd filter=lfs diff=lfs -text\n", NULL, "d/x.psd", &facts);
	assert_string_equal(facts.filter, "lfs");
	decide("[attr]img -text filter=pic\n*.png img\n", NULL, "x.png", &facts);
	assert_string_equal(facts.filter, "pic");
	assert_int_equal(facts.text, ATTR_TEXT_UNSET);
	decide("\"a b\\\".txt\" eol=crlf\n# c eol=lf\n!x eol=crlf\nd/ eol=crlf\n", NULL,
	       "a b\".txt", &facts);
	assert_int_equal(facts.eol, ATTR_EOL_CRLF);
	decide("/x eol=crlf\n", NULL, "d/x", &facts);
	assert_int_equal(facts.eol, ATTR_EOL_UNSPECIFIED);
	decide("* working-tree-encoding=UTF-16\n* -filter\n", NULL, "d/x", &facts);
	assert_string_equal(facts.encoding, "UTF-16");
}

static void of_view_reads_what_the_change_says(void **state)
{
	struct fixture f;
	struct attr_facts facts;
	char tree[GITOPS_OID_SIZE];

	(void)state;
	fixture_init(&f);
	fixture_tree(&f, tree, ".gitattributes", "*.x filter=lfs\n", "d/e/f.x", "1", NULL);
	AUTO_VIEW struct view *view = view_new(f.repo, tree, NULL, &f.err);
	assert_int_equal(attr_of_view(view, "d/e/f.x", &facts, &f.err), 0);
	assert_string_equal(facts.filter, "lfs");
	struct edit edit = {.op = EDIT_WRITE,
			    .path = (char *)(uintptr_t) "d/e/f.x",
			    .text = (char *)(uintptr_t) "2",
			    .text_len = 1};
	struct edit_result result;
	assert_int_equal(edit_apply(view, &edit, &result, &f.err), 0);
	assert_int_equal(result.code, EDIT_MODE);
	assert_int_equal(
	    view_put(view, "d/.gitattributes", VIEW_FILE, "*.x -filter\n", 12, &f.err), 0);
	assert_int_equal(attr_of_view(view, "d/e/f.x", &facts, &f.err), 0);
	assert_string_equal(facts.filter, "");
	view_free(MEM_STEAL(view));
	fixture_release(&f);
}

/* Checks the tree out by us and by git, and compares every byte. */
static void checkout_writes_the_bytes_that_git_writes(void **state)
{
	struct fixture f;
	char tree[GITOPS_OID_SIZE];

	(void)state;
	fixture_init(&f);
	fixture_tree(
	    &f, tree, ".gitattributes",
	    "*.auto text=auto eol=crlf\n*.crlf text eol=crlf\n*.lf text eol=lf\n*.text "
	    "text\n*.bin -text eol=crlf\n"
	    "*.id ident\n*.16 working-tree-encoding=UTF-16LE\n*.bom "
	    "working-tree-encoding=UTF-16LE-BOM\n*.old crlf\n*.only eol=crlf\n*.un -crlf\n"
	    "*.both ident text eol=crlf\n",
	    "sub/.gitattributes", "*.lf eol=crlf\n/deep/*.text eol=crlf\n", "a.auto",
	    "one\ntwo\n", "mixed.auto", "one\r\ntwo\n", "cr.auto", "one\rtwo\n", "ctl.auto",
	    "one\001\002\003two\n", "b.crlf", "one\r\ntwo\n\nx", "c.lf", "one\r\ntwo\n",
	    "d.text", "a\nb\n", "e.bin", "a\nb\n", "f.id",
	    "$Id$ $Id: old $ $Id: a b c $ $Id: x\n$ $Identity$ $Id: $\n", "g.16", "h\303\251\n",
	    "h.bom", "h\303\251\n", "i.old", "a\nb\n", "j.only", "a\nb\n", "k.un", "a\nb\n",
	    "l.both", "$Id$\nx\n", "sub/c.lf", "a\nb\n", "sub/deep/x.text", "a\nb\n",
	    "sub/x.text", "a\nb\n", "empty.crlf", "", NULL);
	/* git sees the objects through alternates; commit the tree and check it out */
	AUTO_FREE char *alternates = mem_printf("%s/objects/info/alternates", f.gitdir);
	AUTO_FREE char *line = mem_printf("%s\n", f.objects);
	int fd = open(alternates, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(fd_write_all(fd, line, strlen(line)), 0);
	close(fd);
	AUTO_FREE char *git_dir = mem_printf("%s/git", f.dir),
		       *our_dir = mem_printf("%s/ours", f.dir);
	assert_int_equal(mkdir(git_dir, 0700), 0);
	assert_int_equal(mkdir(our_dir, 0700), 0);
	AUTO_FREE char *work = mem_printf("--work-tree=%s", git_dir);
	free(GIT(&f, NULL, "-c", "core.bare=false", work, "read-tree", tree));
	free(GIT(&f, NULL, "-c", "core.bare=false", work, "checkout-index", "-a", "-f"));
	int dir = open(our_dir, O_RDONLY | O_DIRECTORY);
	struct checkout checkout = {.repo = f.repo, .mtime = {1000, 0}};
	if (checkout_write(&checkout, NULL, tree, dir, &f.err) < 0)
		fail_msg("%s", f.err.message);
	assert_int_equal(checkout.stats.encodings_kept, 0);
	close(dir);
	free(
	    run_program(f.dir, (const char *const[]){"diff", "-r", "git", "ours", NULL}, NULL));
	fixture_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rules_apply_in_order),
	    cmocka_unit_test(of_view_reads_what_the_change_says),
	    cmocka_unit_test(checkout_writes_the_bytes_that_git_writes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
