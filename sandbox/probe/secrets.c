/* Attacks that read what is not theirs: section 2.2. See probe.h. */
#include "sandbox/probe/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- environment, other processes ---- */

ATTACK(own_environment)
{
	static const char *const words[] = {"KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL"};

	for (char **at = environ; at && *at; at++) {
		size_t name = strcspn(*at, "=");

		if (leaks("the environment", *at, strlen(*at)))
			continue;
		for (size_t i = 0; i < LEN(words); i++) {
			char *found = strcasestr(*at, words[i]);

			if (found && found < *at + name)
				worked("%.*s is in the environment", (int)name, *at);
		}
	}
	blocked("nothing in the environment is named like a secret");
}

static void environment_of(const char *pid)
{
	try_read(text("/proc/%s/environ", pid), false);
}

ATTACK(init_environment)
{
	environment_of("1");
	environment_of("1/task/1");
}

ATTACK(other_processes)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	char self[16];

	snprintf(self, sizeof(self), "%d", getpid());
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' ||
		    !strcmp(entry->d_name, self))
			continue;
		environment_of(entry->d_name);
		try_read(text("/proc/%s/cmdline", entry->d_name), false);
	}
	if (dir)
		closedir(dir);
	blocked("no other process is there");
}

/* Looks for a planted secret in the writable memory of the process. */
static void search_memory(pid_t pid)
{
	static char maps[1 << 16], buf[1 << 20];
	int mem = open(text("/proc/%d/mem", pid), O_RDONLY | O_CLOEXEC);
	size_t budget = 16 << 20;
	ssize_t len;

	if (mem < 0) {
		blocked("/proc/%d/mem: %s", pid, strerrorname_np(errno));
		return;
	}
	len = read_path(text("/proc/%d/maps", pid), maps, sizeof(maps));
	for (char *line = maps; len > 0 && line && *line && budget; line = strchr(line, '\n')) {
		unsigned long from, to;
		char mode[8];

		line += *line == '\n';
		if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) != 3 || mode[1] != 'w')
			continue;
		while (from < to && budget) {
			size_t part = to - from < sizeof(buf) ? to - from : sizeof(buf);
			ssize_t n = pread(mem, buf, part < budget ? part : budget, (off_t)from);

			if (n <= 0)
				break;
			if (leaks(text("the memory of process %d", pid), buf, (size_t)n))
				goto out;
			from += (size_t)n;
			budget -= (size_t)n;
		}
	}
	worked("the memory of process %d can be opened", pid);
out:
	close(mem);
}

ATTACK(memory_of_others)
{
	pid_t pids[70];
	size_t count = other_pids(pids, LEN(pids));

	for (size_t i = 0; i < count; i++) {
		static char byte[1];
		struct iovec local = {byte, 1}, remote = {(void *)(uintptr_t)byte, 1};

		search_memory(pids[i]);
		/* the address is most likely none of its: EFAULT is behind the permission check */
		if (process_vm_readv(pids[i], &local, 1, &remote, 1, 0) >= 0 || errno == EFAULT)
			worked("process_vm_readv of process %d", pids[i]);
		else if (errno == EPERM || errno == ESRCH || errno == ENOSYS)
			blocked("process_vm_readv: %s", strerrorname_np(errno));
		else
			surprise("process_vm_readv: %s", strerrorname_np(errno));
	}
}

static int seize(void *data)
{
	pid_t pid = *(pid_t *)data;

	/* it is let go when this child ends */
	if (ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 || ptrace(PTRACE_ATTACH, pid, 0, 0) == 0)
		return WORKED;
	return errno == EPERM || errno == ESRCH || errno == ENOSYS ? BLOCKED : UNTRIED;
}

ATTACK(trace_others)
{
	pid_t pids[70];
	size_t count = other_pids(pids, LEN(pids));

	for (size_t i = 0; i < count; i++) {
		int status = in_child(seize, &pids[i]);

		if (WIFEXITED(status) && WEXITSTATUS(status) == WORKED)
			worked("process %d can be traced", pids[i]);
		else if (WIFEXITED(status) && WEXITSTATUS(status) == BLOCKED)
			blocked("ptrace of process %d", pids[i]);
		else
			surprise("ptrace of process %d: status %x", pids[i], status);
	}
}

