/* The filter that the payload gets, run in an interpreter of classic BPF for every call and the
 * arguments that matter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "sandbox/jail_answers.h"

#include "jail_filter.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

#define REFUSED(number) (SECCOMP_RET_ERRNO | (uint32_t)(number))

/* Whether the last run looked at more than the number and the architecture. */
static bool looked_further;

/* The part of BPF that the filters use; anything else, or a jump out of the program, is a
 * failure. */
static uint32_t run(const struct sock_filter *code, size_t len, const struct seccomp_data *data)
{
	uint32_t a = 0;

	looked_further = false;
	for (size_t at = 0; at < len; at++) {
		const struct sock_filter *op = &code[at];

		switch (op->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert_true(op->k % 4 == 0 && op->k + 4 <= sizeof(*data));
			memcpy(&a, (const char *)data + op->k, 4);
			if (op->k != offsetof(struct seccomp_data, nr) &&
			    op->k != offsetof(struct seccomp_data, arch))
				looked_further = true;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			at += a == op->k ? op->jt : op->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			at += a >= op->k ? op->jt : op->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			at += a & op->k ? op->jt : op->jf;
			break;
		case BPF_JMP | BPF_JA:
			at += op->k;
			break;
		case BPF_RET | BPF_K:
			return op->k;
		default:
			fail_msg("instruction %zu is 0x%x", at, op->code);
		}
	}
	fail_msg("ran out of the program");
	return 0;
}

static uint32_t call(long number, uint64_t a0, uint64_t a1, uint64_t a2)
{
	struct seccomp_data data = {
	    .nr = (int)number, .arch = NATIVE, .args = {a0, a1, a2, a2}};

	return run(jail_payload_filter, ARRAY_LEN(jail_payload_filter), &data);
}

static void foreign_abis_are_refused(void **state)
{
	const uint32_t archs[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_MIPS, 0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
		for (int number = 0; number < 500; number++) {
			struct seccomp_data data = {.nr = number, .arch = archs[i]};

			assert_int_equal(
			    run(jail_payload_filter, ARRAY_LEN(jail_payload_filter), &data),
			    SECCOMP_RET_KILL_PROCESS);
		}
	}
	for (uint32_t number = 0; number < 600; number++)
		assert_int_equal(call((int)(0x40000000U | number), 0, 0, 0), REFUSED(ENOSYS));
	assert_int_equal(call(-1, 0, 0, 0), REFUSED(ENOSYS));
}

static void unknown_calls_do_not_exist(void **state)
{
	(void)state;
	for (int number = 463; number < 3000; number++)
		assert_int_equal(call(number, 0, 0, 0), REFUSED(ENOSYS));
}

static void dangerous_calls_are_refused(void **state)
{
	static const long gone[] = {
	    SYS_clone3,	 SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
	    SYS_add_key, SYS_request_key,    SYS_keyctl};
	static const long refused[] = {SYS_mount,
				       SYS_umount2,
				       SYS_pivot_root,
				       SYS_chroot,
				       SYS_open_tree,
				       SYS_move_mount,
				       SYS_fsopen,
				       SYS_fsconfig,
				       SYS_fsmount,
				       SYS_fspick,
				       SYS_mount_setattr,
				       SYS_setns,
				       SYS_bpf,
				       SYS_userfaultfd,
				       SYS_kcmp,
				       SYS_pidfd_getfd,
				       SYS_open_by_handle_at,
				       SYS_fanotify_init,
				       SYS_quotactl,
				       SYS_syslog,
				       SYS_init_module,
				       SYS_finit_module,
				       SYS_delete_module,
				       SYS_kexec_load,
				       SYS_reboot,
				       SYS_swapon,
				       SYS_acct,
				       SYS_sethostname,
				       SYS_settimeofday,
				       SYS_clock_settime};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(gone); i++)
		assert_int_equal(call(gone[i], 0, 0, 0), REFUSED(ENOSYS));
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		assert_int_equal(call(refused[i], 0, 0, 0), REFUSED(EPERM));
	assert_int_equal(call(SYS_perf_event_open, 0, 0, 0), REFUSED(EACCES));
}

