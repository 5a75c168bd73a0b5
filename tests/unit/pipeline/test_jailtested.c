/* What is remembered of a jail's self-test: only of the same program, boot and kind of jail, only by ourselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/jailtested.h"
#include "sandbox/jail_spec.h"

#define BOOT "5d6c1c4e-0000-4000-8000-000000000001\n"

struct place {
	char state[64];
	char *file, *program;
	struct jail_spec spec;
};

static void put(const char *path, const char *text, int flags)
{
	int fd AUTO_FD = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void place_init(struct place *p)
{
	strcpy(p->state, "/tmp/jailtested-XXXXXX");
	assert_non_null(mkdtemp(p->state));
	p->file = mem_printf("%s/selftest", p->state);
	p->program = mem_printf("%s/agent-jail", p->state);
	put(p->program, "the program", O_TRUNC);
	jail_spec_init(&p->spec);
	jail_spec_add_arg(&p->spec, "true");
	jail_spec_add_mount(&p->spec, JAIL_BIND_RO, false, "/usr", "/usr");
}

static void place_release(struct place *p)
{
	jail_spec_release(&p->spec);
	fd_remove_tree(AT_FDCWD, p->state);
	free(p->file);
	free(p->program);
}

static bool is_known(struct place *p, const char *boot, struct jailtested *tested)
{
	jailtested_look_at(p->state, boot, p->program, &p->spec, tested);
	return p->spec.tested;
}

/* A jail that ended so, with these layers. Whether it is known then. */
static bool known_after(struct place *p, enum jail_outcome outcome, const char *layers)
{
	struct jail_facts facts = {.outcome = outcome};
	struct jailtested tested;

	snprintf(facts.layers, sizeof(facts.layers), "%s", layers);
	is_known(p, BOOT, &tested);
	jailtested_keep(p->state, &tested, &facts);
	return is_known(p, BOOT, &tested);
}

static void jailtested_same_again_known(void **state)
{
	struct jailtested tested;
	struct place p;

	(void)state;
	place_init(&p);
	assert_false(is_known(&p, BOOT, &tested));
	assert_int_equal(strlen(tested.key), 64);
	assert_true(known_after(&p, JAIL_EXITED, "userns seccomp selftest"));
	/* another command, another limit: the same kind of jail */
	jail_spec_add_arg(&p.spec, "more");
	jail_spec_add_env(&p.spec, "A", "b");
	p.spec.limits.wall_ms = 1;
	assert_true(is_known(&p, BOOT, &tested));
	place_release(&p);
}

static void jailtested_not_held_not_remembered(void **state)
{
	struct place p;

	(void)state;
	place_init(&p);
	assert_false(known_after(&p, JAIL_SETUP, "userns seccomp selftest"));
	assert_false(known_after(&p, JAIL_INTERNAL, "userns seccomp selftest"));
	assert_false(known_after(&p, JAIL_EXITED, "userns seccomp"));
	assert_true(known_after(&p, JAIL_TIMEOUT, "userns seccomp selftest"));
	place_release(&p);
}

static void jailtested_other_boot_program_kind_unknown(void **state)
{
	struct jailtested tested;
	struct place p;

	(void)state;
	place_init(&p);
	assert_true(known_after(&p, JAIL_EXITED, "selftest"));
	assert_false(is_known(&p, "5d6c1c4e-0000-4000-8000-000000000002\n", &tested));
	assert_false(is_known(&p, "", &tested));
	assert_int_equal(tested.key[0], '\0');
	p.spec.observe = false;
	assert_false(is_known(&p, BOOT, &tested));
	p.spec.observe = true;
	p.spec.limits.degraded_ok = true;
	assert_false(is_known(&p, BOOT, &tested));
	p.spec.limits.degraded_ok = false;
	p.spec.egress = true;
	assert_false(is_known(&p, BOOT, &tested));
	p.spec.egress = false;
	p.spec.backend = JAIL_GVISOR;
	assert_false(is_known(&p, BOOT, &tested));
	assert_int_equal(tested.key[0], '\0');
	p.spec.backend = JAIL_NATIVE;
	assert_true(is_known(&p, BOOT, &tested));
	jail_spec_add_mount(&p.spec, JAIL_BIND_RO, false, "/opt", "/opt");
	assert_false(is_known(&p, BOOT, &tested));
	place_release(&p);
}