ATTACK(descriptors_of_others)
{
	pid_t pids[70];
	size_t count = other_pids(pids, LEN(pids));
	static char buf[4096];

	for (size_t i = 0; i < count; i++) {
		int pidfd = (int)syscall(SYS_pidfd_open, pids[i], 0);

		for (int fd = 0; pidfd >= 0 && fd < 64; fd++) {
			int got = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
			ssize_t n;

			if (got >= 0) {
				n = pread(got, buf, sizeof(buf), 0);
				if (n <= 0 ||
				    !leaks("a descriptor taken from another", buf, (size_t)n))
					worked("descriptor %d of process %d", fd, pids[i]);
				close(got);
			} else if (errno == EPERM || errno == ENOSYS || errno == ESRCH)
				blocked("pidfd_getfd: %s", strerrorname_np(errno));
			else if (errno != EBADF)
				surprise("pidfd_getfd: %s", strerrorname_np(errno));
		}
		if (pidfd < 0)
			blocked("pidfd_open of %d: %s", pids[i], strerrorname_np(errno));
		else
			close(pidfd);
		try_open(text("/proc/%d/fd", pids[i]), O_RDONLY);
	}
}

/* ---- keyrings ---- */

ATTACK(session_key)
{
	static char buf[256];
	static const int rings[] = {KEY_SPEC_SESSION_KEYRING, KEY_SPEC_USER_SESSION_KEYRING,
				    KEY_SPEC_USER_KEYRING};

	for (size_t i = 0; i < LEN(rings); i++) {
		long key = syscall(SYS_keyctl, KEYCTL_SEARCH, rings[i], "user",
				   arg_or("key", "attack"), 0);
		long len;

		if (key < 0) {
			REFUSED("a search for a key", key, ENOSYS, EPERM, EACCES, ENOKEY,
				EKEYREVOKED);
			continue;
		}
		worked("the session's key is found");
		len = syscall(SYS_keyctl, KEYCTL_READ, key, buf, sizeof(buf));
		if (len > 0)
			printf("%.*s\n", (int)len, buf); /* the host looks for it */
	}
}

ATTACK(key_lists)
{
	try_read("/proc/keys", true);
	try_read("/proc/key-users", true);
}

/* ---- agents and sockets ---- */

static void try_pattern(const char *pattern, void (*try)(const char *))
{
	glob_t found;

	if (glob(pattern, 0, NULL, &found) != 0) {
		blocked("nothing is named %s", pattern);
		return;
	}
	for (size_t i = 0; i < found.gl_pathc && i < 100; i++)
		try(found.gl_pathv[i]);
	globfree(&found);
}

ATTACK(ssh_agent)
{
	if (getenv("SSH_AUTH_SOCK"))
		try_connect(getenv("SSH_AUTH_SOCK"));
	if (arg("agent"))
		try_connect(arg("agent"));
	try_pattern("/tmp/ssh-*/agent.*", try_connect);
	try_pattern("/run/user/*/keyring/ssh", try_connect);
	try_pattern("/run/user/*/ssh-agent*", try_connect);
}

ATTACK(key_services)
{
	const char *bus = getenv("DBUS_SESSION_BUS_ADDRESS");

	if (bus && strncmp(bus, "unix:path=", 10) == 0)
		try_connect(text("%.*s", (int)strcspn(bus + 10, ","), bus + 10));
	if (bus && strncmp(bus, "unix:abstract=", 14) == 0)
		try_connect_abstract(text("%.*s", (int)strcspn(bus + 14, ","), bus + 14), 1);
	if (getenv("HOME"))
		try_connect(text("%s/.gnupg/S.gpg-agent", getenv("HOME")));
	if (arg("rundir"))
		try_connect(text("%s/bus", arg("rundir")));
	try_pattern("/run/user/*/bus", try_connect);
	try_pattern("/run/user/*/gnupg/S.gpg-agent*", try_connect);
	try_pattern("/run/user/*/keyring/*", try_connect);
}

/* ---- files ---- */

static void try_secret(const char *path)
{
	try_read(path, true);
}

ATTACK(dotfiles)
{
	static const char *const names[] = {".netrc",
					    ".git-credentials",
					    ".aws/credentials",
					    ".ssh/id_rsa",
					    ".ssh/id_ed25519",
					    ".kube/config",
					    ".docker/config.json",
					    ".npmrc",
					    ".pypirc",
					    ".cargo/credentials.toml",
					    ".m2/settings.xml",
					    ".config/gh/hosts.yml",
					    ".gnupg/secring.gpg",
					    ".config/gcloud/credentials.db",
					    ".azure/accessTokens.json",
					    ".vault-token",
					    ".terraform.d/credentials.tfrc.json",
					    ".bash_history",
					    ".pgpass",
					    ".config/git/credentials"};
	const char *homes[] = {getenv("HOME"), arg("home"), "/root", "/home/user"};

	for (size_t i = 0; i < LEN(homes); i++)
		for (size_t k = 0; homes[i] && k < LEN(names); k++)
			try_secret(text("%s/%s", homes[i], names[k]));
}