static void needed_calls_are_allowed(void **state)
{
	static const long needed[] = {SYS_read,
				      SYS_write,
				      SYS_openat,
				      SYS_openat2,
				      SYS_execve,
				      SYS_execveat,
				      SYS_exit_group,
				      SYS_wait4,
				      SYS_waitid,
				      SYS_mmap,
				      SYS_mprotect,
				      SYS_futex,
				      SYS_rseq,
				      SYS_membarrier,
				      SYS_statx,
				      SYS_faccessat2,
				      SYS_close_range,
				      SYS_epoll_pwait2,
				      SYS_ptrace,
				      SYS_process_vm_readv,
				      SYS_seccomp,
				      SYS_landlock_create_ruleset,
				      SYS_memfd_create,
				      SYS_pidfd_open,
				      SYS_connect,
				      SYS_sendmsg,
				      SYS_prctl,
				      SYS_getrandom,
				      SYS_copy_file_range,
				      SYS_sched_setaffinity,
				      SYS_shmget};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		assert_int_equal(call(needed[i], 0, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(452, 0, 0, 0), SECCOMP_RET_ALLOW); /* fchmodat2 */
}

static void namespace_flags_are_refused(void **state)
{
	const uint64_t flags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWNET,   CLONE_NEWPID,
				  CLONE_NEWIPC,	 CLONE_NEWUTS, CLONE_NEWCGROUP};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		assert_int_equal(call(SYS_clone, flags[i] | 17, 0, 0), REFUSED(EPERM));
		assert_int_equal(call(SYS_clone, flags[i] | 1ULL << 63, 0, 0), REFUSED(EPERM));
		assert_int_equal(call(SYS_unshare, flags[i], 0, 0), REFUSED(EPERM));
		assert_int_equal(call(SYS_unshare, flags[i] | CLONE_FILES, 0, 0),
				 REFUSED(EPERM));
	}
	assert_int_equal(call(SYS_unshare, 0x80, 0, 0), REFUSED(EPERM));
	assert_int_equal(call(SYS_clone, 17, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_clone, CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, 0, 0),
			 SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_unshare, CLONE_FILES, 0, 0), SECCOMP_RET_ALLOW);
}

static void socket_families_are_four(void **state)
{
	(void)state;
	for (uint64_t family = 0; family < 300; family++) {
		bool open = family == AF_UNIX || family == AF_INET || family == AF_INET6;

		for (uint64_t high = 0; high < 2; high++) {
			uint32_t got = call(SYS_socket, family | high << 35, SOCK_STREAM, 0);

			if (family == AF_NETLINK)
				continue;
			assert_int_equal(got, open ? SECCOMP_RET_ALLOW : REFUSED(EAFNOSUPPORT));
			assert_int_equal(
			    call(SYS_socketpair, family | high << 35, SOCK_STREAM, 0), got);
		}
	}
	assert_int_equal(call(SYS_socket, AF_NETLINK, SOCK_RAW, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_socket, AF_NETLINK, SOCK_RAW, 1ULL << 32), SECCOMP_RET_ALLOW);
	for (uint64_t protocol = 1; protocol < 64; protocol++)
		assert_int_equal(call(SYS_socket, AF_NETLINK, SOCK_RAW, protocol),
				 REFUSED(EPROTONOSUPPORT));
}

