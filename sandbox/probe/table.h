/*
 * The table of attacks, one a line: ROW(id, section, control, function, mechanism, what a sandbox should do).
 *
 * Ids as in the study of sandboxes that the project rests on; X… are our own. The control (probe.h) says where the attack is known
 * to work, so that one sees that the probe can succeed.
 */
#ifndef PROBE_TABLE_H
#define PROBE_TABLE_H

/*
 * How a row can be tried, when not together with others in one sandbox. ALONE: it would find what started
 * it there. HOST: it needs a host that takes part, ends by a status of its own, or never: the payload's
 * own word is not enough.
 */
#define ATTACKS_ALONE "C4 C6 C7 C34 E14 E44 E65 X12 X13"
#define ATTACKS_HOST                                                                           \
	"C27 E16 E27 E32 E33 E40 E50 E51 E52 F2 F3 F4 F5 F10 F19 F20 F21 F24 F25 F26 F27 "     \
	"F29 F31 F38 F40 F41 N25 N33 N34 R1 R2 R4 R5 R7 R8 R9 R10 R11 R13 R15 R17 R19 R24 "    \
	"R25 R26 R27 R28 R30 R31 R38 R39 R41 R42 X15 X18 X24 X29 X31 X33 X34 X35 X37 X38"

/* clang-format off */
#define ATTACKS(ROW) \
	ROW(N1, "network", PLAIN, tcp4, "TCP over IPv4: an ordinary connection", \
	    "fails at once (ENETUNREACH), never a time-out") \
	ROW(N2, "network", PLAIN, tcp6, "TCP over IPv6, link-local and mapped addresses", \
	    "fails at once") \
	ROW(N3, "network", PLAIN, udp, "UDP, broadcast, multicast: needs no connection", \
	    "fails at once (ENETUNREACH)") \
	ROW(N4, "network", PLAIN, dns, "a name look-up carries data to its server", \
	    "fails fast, no query leaves") \
	ROW(N5, "network", PLAIN, name_daemons, "a resolving daemon of the host's: nscd, resolved, D-Bus", \
	    "absent") \
	ROW(N6, "network", KERNEL, mptcp, "MPTCP: protocol 262 passes rules for TCP", \
	    "fails") \
	ROW(N7, "network", KERNEL, transports, "SCTP, DCCP, UDP-Lite", \
	    "fails") \
	ROW(N8, "network", KERNEL, ping, "ping sockets", \
	    "fails or has no route") \
	ROW(N9, "network", USERNS, raw, "raw IP", \
	    "fails (EPERM)") \
	ROW(N10, "network", USERNS, packet, "packet sockets", \
	    "fails") \
	ROW(N11, "network", PLAIN, netlink, "netlink other than route: audit, netfilter, generic", \
	    "only NETLINK_ROUTE is there") \
	ROW(N12, "network", KERNEL, vsock, "vsock, which no network namespace holds", \
	    "no such socket (EAFNOSUPPORT)") \
	ROW(N14, "network", PLAIN, unix_path, "a host's socket by its path, any socket in the tree", \
	    "absent") \
	ROW(N15, "network", PLAIN, unix_abstract, "abstract sockets: display, containerd", \
	    "ECONNREFUSED or EPERM") \
	ROW(N17, "network", PLAIN, take_rights, "a descriptor sent over an inherited socket", \
	    "no socket is shared") \
	ROW(N18, "network", PLAIN, special_files, "a socket or fifo left in the tree, which a tool opens later", \
	    "the host's tree stays as it is") \
	ROW(N19, "network", KERNEL, io_uring, "io_uring makes sockets behind the filter", \
	    "fails (ENOSYS)") \
	ROW(N21, "network", KERNEL, i386, "a socket by the 32-bit gate", \
	    "killed or ENOSYS") \
	ROW(N22, "network", KERNEL, x32, "a socket by the x32 ABI", \
	    "ENOSYS or killed") \
	ROW(N24, "network", PLAIN, descriptors, "inherited descriptors", \
	    "only 0, 1, 2") \
	ROW(N25, "network", PLAIN, stdio, "0, 1, 2 are sockets or terminals, which answer", \
	    "null and write-only pipes") \
	ROW(N26, "network", PLAIN, proxies, "a proxy on loopback, in the environment", \
	    "no variable, nothing listens") \
	ROW(N27, "network", PLAIN, loopback_services, "services on the host's loopback", \
	    "refused by the own loopback") \
	ROW(N28, "network", PLAIN, metadata, "a cloud's metadata service", \
	    "ENETUNREACH, variables unset") \
	ROW(N29, "network", ROOT, join_netns, "joining the host's network namespace", \
	    "fails") \
	ROW(N30, "network", PLAIN, nested_network, "a nested network with capabilities, a tun device", \
	    "unshare fails") \
	ROW(N33, "network", PLAIN, lock_channel, "covert channel: locks on a shared read-only file", \
	    "documented, or not seen") \
	ROW(N34, "network", PLAIN, inotify_channel, "covert channel: watching a shared read-only file", \
	    "documented, or not seen") \
	ROW(N35, "network", PLAIN, ipc, "System V and POSIX memory and queues of the host's", \
	    "empty") \
	ROW(N37, "network", KERNEL, autoload, "socket and file system names that load kernel modules", \
	    "the filter stops them first") \
	ROW(N39, "network", NOWHERE, automount, "a path whose look-up fetches: automounter, AFS", \
	    "absent") \
	ROW(C1, "credentials", PLAIN, own_environment, "secrets in the own environment", \
	    "exactly the enumerated list") \
	ROW(C2, "credentials", USERNS, init_environment, "PID 1's environment: a set-up process that never executed", \
	    "EACCES, or nothing") \
	ROW(C3, "credentials", PLAIN, other_processes, "environment and arguments of all processes", \
	    "only the jail's own") \
	ROW(C4, "credentials", PLAIN, memory_of_others, "memory of another process: /proc/PID/mem, process_vm_readv", \
	    "EACCES, EPERM") \
	ROW(C6, "credentials", PLAIN, trace_others, "tracing the helper or PID 1", \
	    "EPERM") \
	ROW(C7, "credentials", PLAIN, descriptors_of_others, "taking descriptors of another: pidfd_getfd", \
	    "EPERM") \
	ROW(C8, "credentials", PLAIN, session_key, "the session keyring, which no namespace holds", \
	    "ENOSYS, or a new empty one") \
	ROW(C10, "credentials", PLAIN, key_lists, "/proc/keys, /proc/key-users", \
	    "masked") \
	ROW(C11, "credentials", PLAIN, ssh_agent, "ssh-agent's socket", \
	    "absent") \
	ROW(C12, "credentials", PLAIN, key_services, "gpg-agent, secret service, session bus", \
	    "absent") \
	ROW(C13, "credentials", PLAIN, dotfiles, "credentials in files of HOME", \
	    "absent") \
	ROW(C14, "credentials", PLAIN, other_homes, "other users and their homes by /etc/passwd", \
	    "absent, generated passwd") \
	ROW(C15, "credentials", ROOT, system_secrets, "shadow, host keys, keytab, sudoers", \
	    "absent") \
	ROW(C16, "credentials", PLAIN, repository_token, "a token in the work tree's .git/config", \
	    "no such file") \
	ROW(C18, "credentials", PLAIN, container_sockets, "sockets of container daemons", \
	    "absent") \
	ROW(C19, "credentials", PLAIN, service_tokens, "tokens of service accounts, credentials of units", \
	    "absent") \
	ROW(C20, "credentials", PLAIN, inherited_files, "an inherited descriptor of a secret or deleted file", \
	    "absent") \
	ROW(C22, "credentials", KERNEL, core_files, "a core file, readable in the tree", \
	    "no core, ever") \
	ROW(C23, "credentials", ROOT, kernel_memory, "/dev/mem, /proc/kcore, kmsg, kallsyms", \
	    "absent or masked") \
	ROW(C25, "credentials", ROOT, block_devices, "raw block devices", \
	    "absent") \
	ROW(C26, "credentials", PLAIN, temporary_files, "the host's /tmp and /var/tmp", \
	    "private and empty") \
	ROW(C27, "credentials", PLAIN, earlier_job, "what an earlier job left", \
	    "fresh each run") \
	ROW(C28, "credentials", ROOT, kernel_log, "the kernel's log", \
	    "EPERM") \
	ROW(C30, "credentials", PLAIN, aliases, "a hidden path by another name", \
	    "not mounted at all") \
	ROW(C31, "credentials", PLAIN, nested_secrets, "files of secrets nested in the tree", \
	    "only what is committed") \
	ROW(C32, "credentials", PLAIN, sandbox_state, "the sandbox's own state: policy, run directory, store", \
	    "absent") \
	ROW(C34, "credentials", PLAIN, same_user, "other jobs of the same user: signals", \
	    "no such process") \
	ROW(C36, "credentials", NOWHERE, side_channels, "side channels of the hardware", \
	    "out of scope of namespaces") \
	ROW(E1, "escape", PLAIN, nested_userns, "nested user namespace: all capabilities over what it makes", \
	    "EPERM, ENOSPC, ENOSYS") \
	ROW(E2, "escape", PLAIN, clone3_flags, "clone3: flags in memory, where no filter looks", \
	    "ENOSYS, so that libc falls back") \
	ROW(E4, "escape", USERNS, join_namespaces, "setns by pidfd or file", \
	    "EPERM") \
	ROW(E5, "escape", USERNS, mounts, "mount(2)", \
	    "EPERM") \
	ROW(E7, "escape", USERNS, change_mounts, "remounting writable, unmounting what hides", \
	    "EPERM") \
	ROW(E8, "escape", USERNS, change_root, "chroot and out of it, pivot_root", \
	    "EPERM") \
	ROW(E9, "escape", ROOT, file_handles, "a file outside the root by its handle", \
	    "EPERM") \
	ROW(E10, "escape", ROOT, core_pattern, "core_pattern names a program of ours", \
	    "EROFS or EACCES") \
	ROW(E11, "escape", ROOT, kernel_knobs, "sysrq, modprobe, uevent helper, binfmt_misc, CPU hotplug", \
	    "EROFS or absent") \
	ROW(E12, "escape", ROOT, release_agent, "a control group's release agent", \
	    "no control groups to see") \
	ROW(E13, "escape", ROOT, cgroup_limits, "changing the own limits, moving to another group", \
	    "absent, EROFS, EACCES") \
	ROW(E14, "escape", PLAIN, overwrite_helper, "overwriting the helper by /proc/PID/exe", \
	    "EACCES") \
	ROW(E16, "escape", PLAIN, preload, "LD_PRELOAD taken by a program outside", \
	    "no program outside takes it") \
	ROW(E17, "escape", PLAIN, set_uid_programs, "set-user-id programs, capabilities of files", \
	    "no effect") \
	ROW(E18, "escape", USERNS, regain_capabilities, "regaining capabilities: ambient, inheritable, bounding, uid 0", \
	    "all five sets empty, EPERM") \
	ROW(E20, "escape", PLAIN, trace_past_filter, "a tracer changes a call behind the filter", \
	    "the filter looks again") \
	ROW(E21, "escape", ROOT, bpf, "bpf(2)", \
	    "EPERM") \
	ROW(E22, "escape", KERNEL, perf, "perf_event_open(2)", \
	    "EACCES") \
	ROW(E23, "escape", PLAIN, user_faults, "userfaultfd: a tool of exploits", \
	    "EPERM, absent") \
	ROW(E25, "escape", PLAIN, key_upcall, "request_key starts a helper of the kernel's as root", \
	    "ENOSYS") \
	ROW(E27, "escape", KERNEL, type_into_terminal, "TIOCSTI types into the caller's terminal", \
	    "no terminal; EPERM, masked to 32 bits") \
	ROW(E29, "escape", ROOT, devices, "making device nodes", \
	    "EPERM") \
	ROW(E30, "escape", KERNEL, dangerous_devices, "dangerous devices: kvm, fuse, tun, vsock, userfaultfd", \
	    "an exact list only") \
	ROW(E31, "escape", USERNS, fuse, "FUSE by its set-user-id helper", \
	    "no effect, absent") \
	ROW(E32, "escape", NOWHERE, look_for_secrets, "a link swapped for a folder while the jail is set up", \
	    "never followed") \
	ROW(E33, "escape", NOWHERE, look_for_secrets, "a mount point below a link of the tree's", \
	    "refused, or inside") \
	ROW(E34, "escape", PLAIN, hard_links, "a hard link to a file outside", \
	    "EXDEV") \
	ROW(E35, "escape", NOWHERE, null_swap, "/dev/null replaced by a link", \
	    "refused") \
	ROW(E37, "escape", USERNS, redirect_proc, "a false /proc for the helper to write to", \
	    "refused") \
	ROW(E39, "escape", PLAIN, outside_cwd, "writing beside the working directory", \
	    "EROFS") \
	ROW(E40, "escape", NOWHERE, shell_words, "names and arguments that a shell would take apart", \
	    "passed as they are") \
	ROW(E41, "escape", PLAIN, policy_file, "the policy for the next run, in the tree", \
	    "read from outside the tree") \
	ROW(E42, "escape", PLAIN, protected_names, "making a protected name that was absent", \
	    "not in the result") \
	ROW(E43, "escape", NOWHERE, late_join, "a command that joins a jail later, without its filter", \
	    "no such command") \
	ROW(E44, "escape", PLAIN, unfiltered_helper, "a helper in the same process namespace without a filter", \
	    "no such process") \
	ROW(E46, "escape", PLAIN, nested_containers, "container tools inside", \
	    "fail cleanly") \
	ROW(E48, "escape", PLAIN, rename_parents, "renaming what a protected name lies in", \
	    "EBUSY, EROFS, or not in the result") \
	ROW(E49, "escape", PLAIN, flip_address, "an address that changes while a supervisor judges it", \
	    "nothing is decided so") \
	ROW(E50, "escape", NOWHERE, sibling, "CLONE_PARENT: a sibling that the parent takes for the payload", \
	    "the payload's own status is told") \
	ROW(E51, "escape", NOWHERE, ignored_child, "a caller that ignores SIGCHLD", \
	    "the payload's own status is told") \
	ROW(E52, "escape", PLAIN, kill_everybody, "kill(-1), kill(0): signals beyond the process namespace", \
	    "only the jail dies, and it is told") \
	ROW(E55, "escape", ROOT, clocks, "setting the clock", \
	    "EPERM") \
	ROW(E57, "escape", PLAIN, anonymous_code, "code from memory: memfd_create and execution", \
	    "allowed, behind the same walls") \
	ROW(E59, "escape", PLAIN, bare_status, "no_new_privs, filter, capabilities as the payload sees them", \
	    "1, 2, 0") \
	ROW(E60, "escape", NOWHERE, kernel_bugs, "a kernel bug in calls that are allowed", \
	    "not to be tested; stronger backends") \
	ROW(E61, "escape", ROOT, machine_devices, "devices of the (virtual) machine", \
	    "none can be reached") \
	ROW(E62, "escape", NOWHERE, disk_images, "a disk's image format guessed from what the payload wrote", \
	    "no disk to write to") \
	ROW(E63, "escape", NOWHERE, shares, "a shared folder that only the guest keeps read-only", \
	    "no share") \
	ROW(E65, "escape", PLAIN, writable_ancestors, "a folder above the root that another may write to", \
	    "none is writable") \
	ROW(E66, "escape", PLAIN, directory_descriptors, "a folder's or mount's descriptor left open by the set-up", \
	    "none") \
	ROW(E67, "escape", USERNS, root_inside, "uid 0 inside", \
	    "not 0") \
	ROW(P1, "persistence", PLAIN, git_hooks, ".git/hooks run at the host's next commit", \
	    "the host's repository stays as it is") \
	ROW(P2, "persistence", PLAIN, git_config, "keys of .git/config that name programs", \
	    "the host never reads the jail's") \
	ROW(P3, "persistence", PLAIN, git_includes, "include.path, config.worktree: second configurations", \
	    "the same") \
	ROW(P4, "persistence", PLAIN, git_links, "a .git file that names another repository", \
	    "the host uses its own") \
	ROW(P5, "persistence", PLAIN, git_attributes, ".gitattributes and .gitmodules for programs that exist", \
	    "the host's tree stays as it is") \
	ROW(P7, "persistence", PLAIN, git_objects, "alternates, replaced objects, grafts", \
	    "the object store is not shared") \
	ROW(P9, "persistence", PLAIN, tool_files, "files that tools run: .envrc, tasks.json, Makefile", \
	    "the host's tree stays as it is") \
	ROW(P10, "persistence", PLAIN, user_files, "files that the user's shell runs", \
	    "HOME is thrown away") \
	ROW(P11, "persistence", PLAIN, shared_caches, "poisoned entries of shared caches", \
	    "read-only or a copy") \
	ROW(P12, "persistence", PLAIN, toolchain, "files in paths of the toolchain", \
	    "EROFS") \
	ROW(P13, "persistence", PLAIN, daemon_left, "daemons: new session, all signals ignored", \
	    "gone when the run has ended") \
	ROW(P14, "persistence", PLAIN, schedulers, "at, cron, systemd, D-Bus start something later", \
	    "sockets and spools absent") \
	ROW(P16, "persistence", PLAIN, plant_key, "a key left in a keyring", \
	    "ENOSYS") \
	ROW(P17, "persistence", PLAIN, future_times, "times in the future, built files that a build takes for its own", \
	    "the next stage does not see them") \
	ROW(P18, "persistence", PLAIN, next_stage, "programs and modules where the next stage runs", \
	    "the host's tree stays as it is") \
	ROW(P19, "persistence", PLAIN, terminal_state, "flags of shared descriptors, modes of the terminal", \
	    "pipes of the run's own, no terminal") \
	ROW(P23, "persistence", ROOT, left_cgroup, "a control group that stays", \
	    "no control groups to see") \
	ROW(P25, "persistence", PLAIN, home_state, "known_hosts, history, trust stores in HOME", \
	    "HOME is thrown away") \
	ROW(R1, "exhaustion", PLAIN, fork_bomb, "fork bomb", \
	    "EAGAIN at the limit") \
	ROW(R2, "exhaustion", PLAIN, thread_bomb, "thread bomb", \
	    "EAGAIN at the limit") \
	ROW(R4, "exhaustion", PLAIN, memory, "memory", \
	    "killed in its group only, told as out of memory") \
	ROW(R5, "exhaustion", PLAIN, fill_memory_files, "filling /tmp, /dev/shm, /run, HOME", \
	    "ENOSPC") \
	ROW(R7, "exhaustion", PLAIN, fill_tree, "filling the disk by the tree", \
	    "ENOSPC") \
	ROW(R8, "exhaustion", PLAIN, inodes, "inodes", \
	    "ENOSPC") \
	ROW(R9, "exhaustion", NOWHERE, open_files, "descriptors", \
	    "EMFILE") \
	ROW(R10, "exhaustion", NOWHERE, kernel_objects, "objects of the kernel: epoll, eventfd, timers, memfd", \
	    "EMFILE") \
	ROW(R11, "exhaustion", NOWHERE, flood, "flood of output", \
	    "capped, drained, told") \
	ROW(R13, "exhaustion", NOWHERE, slow_output, "slow output for ever", \
	    "the deadline does not depend on it") \
	ROW(R15, "exhaustion", NOWHERE, dead_reader, "an output that nobody reads any more", \
	    "the run ends all the same") \
	ROW(R16, "exhaustion", PLAIN, huge_sparse_file, "a huge sparse file", \
	    "the host's tree stays as it is") \
	ROW(R17, "exhaustion", PLAIN, allocate, "fallocate", \
	    "ENOSPC") \
	ROW(R19, "exhaustion", PLAIN, wide_directory, "a folder of very many entries", \
	    "ENOSPC") \
	ROW(R20, "exhaustion", PLAIN, unremovable, "entries that are hard to remove", \
	    "gone with the run") \
	ROW(R21, "exhaustion", PLAIN, link_farm, "farms and loops of links", \
	    "not followed, gone with the run") \
	ROW(R22, "exhaustion", PLAIN, archive, "an archive that unpacks to very much", \
	    "never unpacked") \
	ROW(R24, "exhaustion", NOWHERE, deaf, "ignoring every signal", \
	    "SIGKILL at the deadline") \
	ROW(R25, "exhaustion", PLAIN, vfork_wait, "a wait that does not end: vfork", \
	    "ends at the deadline") \
	ROW(R26, "exhaustion", NOWHERE, traced_end, "a tracer holds back our end", \
	    "told as it was, soon; nothing left") \
	ROW(R27, "exhaustion", PLAIN, burn, "burning processors", \
	    "ends at the deadline") \
	ROW(R28, "exhaustion", NOWHERE, sync_loop, "fsync in a loop", \
	    "ends at the deadline") \
	ROW(R30, "exhaustion", PLAIN, swap, "pushing memory into swap", \
	    "out of memory instead") \
	ROW(R31, "exhaustion", NOWHERE, sleep, "sleeping for ever", \
	    "ends at the deadline") \
	ROW(R32, "exhaustion", NOWHERE, clock_jump, "the wall clock jumps", \
	    "a monotonic clock counts") \
	ROW(R33, "exhaustion", PLAIN, read_input, "waiting for input", \
	    "end of file at once") \
	ROW(R34, "exhaustion", NOWHERE, pid_reuse, "a process number used again when the supervisor kills", \
	    "by pidfd only") \
	ROW(R35, "exhaustion", ROOT, oom_score, "out of memory takes the supervisor instead of us", \
	    "EACCES below 0") \
	ROW(R37, "exhaustion", NOWHERE, address_space, "RLIMIT_AS breaks sanitizers, Go, JVM", \
	    "a control group instead") \
	ROW(R38, "exhaustion", KERNEL, user_limits, "what counts by user: inotify, queues", \
	    "the host's user still has some") \
	ROW(R39, "exhaustion", KERNEL, core_flood, "thousands of cores for the host's handler", \
	    "none") \
	ROW(R41, "exhaustion", NOWHERE, log_flood, "flooding the kernel's log by crashes and refused calls", \
	    "limited by the kernel") \
	ROW(R42, "exhaustion", PLAIN, removal_bomb, "a tree that takes long to remove", \
	    "gone with its mount") \
	ROW(F1, "forgery", NOWHERE, pass_in_process, "passing from within: os._exit(0), a plugin of the runner", \
	    "counts and names decide, too") \
	ROW(F2, "forgery", NOWHERE, write_to_init, "writing a status to PID 1's descriptors", \
	    "the payload's own status is told") \
	ROW(F3, "forgery", NOWHERE, signal_init, "signals that make PID 1 end well", \
	    "the payload's own status is told") \
	ROW(F4, "forgery", NOWHERE, write_to_all, "writing a status to inherited descriptors", \
	    "the payload's own status is told") \
	ROW(F5, "forgery", NOWHERE, status_files, "a status file in the tree", \
	    "never read") \
	ROW(F6, "forgery", PLAIN, edit_tests, "changing the tests or the snapshot", \
	    "the host's tree stays as it is") \
	ROW(F7, "forgery", PLAIN, shadow_tools, "a tool's name in a folder of PATH that can be written to", \
	    "PATH without such folders") \
	ROW(F10, "forgery", PLAIN, collude, "two jobs meet: abstract name, shared memory, /tmp", \
	    "nothing is shared") \
	ROW(F11, "forgery", PLAIN, linked_artefact, "a report that is a link to a file outside", \
	    "not followed") \
	ROW(F12, "forgery", PLAIN, linked_log, "a log that is a link to a file outside", \
	    "logs lie outside of the tree") \
	ROW(F13, "forgery", PLAIN, linked_parent, "a folder on the way swapped for a link", \
	    "not followed") \
	ROW(F16, "forgery", PLAIN, changing_file, "a file that changes while it is harvested", \
	    "nothing runs any more") \
	ROW(F18, "forgery", PLAIN, archive_paths, "an archive with paths outside", \
	    "never unpacked") \
	ROW(F19, "forgery", NOWHERE, terminal_escapes, "escapes for terminals in the log", \
	    "shown escaped") \
	ROW(F20, "forgery", NOWHERE, log_lines, "lines that a CI takes for commands", \
	    "framed, never parsed") \
	ROW(F21, "forgery", NOWHERE, hidden_text, "text that hides text: CR, backspace, bidi", \
	    "shown escaped") \
	ROW(F23, "forgery", PLAIN, hostile_xml, "a report with entities, external files, forged counts", \
	    "refused") \
	ROW(F24, "forgery", NOWHERE, prompt, "text in the output for the model that reads it", \
	    "marked as foreign, bounded") \
	ROW(F25, "forgery", NOWHERE, exit_like_a_signal, "exit 137, 124, 143 posing as signals and time-outs", \
	    "exited, with that value") \
	ROW(F26, "forgery", NOWHERE, talk_like_the_kernel, "text that claims out of memory or a time-out", \
	    "told by the group and the clock only") \
	ROW(F27, "forgery", NOWHERE, kill_self, "SIGKILL to oneself", \
	    "signalled, not out of memory") \
	ROW(F29, "forgery", NOWHERE, hide_usage, "usage hidden in a grandchild", \
	    "the group's peak counts") \
	ROW(F30, "forgery", NOWHERE, detect, "behaving well in a sandbox only", \
	    "cannot be prevented") \
	ROW(F31, "forgery", NOWHERE, fake_time, "a false clock", \
	    "the host's times count") \
	ROW(F32, "forgery", PLAIN, hide_from_diff, "hiding files from a diff", \
	    "the diff is of the snapshot") \
	ROW(F33, "forgery", PLAIN, nested_repository, "hiding files in a nested repository", \
	    "the host's tree stays as it is") \
	ROW(F34, "forgery", PLAIN, clashing_names, "names that are the same elsewhere: case, Unicode", \
	    "the host's tree stays as it is") \
	ROW(F35, "forgery", NOWHERE, no_tests, "no tests ran", \
	    "names and counts of the base decide") \
	ROW(F38, "forgery", NOWHERE, last_reaped, "the status of whoever ends last", \
	    "the payload's own status is told") \
	ROW(F40, "forgery", NOWHERE, other_program, "becoming another program at the end", \
	    "its status is the payload's") \
	ROW(F41, "forgery", NOWHERE, patch_parent, "a child changes its parent's result", \
	    "the host is told what the process did") \
	ROW(X1, "extra", KERNEL, gate32, "unshare, keyctl, io_uring by the 32-bit gate", \
	    "killed or ENOSYS") \
	ROW(X2, "extra", PLAIN, clone3_more, "clone3: other flags, other sizes of its structure", \
	    "ENOSYS") \
	ROW(X3, "extra", KERNEL, own_terminal, "TIOCSTI on a terminal of one's own, with high halves", \
	    "EPERM, masked to 32 bits") \
	ROW(X4, "extra", KERNEL, high_halves, "families, types, protocols, flags with a high half", \
	    "as the lower half") \
	ROW(X5, "extra", USERNS, new_mounts, "the new mount calls: fsopen, fsmount, open_tree, move_mount", \
	    "EPERM") \
	ROW(X6, "extra", KERNEL, list_mounts, "statmount, listmount: the mounts of the host", \
	    "ENOSYS") \
	ROW(X7, "extra", KERNEL, segments, "modify_ldt", \
	    "ENOSYS") \
	ROW(X8, "extra", PLAIN, personalities, "personality: executable data, page zero", \
	    "EPERM") \
	ROW(X9, "extra", PLAIN, later_filter, "a filter of one's own, with a listener, above the jail's", \
	    "lifts nothing") \
	ROW(X10, "extra", KERNEL, rare_calls, "memfd_secret, fanotify, lsm calls, numbers beyond all", \
	    "EPERM, ENOSYS") \
	ROW(X11, "extra", KERNEL, quotas, "quotactl_fd, quotactl", \
	    "EPERM") \
	ROW(X12, "extra", PLAIN, look_at_others, "kcmp, robust lists, limits, madvise of other processes", \
	    "EPERM, ESRCH") \
	ROW(X13, "extra", KERNEL, namespace_ioctls, "namespaces by ioctl: of a pidfd, of their owner", \
	    "EACCES, none further out") \
	ROW(X14, "extra", KERNEL, process_handles, "processes by file handle", \
	    "EPERM") \
	ROW(X15, "extra", PLAIN, signal_by_io, "SIGKILL to others by F_SETOWN and F_SETSIG", \
	    "reaches nobody") \
	ROW(X16, "extra", PLAIN, signal_by_number, "tgkill, sigqueue, pidfd signals by the host's numbers", \
	    "ESRCH") \
	ROW(X17, "extra", PLAIN, renice_others, "slowing down all processes of the same user", \
	    "none outside") \
	ROW(X18, "extra", PLAIN, writable_places, "any folder that can be written to", \
	    "only the tree, HOME, /tmp, /dev/shm") \
	ROW(X19, "extra", ROOT, writable_knobs, "any knob of the kernel that can be written to", \
	    "none") \
	ROW(X20, "extra", PLAIN, reopen_read_only, "a read-only file opened again, mapped, truncated, its mode changed", \
	    "EROFS, EACCES") \
	ROW(X21, "extra", NOWHERE, dirty_pipe, "a read-only file changed through a pipe (CVE-2022-0847)", \
	    "a mended kernel") \
	ROW(X22, "extra", PLAIN, file_system_ioctls, "ioctls on file systems of the host's: freeze, trim, keys", \
	    "EPERM, ENOTTY") \
	ROW(X23, "extra", NOWHERE, cached_pages, "cachestat: which pages of shared files others use", \
	    "EPERM") \
	ROW(X24, "extra", PLAIN, admitted_socket, "a host's socket in a folder that was admitted read-only", \
	    "documented, or refused") \
	ROW(X25, "extra", PLAIN, foreign_terminals, "terminals of the host's: /dev/pts, /dev/tty, console", \
	    "absent") \
	ROW(X26, "extra", PLAIN, host_names, "the host's name, and changing it", \
	    "another, EPERM") \
	ROW(X27, "extra", PLAIN, host_sockets, "the host's sockets in /proc/net", \
	    "only one's own") \
	ROW(X28, "extra", ROOT, better_share, "real-time and better than others: FIFO, DEADLINE, nice, ioprio", \
	    "EPERM, EACCES") \
	ROW(X29, "extra", PLAIN, memory_by_other_names, "memory by other names: memory files, segments, pipes, sockets, many processes", \
	    "counted in the group") \
	ROW(X30, "extra", PLAIN, raise_limits, "limits that are missing, or can be raised", \
	    "set, EPERM") \
	ROW(X31, "extra", NOWHERE, pipe_buffers, "a larger pipe for the output, at the host user's cost", \
	    "contained") \
	ROW(X32, "extra", PLAIN, core_limit, "cores for a handler that the host's core_pattern names by a pipe", \
	    "a limit of 1") \
	ROW(X33, "extra", PLAIN, standard_files, "the caller's files as input and output: set-user-id, truncated", \
	    "pipes of the run's own") \
	ROW(X34, "extra", PLAIN, async_contexts, "all contexts for asynchronous I/O of the machine", \
	    "ENOSYS, or the host still gets some") \
	ROW(X35, "extra", KERNEL, huge_pages, "the machine's huge pages", \
	    "refused") \
	ROW(X36, "extra", KERNEL, protocols, "transport protocols whose modules load on demand", \
	    "EPROTONOSUPPORT by the filter") \
	ROW(X37, "extra", PLAIN, descriptors_in_flight, "the user's descriptors in flight", \
	    "the host's user can still send some") \
	ROW(X38, "extra", PLAIN, stdio, "a socket of the caller's handed on as input and output", \
	    "refused, or pipes of the run's own")
/* clang-format on */

#endif