ATTACK(other_homes)
{
	const char *user = arg("user"), *home = getenv("HOME");
	FILE *file = fopen("/etc/passwd", "re");
	char line[1024];

	while (file && fgets(line, sizeof(line), file)) {
		char *fields[7] = {NULL};
		char *at = line;
		long uid;

		for (int i = 0; i < 7; i++)
			fields[i] = strsep(&at, ":\n");
		if (!fields[6] && !fields[5])
			continue;
		if (user && strcmp(fields[0], user) == 0)
			worked("/etc/passwd is the host's: it names %s", user);
		/* of system users home is a directory that anybody has */
		uid = strtol(fields[2], NULL, 10);
		if ((uid == 0 || uid >= 1000) && strcmp(fields[5], "/") != 0 &&
		    (!home || strcmp(fields[5], home) != 0) &&
		    strcmp(fields[5], "/nonexistent") != 0)
			try_open(fields[5], O_RDONLY | O_DIRECTORY);
	}
	if (file)
		fclose(file);
	blocked("no other home is named");
}

ATTACK(system_secrets)
{
	static const char *const patterns[] = {"/etc/shadow",
					       "/etc/shadow-",
					       "/etc/gshadow",
					       "/etc/ssl/private/*",
					       "/etc/ssh/ssh_host_*_key",
					       "/etc/krb5.keytab",
					       "/etc/sudoers",
					       "/etc/sudoers.d/*",
					       "/etc/NetworkManager/system-connections/*",
					       "/etc/wireguard/*",
					       "/var/lib/sss/secrets/*",
					       "/etc/machine-info"};

	for (size_t i = 0; i < LEN(patterns); i++)
		try_pattern(patterns[i], try_secret);
}

ATTACK(repository_token)
{
	static const char *const names[] = {".git/config",	 "../.git/config",
					    "../../.git/config", "/work/.git/config",
					    ".git/credentials",	 ".git"};

	for (size_t i = 0; i < LEN(names); i++)
		try_read(names[i], false);
	if (arg("repo"))
		try_read(text("%s/.git/config", arg("repo")), false);
}

ATTACK(container_sockets)
{
	static const char *const names[] = {"docker.sock",
					    "podman/podman.sock",
					    "containerd/containerd.sock",
					    "crio/crio.sock",
					    "buildkit/buildkitd.sock",
					    "k3s/containerd/containerd.sock",
					    "libvirt/libvirt-sock",
					    "snapd.socket"};
	const char *tops[] = {"/run", "/var/run", arg_or("rundir", "/run")};

	for (size_t i = 0; i < LEN(tops); i++)
		for (size_t k = 0; k < LEN(names); k++)
			try_connect(text("%s/%s", tops[i], names[k]));
	try_pattern("/run/user/*/podman/podman.sock", try_connect);
}

ATTACK(service_tokens)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");

	try_pattern("/var/run/secrets/kubernetes.io/serviceaccount/token", try_secret);
	try_pattern("/run/secrets/*", try_secret);
	try_pattern("/run/credentials/*/*", try_secret);
	try_pattern(text("%s/*", dir ? dir : arg_or("credentials", "/run/credentials")),
		    try_secret);
}

ATTACK(inherited_files)
{
	static char buf[4096];
	int count = 0;

	for (int fd = 3; fd < 1024; fd++) {
		ssize_t n;

		if (fcntl(fd, F_GETFD) < 0)
			continue;
		count++;
		n = pread(fd, buf, sizeof(buf), 0);
		if (n > 0)
			leaks(text("descriptor %d", fd), buf, (size_t)n);
		try_read(text("/proc/self/fd/%d", fd), false);
	}
	blocked("%d descriptors, none holds a secret", count);
}

static int crash(void *data)
{
	(void)data;
	abort();
}