static void arguments_are_compared_in_32_bits(void **state)
{
	const uint64_t high = 0xdeadbeefULL << 32;

	(void)state;
	assert_int_equal(call(SYS_ioctl, 0, TIOCSTI, 0), REFUSED(EPERM));
	assert_int_equal(call(SYS_ioctl, 0, high | TIOCSTI, 0), REFUSED(EPERM));
	assert_int_equal(call(SYS_ioctl, 0, high | TIOCLINUX, 0), REFUSED(EPERM));
	assert_int_equal(call(SYS_ioctl, 0, TCGETS, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_fcntl, 0, high | F_SETSIG, SIGKILL), REFUSED(EPERM));
	assert_int_equal(call(SYS_fcntl, 0, F_SETSIG, high | SIGSTOP), REFUSED(EPERM));
	assert_int_equal(call(SYS_fcntl, 0, F_SETSIG, SIGIO), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_fcntl, 0, F_SETOWN, SIGKILL), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_personality, READ_IMPLIES_EXEC, 0, 0), REFUSED(EPERM));
	assert_int_equal(call(SYS_personality, 0xffffffff, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_personality, UINT64_MAX, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_personality, ADDR_NO_RANDOMIZE, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_prlimit64, 0, 7, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_prlimit64, 1, 7, 0), REFUSED(EPERM));
	assert_int_equal(call(SYS_prlimit64, high, 7, 0), SECCOMP_RET_ALLOW);
}

static void huge_pages_are_as_where_there_are_none(void **state)
{
	struct seccomp_data data = {
	    .nr = SYS_mmap, .arch = NATIVE, .args = {0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS}};

	(void)state;
	assert_int_equal(run(jail_payload_filter, ARRAY_LEN(jail_payload_filter), &data),
			 SECCOMP_RET_ALLOW);
	data.args[3] |= MAP_HUGETLB;
	assert_int_equal(run(jail_payload_filter, ARRAY_LEN(jail_payload_filter), &data),
			 REFUSED(ENOMEM));
	data.args[3] |= 21ULL << MAP_HUGE_SHIFT;
	assert_int_equal(run(jail_payload_filter, ARRAY_LEN(jail_payload_filter), &data),
			 REFUSED(ENOMEM));
	assert_int_equal(call(SYS_memfd_create, 0, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0),
			 SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_memfd_create, 0, MFD_HUGETLB, 0), REFUSED(ENOSYS));
	assert_int_equal(call(SYS_shmget, 0, 4096, IPC_CREAT | 0600), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_shmget, 0, 4096, IPC_CREAT | SHM_HUGETLB), REFUSED(EPERM));
}

static void idle_process_may_only_wait(void **state)
{
	(void)state;
	for (int number = 0; number < 600; number++) {
		struct seccomp_data data = {.nr = number, .arch = NATIVE};
		uint32_t got = run(jail_idle_filter, ARRAY_LEN(jail_idle_filter), &data);
		bool waits = number == SYS_read || number == SYS_exit_group ||
			     number == SYS_rt_sigreturn || number == SYS_restart_syscall;

		assert_int_equal(got, waits ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS);
	}
}

