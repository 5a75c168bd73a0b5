/* The invariants of the stage table (DESIGN section 3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/fds.h"
#include "pipeline/stages.h"

#define EACH_ROW(row)                                                                          \
	for (const struct stage_row *row = stage_row((enum stage_id)0);                        \
	     row < stage_row((enum stage_id)0) + STAGE_COUNT; row++)

static bool has_fd(const struct stage_row *row, int fd)
{
	for (const int *p = row->fds; *p >= 0; p++)
		if (*p == fd)
			return true;
	return false;
}

static bool has_secret(const struct stage_row *row)
{
	return row->secret != SECRET_NONE;
}

static bool reaches_out(const struct stage_row *row)
{
	return row->net == NET_DIAL || row->net == NET_LOOPBACK || row->net == NET_HOST;
}

static bool runs_untrusted(const struct stage_row *row)
{
	return row->starts_jail || row->filter == FILTER_JAIL;
}

static void every_row_is_filled_in(void **state)
{
	(void)state;
	EACH_ROW(row)
	{
		assert_non_null(row->name);
		assert_non_null(row->program);
		assert_non_null(row->does);
		assert_non_null(row->fds);
		assert_non_null(row->paths);
		assert_non_null(row->env);
		assert_non_null(row->children);
		assert_int_equal(strncmp(row->name, row->program, strlen(row->program)), 0);
		assert_int_equal(strncmp(row->program, "agent-", 6), 0);
		if (reaches_out(row))
			assert_non_null(row->net_what);
	}
}

static void each_secret_belongs_to_one_row(void **state)
{
	size_t owners[SECRET_FORGE_WRITE + 1] = {0};

	(void)state;
	EACH_ROW(row)
	{
		owners[row->secret]++;
		owners[row->second]++;
	}
	for (size_t i = SECRET_NONE + 1; i < ARRAY_LEN(owners); i++)
		assert_int_equal(owners[i], 1);
}

static void secret_descriptors_go_with_secrets(void **state)
{
	(void)state;
	EACH_ROW(row)
	{
		assert_true(has_fd(row, FD_SECRET) == (row->secret != SECRET_NONE));
		assert_true(has_fd(row, FD_SIGN) == (row->second != SECRET_NONE));
		assert_true(row->secret || !row->second);
	}
}

static void no_row_has_a_secret_and_untrusted_code(void **state)
{
	(void)state;
	EACH_ROW(row)
	{
		assert_false(has_secret(row) && runs_untrusted(row));
	}
}

static void untrusted_code_is_in_the_jail_alone(void **state)
{
	(void)state;
	EACH_ROW(row)
	{
		bool is_jail = row == stage_row(STAGE_JAIL);

		assert_true((row->filter == FILTER_JAIL) == is_jail);
		assert_true((row->net == NET_JAIL) == is_jail);
		for (const char *const *child = row->children; *child; child++)
			assert_true(is_jail || strcmp(*child, "the untrusted command") != 0);
		/* its child's facts and spec go past the starter */
		assert_true(row->starts_jail == (has_fd(row, FD_SPEC) && !is_jail));
		assert_true(!has_fd(row, FD_FACTS) || has_fd(row, FD_SPEC));
	}
}

static void no_row_writes_the_repository(void **state)
{
	static const char *const of_the_user[] = {"{repo}", "{common}", "{workdir}",
						  "{alternates}"};

	(void)state;
	EACH_ROW(row)
	{
		for (const struct stage_path *path = row->paths; path->name; path++)
			for (size_t i = 0; i < ARRAY_LEN(of_the_user); i++)
				if (strcmp(path->name, of_the_user[i]) == 0)
					assert_int_equal(path->use, PATH_READ);
	}
}

static void the_jail_row_has_no_network_and_no_secret(void **state)
{
	const struct stage_row *jail = stage_row(STAGE_JAIL);

	(void)state;
	assert_false(has_secret(jail));
	assert_false(reaches_out(jail));
	assert_false(has_fd(jail, FD_NET));
	assert_false(has_fd(jail, FD_CONTROL));
	assert_false(has_fd(jail, FD_JOB));
	assert_null(jail->paths[0].name);
}

static void network_goes_with_filter_and_descriptor(void **state)
{
	(void)state;
	EACH_ROW(row)
	{
		bool asks = row->net == NET_DIAL || row->net == NET_LOOPBACK;

		/* agent-dial has the other end of it */
		assert_true(has_fd(row, FD_NET) == (asks || row == stage_row(STAGE_DIAL)));
		if (row->net == NET_DIAL)
			assert_int_equal(row->filter, FILTER_QUIET);
		/* what has no network makes no sockets, unless the programs that it runs might */
		if (row->net == NET_NONE)
			assert_true(row->filter == FILTER_QUIET ||
				    row->filter == FILTER_LAUNCHER);
		assert_true((row->net == NET_HOST) == (row->filter == FILTER_PUMP));
		/* what runs programs has a network of its own, with or without its loopback */
		assert_true(row->net != NET_LOOPBACK || row->filter == FILTER_LAUNCHER);
		assert_true(row->filter != FILTER_LAUNCHER || row->net == NET_LOOPBACK ||
			    row->net == NET_NONE);
	}
}

static void host_network_reads_the_resolver_alone(void **state)
{
	(void)state;
	EACH_ROW(row)
	{
		if (row->net != NET_HOST)
			continue;
		assert_false(row->reads_any_owner);
		for (const struct stage_path *path = row->paths; path->name; path++) {
			assert_int_equal(path->use, PATH_READ);
			assert_int_equal(path->name[0], '/');
		}
	}
}