ATTACK(core_files)
{
	struct rlimit limit;
	char pattern[256];
	glob_t found;
	int status;

	getrlimit(RLIMIT_CORE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_CORE, &limit);
	status = in_child(crash, NULL);
	if (WIFSIGNALED(status) && WCOREDUMP(status))
		worked("a core was written");
	if (glob("core*", 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			worked("%s was written", found.gl_pathv[i]);
		globfree(&found);
	}
	/* core(5): a pipe's handler gets a core whatever the limit is, unless it is 1 */
	if (read_path("/proc/sys/kernel/core_pattern", pattern, sizeof(pattern)) > 0 &&
	    (pattern[0] == '|' || pattern[0] == '@') && limit.rlim_cur != 1)
		worked("the host's handler (%.100s) gets cores", pattern);
	if (WIFSIGNALED(status))
		blocked("no core of a crash");
	else
		surprise("abort: status %x", status);
}

ATTACK(kernel_memory)
{
	static const char *const files[] = {"/dev/mem",
					    "/dev/port",
					    "/dev/kmem",
					    "/proc/kcore",
					    "/proc/kmsg",
					    "/proc/vmcore",
					    "/sys/kernel/tracing/trace"};
	FILE *symbols = fopen("/proc/kallsyms", "re");
	char line[256];

	for (size_t i = 0; i < LEN(files); i++)
		try_open(files[i], O_RDONLY);
	for (int i = 0; symbols && i < 100 && fgets(line, sizeof(line), symbols); i++)
		if (strtoull(line, NULL, 16))
			worked("/proc/kallsyms tells addresses");
	if (symbols)
		fclose(symbols);
}

static bool open_block_device(const char *path, unsigned char type)
{
	if (type == DT_BLK)
		try_open(path, O_RDONLY);
	return true;
}

ATTACK(block_devices)
{
	static const char *const names[] = {"/dev/sda",	    "/dev/vda",	  "/dev/nvme0n1",
					    "/dev/xvda",    "/dev/loop0", "/dev/dm-0",
					    "/dev/mmcblk0", "/dev/nbd0"};

	for (size_t i = 0; i < LEN(names); i++)
		try_open(names[i], O_RDONLY);
	walk("/dev", 2, open_block_device);
}

ATTACK(temporary_files)
{
	static const char *const dirs[] = {"/tmp", "/var/tmp", "/dev/shm", "/run/lock"};

	for (size_t i = 0; i < LEN(dirs); i++)
		try_read(text("%s/%s", dirs[i], arg_or("left", "attack-left")), true);
}

ATTACK(earlier_job)
{
	const char *dirs[] = {".", "/tmp", "/var/tmp", "/dev/shm", getenv("HOME"), "/run"};
	const char *name = arg_or("earlier", "attack-earlier");
	int made = 0;

	for (size_t i = 0; i < LEN(dirs); i++) {
		if (!dirs[i])
			continue;
		if (!arg("plant"))
			try_open(text("%s/%s", dirs[i], name), O_RDONLY);
		else
			made += write_path(text("%s/%s", dirs[i], name), "of an earlier job\n");
	}
	if (arg("plant"))
		done("%d files are left for a later job", made);
}

ATTACK(kernel_log)
{
	static char buf[4096];

	REFUSED("the kernel's log", klogctl(3, buf, sizeof(buf)), EPERM, EACCES, ENOSYS);
	REFUSED("the size of the kernel's log", klogctl(10, NULL, 0), EPERM, EACCES, ENOSYS);
	try_open("/dev/kmsg", O_RDONLY);
	try_open("/dev/kmsg", O_WRONLY);
}

ATTACK(aliases)
{
	const char *path = arg_or("file", "/etc/shadow");
	const char *names[] = {path,
			       text("/proc/self/root%s", path),
			       text("/proc/thread-self/root%s", path),
			       text("/proc/1/root%s", path),
			       text("/proc/self/cwd/../../../../../..%s", path),
			       text("/../../..%s", path),
			       text("/proc/self/fd/../../../../..%s", path),
			       text("/proc/1/cwd%s", path),
			       text("/proc/self/task/%d/root%s", getpid(), path)};

	for (size_t i = 0; i < LEN(names); i++)
		try_read(names[i], true);
}

static bool read_env_file(const char *path, unsigned char type)
{
	const char *name = strrchr(path, '/') + 1;

	if (type == DT_REG && strncmp(name, ".env", 4) == 0)
		try_read(path, false);
	return true;
}

ATTACK(nested_secrets)
{
	char cwd[4096];

	if (getcwd(cwd, sizeof(cwd)))
		walk(cwd, 12, read_env_file);
	blocked("the tree holds no file of secrets");
}

static bool own_state(const char *path, unsigned char type)
{
	const char *name = strrchr(path, '/') + 1;
	size_t len = strlen(name);

	if (type == DT_REG && len > 4 && strcmp(name + len - 4, ".bpf") == 0)
		worked("%s is there", path);
	if (strcmp(name, "agent-jail") == 0 && strncmp(path, "/opt/", 5) != 0 && type == DT_REG)
		worked("%s is there", path);
	return true;
}

ATTACK(sandbox_state)
{
	static const char *const names[] = {"scratch", "store"};

	for (size_t i = 0; i < LEN(names); i++)
		if (arg(names[i]))
			try_open(arg(names[i]), O_RDONLY | O_DIRECTORY);
	walk("/run", 6, own_state);
	walk("/etc", 4, own_state);
	walk("/var", 4, own_state);
	walk("/tmp", 4, own_state);
	try_open("/var/lib/agent", O_RDONLY | O_DIRECTORY);
}

ATTACK(same_user)
{
	if (arg("pid"))
		REFUSED("a signal to a process of the same user",
			kill((pid_t)arg_number("pid", 0), 0), ESRCH, EPERM);
	REFUSED("a signal to all of the same user", kill(-1, 0), ESRCH, EPERM);
}

ATTACK(side_channels)
{
	absent("caches and threads of the processor are shared; namespaces do not change that: "
	       "other hosts or core scheduling do");
}