/* What agent audit prints comes from the same source, and is that program's. */
static void check_table(const struct sock_filter *code, size_t len, bool observed)
{
	const char *digest = jail_answers_digest(observed);
	const struct jail_answer *answer;
	unsigned listed = 0, conditions = 0;
	bool seen[1024] = {false};
	char hex[65];

	sha256_hex(code, len * sizeof(*code), hex);
	assert_string_equal(hex, digest);
	for (size_t i = 0; (answer = jail_answer_at(digest, i)); i++) {
		struct seccomp_data data = {.nr = answer->number, .arch = NATIVE};

		listed++;
		conditions += answer->condition != NULL;
		assert_in_range(answer->number, 0, 1023);
		assert_false(seen[answer->number]);
		seen[answer->number] = true;
		if (answer
			->condition) { /* and arguments that nobody may have, or that are told */
			data.args[0] =
			    answer->number == SYS_personality ? READ_IMPLIES_EXEC : ~0ULL;
			if (answer->number == SYS_seccomp)
				data.args[0] = SECCOMP_SET_MODE_FILTER;
			data.args[1] = answer->number == SYS_seccomp
					   ? SECCOMP_FILTER_FLAG_NEW_LISTENER
				       : answer->number == SYS_memfd_create ? ~0ULL
				       : answer->number == SYS_fcntl	    ? F_SETSIG
									    : TIOCSTI;
			data.args[2] = data.args[3] = data.args[5] = ~0ULL;
			if (answer->number == SYS_fcntl)
				data.args[2] = SIGKILL;
			assert_int_not_equal(run(code, len, &data), SECCOMP_RET_ALLOW);
			continue;
		}
		for (uint64_t arg = 0; arg < 3; arg++) {
			data.args[0] = arg - 1;
			data.args[1] = data.args[2] = arg;
			assert_int_equal(run(code, len, &data), answer->action);
		}
	}
	for (int number = 0; number < 1024; number++)
		if (!seen[number])
			assert_int_equal(call(number, 0, 0, 0), REFUSED(ENOSYS));
	assert_true(listed > 300);
	assert_int_equal(conditions, observed ? 14 : 11);
}

static void table_says_what_the_filter_does(void **state)
{
	(void)state;
	check_table(jail_payload_filter, ARRAY_LEN(jail_payload_filter), false);
	check_table(jail_observed_filter, ARRAY_LEN(jail_observed_filter), true);
	assert_null(jail_answer_at("no digest", 0));
}

/* Observed, a payload may do what it may otherwise, no more and no less: allowed calls with an address may be told,
 * and so may the wish for a listener. */
static void observed_filter_differs_in_what_is_told(void **state)
{
	static const uint64_t values[] = {0,
					  1,
					  2,
					  8,
					  10,
					  15,
					  16,
					  17,
					  24,
					  28,
					  29,
					  110,
					  111,
					  128,
					  0x5412,
					  UINT32_MAX,
					  1ULL << 32 | 16};

	(void)state;
	for (int number = -1; number < 1100; number++) {
		for (size_t i = 0; i < ARRAY_LEN(values); i++) {
			struct seccomp_data data = {.nr = number, .arch = NATIVE};
			uint32_t plain, told, length = (uint32_t)values[i];
			bool is_address = length == 16 || length == 28 || length > 110;

			for (size_t at = 0; at < 6; at++)
				data.args[at] = values[i];
			if (number == SYS_seccomp)
				data.args[0] = SECCOMP_SET_MODE_FILTER;
			plain = run(jail_payload_filter, ARRAY_LEN(jail_payload_filter), &data);
			told =
			    run(jail_observed_filter, ARRAY_LEN(jail_observed_filter), &data);
			if (((number == SYS_connect || number == SYS_sendto) && is_address) ||
			    (number == SYS_seccomp &&
			     length & SECCOMP_FILTER_FLAG_NEW_LISTENER)) {
				assert_int_equal(plain, SECCOMP_RET_ALLOW);
				assert_int_equal(told, SECCOMP_RET_USER_NOTIF);
			} else {
				assert_int_equal(told, plain);
			}
		}
	}
}