static void jailtested_changed_program_unknown(void **state)
{
	struct jailtested tested;
	struct place p;

	(void)state;
	place_init(&p);
	assert_true(known_after(&p, JAIL_EXITED, "selftest"));
	put(p.program, "The program", O_TRUNC); /* of the same size */
	assert_false(is_known(&p, BOOT, &tested));
	unlink(p.program);
	assert_false(is_known(&p, BOOT, &tested));
	assert_int_equal(tested.key[0], '\0');
	place_release(&p);
}

/* Its own key, but not in a file that only we can write. */
static void jailtested_forged_file_not_believed(void **state)
{
	char *other AUTO_FREE = NULL;
	struct jailtested tested;
	struct place p;

	(void)state;
	place_init(&p);
	other = mem_printf("%s/other", p.state);
	assert_true(known_after(&p, JAIL_EXITED, "selftest"));
	assert_int_equal(chmod(p.file, 0620), 0);
	assert_false(is_known(&p, BOOT, &tested));
	assert_int_equal(chmod(p.file, 0602), 0);
	assert_false(is_known(&p, BOOT, &tested));
	assert_int_equal(chmod(p.file, 0600), 0);
	assert_true(is_known(&p, BOOT, &tested));
	assert_int_equal(link(p.file, other), 0);
	assert_false(is_known(&p, BOOT, &tested));
	assert_int_equal(unlink(p.file), 0);
	assert_int_equal(symlink("other", p.file), 0);
	assert_false(is_known(&p, BOOT, &tested));
	assert_int_equal(unlink(p.file), 0);
	assert_int_equal(mkfifo(p.file, 0600), 0);
	assert_false(is_known(&p, BOOT, &tested));
	assert_int_equal(rename(other, p.file), 0);
	assert_true(is_known(&p, BOOT, &tested));
	assert_int_equal(chmod(p.state, 0770), 0);
	assert_false(is_known(&p, BOOT, &tested));
	assert_int_equal(chmod(p.state, 0700), 0);
	put(p.file, "cut", O_APPEND);
	assert_false(is_known(&p, BOOT, &tested));
	place_release(&p);
}

static void jailtested_foreign_owner_not_believed(void **state)
{
	struct jailtested tested;
	struct place p;

	(void)state;
	if (geteuid() != 0)
		skip(); /* only root can give files away */
	place_init(&p);
	assert_true(known_after(&p, JAIL_EXITED, "selftest"));
	assert_int_equal(chown(p.file, 1, 1), 0);
	assert_false(is_known(&p, BOOT, &tested));
	/* and is replaced, not written to */
	assert_true(known_after(&p, JAIL_EXITED, "selftest"));
	assert_int_equal(chown(p.state, 1, 1), 0);
	assert_false(known_after(&p, JAIL_EXITED, "selftest"));
	place_release(&p);
}

static void jailtested_many_kinds_oldest_pushed_out(void **state)
{
	struct jailtested tested;
	struct place p;
	struct stat st;

	(void)state;
	place_init(&p);
	for (int i = 0; i < 40; i++) {
		char target[16];

		assert_true(known_after(&p, JAIL_EXITED, "selftest"));
		snprintf(target, sizeof(target), "/m%d", i);
		jail_spec_add_mount(&p.spec, JAIL_BIND_RO, true, "/opt", target);
	}
	assert_int_equal(stat(p.file, &st), 0);
	assert_int_equal(st.st_size, 32 * 65);
	assert_int_equal(st.st_mode & 07777, 0600);
	while (p.spec.mount_count > 1) {
		p.spec.mount_count--;
		free(p.spec.mounts[p.spec.mount_count].source);
		free(p.spec.mounts[p.spec.mount_count].target);
		assert_int_equal(is_known(&p, BOOT, &tested), p.spec.mount_count > 8);
	}
	place_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(jailtested_same_again_known),
	    cmocka_unit_test(jailtested_not_held_not_remembered),
	    cmocka_unit_test(jailtested_other_boot_program_kind_unknown),
	    cmocka_unit_test(jailtested_changed_program_unknown),
	    cmocka_unit_test(jailtested_forged_file_not_believed),
	    cmocka_unit_test(jailtested_foreign_owner_not_believed),
	    cmocka_unit_test(jailtested_many_kinds_oldest_pushed_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