static void execution_is_the_launchers_alone(void **state)
{
	(void)state;
	EACH_ROW(row)
	{
		for (const struct stage_path *path = row->paths; path->name; path++)
			if (path->use == PATH_EXECUTE)
				assert_int_equal(row->filter, FILTER_LAUNCHER);
		if (row->filter == FILTER_QUIET || row->filter == FILTER_PUMP)
			assert_true(!row->children[0] ||
				    (row->starts_jail &&
				     strcmp(row->children[0], "agent-jail") == 0 &&
				     !row->children[1]));
	}
}

static void descriptors_are_known_and_once(void **state)
{
	(void)state;
	EACH_ROW(row)
	{
		bool seen[FD_LAST + 1] = {false};

		for (const int *p = row->fds; *p >= 0; p++) {
			assert_true(*p > 2 && *p <= FD_LAST);
			assert_false(seen[*p]);
			seen[*p] = true;
		}
		if (row != stage_row(STAGE_JAIL)) {
			assert_true(seen[FD_CONTROL]);
			assert_true(seen[FD_JOB]);
		}
	}
}

static void environments_are_short_and_harmless(void **state)
{
	static const char *const allowed[] = {"LANG", "TZ", "PATH", "HOME"};

	(void)state;
	EACH_ROW(row)
	{
		for (const struct stage_env *env = row->env; env->name; env++) {
			size_t known = 0;

			for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
				known += strcmp(env->name, allowed[i]) == 0;
			assert_int_equal(known, 1);
			assert_non_null(env->value);
			for (const struct stage_env *other = row->env; other != env; other++)
				assert_string_not_equal(other->name, env->name);
		}
	}
}

static void paths_are_absolute_or_of_the_job(void **state)
{
	(void)state;
	EACH_ROW(row)
	{
		for (const struct stage_path *path = row->paths; path->name; path++) {
			size_t len = strlen(path->name);

			assert_true(len > 1);
			assert_true(path->name[0] == '/' ||
				    (path->name[0] == '{' && path->name[len - 1] == '}'));
			assert_null(strstr(path->name, ".."));
		}
	}
}

static void limits_are_sane(void **state)
{
	(void)state;
	EACH_ROW(row)
	{
		assert_in_range(row->nofile, 64, 4096);
		assert_true(row->wall_s <= 3600);
		if (row == stage_row(STAGE_JAIL))
			continue; /* its payload's limits are its spec's */
		assert_in_range(row->data_bytes_mib, 32, 8192);
		assert_true(row->file_bytes_mib <= 8192);
	}
}

static void find_gives_each_row_by_its_words(void **state)
{
	(void)state;
	EACH_ROW(row)
	{
		assert_ptr_equal(stage_find(row->program, row->mode), row);
		assert_ptr_equal(stage_row(stage_id_of(row)), row);
		EACH_ROW(other)
		{
			if (other != row)
				assert_string_not_equal(other->name, row->name);
		}
	}
	assert_null(stage_find("agent", NULL));
	assert_null(stage_find("agent-apply", NULL));
	assert_null(stage_find("agent-apply", "push"));
	assert_null(stage_find("", NULL));
}

static void uids_are_within_the_range(void **state)
{
	(void)state;
	/* positive as a 32-bit number, and payloads (base + 4096 + pid, pid below 2^22) too */
	assert_true(STAGE_UID_BASE > 65535u + 65536u);
	assert_true(STAGE_UID_BASE + 4096u + (1u << 22) < 0x7fffffffu);
	assert_true(STAGE_COUNT < 4096);
}

static void table_has_a_line_a_row(void **state)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	size_t lines = 0;

	(void)state;
	strbuf_init(&out, STRBUF_MAX);
	stage_print_table(&out);
	for (size_t i = 0; i < out.len; i++)
		lines += out.data[i] == '\n';
	assert_int_equal(lines, STAGE_COUNT + 3);
	EACH_ROW(row)
	{
		char *cell AUTO_FREE = mem_printf("| `%s` |", row->name);

		assert_non_null(strstr(out.data, cell));
	}
	assert_null(strchr(out.data, '?'));
}

/* agent audit names them. */
static void each_descriptor_of_a_row_has_a_name(void **state)
{
	(void)state;
	for (int id = 0; id < STAGE_COUNT; id++)
		for (const int *fd = stage_row((enum stage_id)id)->fds; *fd >= 0; fd++)
			assert_string_not_equal(stage_fd_text(*fd), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_descriptor_of_a_row_has_a_name),
	    cmocka_unit_test(every_row_is_filled_in),
	    cmocka_unit_test(each_secret_belongs_to_one_row),
	    cmocka_unit_test(secret_descriptors_go_with_secrets),
	    cmocka_unit_test(no_row_has_a_secret_and_untrusted_code),
	    cmocka_unit_test(untrusted_code_is_in_the_jail_alone),
	    cmocka_unit_test(no_row_writes_the_repository),
	    cmocka_unit_test(the_jail_row_has_no_network_and_no_secret),
	    cmocka_unit_test(network_goes_with_filter_and_descriptor),
	    cmocka_unit_test(host_network_reads_the_resolver_alone),
	    cmocka_unit_test(execution_is_the_launchers_alone),
	    cmocka_unit_test(descriptors_are_known_and_once),
	    cmocka_unit_test(environments_are_short_and_harmless),
	    cmocka_unit_test(paths_are_absolute_or_of_the_job),
	    cmocka_unit_test(limits_are_sane),
	    cmocka_unit_test(find_gives_each_row_by_its_words),
	    cmocka_unit_test(uids_are_within_the_range),
	    cmocka_unit_test(table_has_a_line_a_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