static void observer_may_only_look_and_answer(void **state)
{
	static const int calls[] = {SYS_read,	      SYS_recvfrom,	   SYS_recvmsg,
				    SYS_sendto,	      SYS_sendmsg,	   SYS_accept4,
				    SYS_close,	      SYS_ppoll,	   SYS_process_vm_readv,
				    SYS_readlinkat,   SYS_getxattr,	   SYS_exit_group,
				    SYS_rt_sigreturn, SYS_restart_syscall,
#ifdef SYS_poll
				    SYS_poll,	      SYS_readlink
#endif
	};

	(void)state;
	for (int number = 0; number < 600; number++) {
		struct seccomp_data data = {.nr = number, .arch = NATIVE};
		uint32_t wanted = SECCOMP_RET_KILL_PROCESS;

		for (size_t i = 0; i < ARRAY_LEN(calls); i++)
			if (calls[i] == number)
				wanted = SECCOMP_RET_ALLOW;
		assert_int_equal(
		    run(jail_observer_filter, ARRAY_LEN(jail_observer_filter), &data), wanted);
	}
	for (uint32_t flags = 0; flags < 1u << 22; flags++) {
		struct seccomp_data data = {
		    .nr = SYS_openat, .arch = NATIVE, .args = {0, 0, flags}};

		assert_int_equal(
		    run(jail_observer_filter, ARRAY_LEN(jail_observer_filter), &data),
		    flags == (O_RDONLY | O_CLOEXEC) ? SECCOMP_RET_ALLOW
						    : SECCOMP_RET_KILL_PROCESS);
	}
	for (size_t i = 0; i < 2; i++) {
		struct seccomp_data data = {
		    .nr = SYS_ioctl,
		    .arch = NATIVE,
		    .args = {0, i ? SECCOMP_IOCTL_NOTIF_ADDFD : SECCOMP_IOCTL_NOTIF_RECV}};

		assert_int_equal(
		    run(jail_observer_filter, ARRAY_LEN(jail_observer_filter), &data),
		    i ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW);
	}
}

/* What programs call most is allowed by its number alone: the kernel then knows the answer once and for all, and
 * does not run the filter for it (since Linux 5.11). */
static void common_calls_are_decided_by_number(void **state)
{
	static const int common[] = {
	    SYS_read,	    SYS_write,	    SYS_pread64,   SYS_pwrite64,
	    SYS_openat,	    SYS_close,	    SYS_fstat,	   SYS_statx,
	    SYS_getdents64, SYS_readlinkat, SYS_faccessat, SYS_futex,
	    SYS_brk,	    SYS_munmap,	    SYS_mprotect,  SYS_llistxattr,
	    SYS_unlinkat,   SYS_wait4,	    SYS_execve,	   SYS_lseek,
	    SYS_sendmsg,    SYS_recvmsg,    SYS_getppid,   SYS_rt_sigaction,
#ifdef SYS_open /* x86-64; newfstatat is fstatat(2) there */
	    SYS_newfstatat, SYS_open,	    SYS_stat,	   SYS_lstat,
	    SYS_access
#endif
	};
	const struct {
		const struct sock_filter *code;
		size_t len;
	} filters[] = {{jail_payload_filter, ARRAY_LEN(jail_payload_filter)},
		       {jail_observed_filter, ARRAY_LEN(jail_observed_filter)}};

	(void)state;
	for (size_t f = 0; f < ARRAY_LEN(filters); f++) {
		for (size_t i = 0; i < ARRAY_LEN(common); i++) {
			struct seccomp_data data = {.nr = common[i], .arch = NATIVE};

			assert_int_equal(run(filters[f].code, filters[f].len, &data),
					 SECCOMP_RET_ALLOW);
			assert_false(looked_further);
		}
	}
	call(SYS_clone, 0, 0, 0);
	assert_true(looked_further);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(table_says_what_the_filter_does),
	    cmocka_unit_test(foreign_abis_are_refused),
	    cmocka_unit_test(unknown_calls_do_not_exist),
	    cmocka_unit_test(dangerous_calls_are_refused),
	    cmocka_unit_test(needed_calls_are_allowed),
	    cmocka_unit_test(namespace_flags_are_refused),
	    cmocka_unit_test(socket_families_are_four),
	    cmocka_unit_test(arguments_are_compared_in_32_bits),
	    cmocka_unit_test(huge_pages_are_as_where_there_are_none),
	    cmocka_unit_test(common_calls_are_decided_by_number),
	    cmocka_unit_test(idle_process_may_only_wait),
	    cmocka_unit_test(observed_filter_differs_in_what_is_told),
	    cmocka_unit_test(observer_may_only_look_and_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
