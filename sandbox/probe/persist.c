/*
 * Attacks that outlast the run: section 2.4. See probe.h.
 *
 * Almost all of them write into the tree, HOME or /tmp, which is allowed; what counts is that the host's stay as they are, and that
 * nothing goes on running. The host compares.
 */
#include "sandbox/probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

struct file {
	const char *path, *content;
};

static void make_parents(const char *path)
{
	char copy[4096];

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(copy, 0777);
		*slash = '/';
	}
}

/* Writes below base; what it could write is for the host to judge. */
static void plant(const char *base, const struct file *files, size_t count)
{
	size_t made = 0;
	int error = 0;

	for (size_t i = 0; i < count; i++) {
		const char *path = text("%s/%s", base, files[i].path);

		make_parents(path);
		if (write_path(path, files[i].content)) {
			made++;
			chmod(path, 0777);
		} else
			error = errno;
	}
	if (made)
		done("%zu files were written in %s", made, base);
	else {
		errno = error;
		REFUSED(text("files in %s", base), -1, EROFS, EACCES, EPERM, ENOENT, ENOTDIR,
			EXDEV);
	}
}

#define PLANT(base, ...)                                                                       \
	do {                                                                                   \
		static const struct file files[] = {__VA_ARGS__};                              \
		plant(base, files, LEN(files));                                                \
	} while (0)

ATTACK(git_hooks)
{
	PLANT(".git/hooks", {"pre-commit", "#!/bin/sh\ntouch /tmp/attack\n"},
	      {"post-checkout", "#!/bin/sh\n"}, {"pre-push", "#!/bin/sh\ntouch /tmp/attack\n"},
	      {"reference-transaction", "#!/bin/sh\n"});
}

ATTACK(git_config)
{
	PLANT(".git",
	      {"config", "[core]\n\tfsmonitor = touch /tmp/attack\n\tsshCommand = touch "
			 "/tmp/attack\n\tpager = touch\n"
			 "\thooksPath = .\n[diff]\n\texternal = touch\n[credential]\n\thelper "
			 "= !touch /tmp/attack\n"
			 "[alias]\n\tpush = !touch /tmp/attack\n[gpg]\n\tprogram = touch\n"});
}

ATTACK(git_includes)
{
	PLANT(".git", {"config.worktree", "[core]\n\tfsmonitor = touch /tmp/attack\n"},
	      {"more", "[core]\n\teditor = touch /tmp/attack\n"},
	      {"config", "[extensions]\n\tworktreeConfig = true\n[include]\n\tpath = more\n"});
}

ATTACK(git_links)
{
	PLANT("evil.git", {"HEAD", "ref: refs/heads/main\n"},
	      {"config", "[core]\n\tfsmonitor = touch /tmp/attack\n"},
	      {"commondir", "../evil2.git\n"});
	unlink(".git");
	rename(".git", ".git.old");
	if (write_path(".git", "gitdir: ./evil.git\n"))
		done("the tree's .git names another repository");
}

ATTACK(git_attributes)
{
	PLANT(".", {".gitattributes", "* filter=evil diff=evil merge=evil\n"},
	      {".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=touch "
			      "/tmp/attack\n\tupdate = !touch\n"});
}

ATTACK(git_objects)
{
	PLANT(".git", {"objects/info/alternates", "/tmp/evil/objects\n"}, {"info/grafts", "\n"},
	      {"shallow", "\n"},
	      {"refs/replace/0123456789012345678901234567890123456789",
	       "0123456789012345678901234567890123456789\n"});
}

ATTACK(tool_files)
{
	PLANT(".", {".envrc", "touch /tmp/attack\n"}, {".vscode/tasks.json", "{}\n"},
	      {".mcp.json", "{}\n"}, {"AGENTS.md", "run this\n"}, {".editorconfig", "\n"},
	      {"Makefile", "all:\n\ttouch /tmp/attack\n"},
	      {"package.json", "{\"scripts\": {\"prepare\": \"touch /tmp/attack\"}}\n"},
	      {".claude/settings.json", "{}\n"}, {".idea/workspace.xml", "<x/>\n"},
	      {"conftest.py", "import os\n"});
}

static const char *home(void)
{
	return getenv("HOME") ? getenv("HOME") : "/home/agent";
}

ATTACK(user_files)
{
	PLANT(home(), {".bashrc", "touch /tmp/attack\n"}, {".profile", "touch /tmp/attack\n"},
	      {".config/autostart/x.desktop", "[Desktop Entry]\nExec=touch\n"},
	      {".gitconfig", "[core]\n\tpager = touch\n"},
	      {".config/systemd/user/x.service", "[Service]\nExecStart=touch\n"});
}

ATTACK(shared_caches)
{
	PLANT(home(), {".cargo/registry/cache/x.crate", "poison\n"},
	      {".npm/_cacache/index", "poison\n"}, {".cache/pip/x", "poison\n"},
	      {".cache/go-build/00/x-d", "poison\n"}, {".m2/repository/x.jar", "poison\n"},
	      {".ccache/0/x", "poison\n"}, {"cache-of-deps", "poison\n"});
}

ATTACK(toolchain)
{
	const char *dirs[] = {arg_or("toolchain", "/opt/toolchain"),
			      "/usr/lib/python3/dist-packages",
			      "/usr/local/bin",
			      "/usr/bin",
			      "/usr/lib/node_modules",
			      "/opt",
			      "/etc"};

	for (size_t i = 0; i < LEN(dirs); i++)
		PLANT(dirs[i], {"attack.pth", "import os\n"},
		      {"sitecustomize.py", "import os\n"});
	try_open("/usr/bin/env", O_WRONLY);
	try_open(text("%s/tool", dirs[0]), O_WRONLY);
}

ATTACK(daemon_left)
{
	/* twice: one that has left the session, one that sits in a stopped group of its own */
	for (int i = 0; i < 2; i++) {
		if (fork() == 0) {
			if (fork() > 0)
				_exit(0);
			if (i == 0)
				setsid();
			else
				setpgid(0, 0);
			for (int sig = 1; sig < 32; sig++)
				signal(sig, SIG_IGN);
			for (int fd = 0; fd < 3; fd++)
				close(fd);
			for (int second = 0; second < 20; second++)
				sleep(1);
			_exit(0);
		}
	}
	usleep(20000);
	done("two daemons are left");
}

ATTACK(schedulers)
{
	static const char *const sockets[] = {"systemd/private", "dbus/system_bus_socket",
					      "cron/x", "atd.pid"};
	static const char *const spools[] = {
	    "/var/spool/cron/crontabs", "/var/spool/cron",    "/var/spool/at",
	    "/var/spool/cron/atjobs",	"/etc/cron.d",	      "/etc/cron.hourly",
	    "/var/spool/anacron",	"/etc/systemd/system"};

	for (size_t i = 0; i < LEN(sockets); i++) {
		try_connect(text("/run/%s", sockets[i]));
		try_connect(text("%s/%s", arg_or("rundir", "/run"), sockets[i]));
	}
	for (size_t i = 0; i < LEN(spools); i++) {
		const char *path = text("%s/%s", spools[i], mark());
		int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		if (fd >= 0) {
			worked("a job could be left in %s", spools[i]);
			unlink(path);
			close(fd);
		} else
			REFUSED(text("a job in %s", spools[i]), -1, ENOENT, EACCES, EPERM,
				EROFS, ENOTDIR);
	}
}

ATTACK(plant_key)
{
	static const int rings[] = {KEY_SPEC_SESSION_KEYRING, KEY_SPEC_USER_KEYRING,
				    KEY_SPEC_USER_SESSION_KEYRING};

	for (size_t i = 0; i < LEN(rings); i++) {
		long key =
		    syscall(SYS_add_key, "user", mark(), "planted by an attack", 20, rings[i]);

		if (key < 0) {
			REFUSED("a key", key, ENOSYS, EPERM, EACCES, EDQUOT, ENOKEY);
			continue;
		}
		worked("a key was left");
		if (rings[i] !=
		    KEY_SPEC_SESSION_KEYRING) /* the host finds the other and takes it away */
			syscall(SYS_keyctl, KEYCTL_UNLINK, key, rings[i]);
	}
}

ATTACK(future_times)
{
	static const char *const names[] = {"main.o", "build/main.o",
					    "__pycache__/x.cpython-311.pyc", "target/debug/x"};
	const struct timespec far[2] = {{4102444800, 0}, {4102444800, 0}};
	int made = 0;

	for (size_t i = 0; i < LEN(names); i++) {
		make_parents(names[i]);
		made += write_path(names[i], "prebuilt\n") &&
			utimensat(AT_FDCWD, names[i], far, 0) == 0;
	}
	made += utimensat(AT_FDCWD, "src/main.c", far, 0) == 0;
	if (made)
		done("%d files are from the future", made);
	else
		REFUSED("files from the future", -1, EROFS, EACCES, EPERM, ENOENT);
}

ATTACK(next_stage)
{
	PLANT(".", {"git", "#!/bin/sh\ntouch /tmp/attack\n"}, {"sh", "#!/bin/sh\n"},
	      {"json.py", "import os\n"}, {"node_modules/.bin/node", "#!/bin/sh\n"},
	      {".gitconfig", "[core]\n\tpager = touch\n"}, {"usr/bin/git", "#!/bin/sh\n"});
}

/* Flags of descriptors that the host shares, and its terminal's modes. */
ATTACK(terminal_state)
{
	struct termios modes;
	int changed = 0;

	for (int fd = 0; fd < 3; fd++) {
		int flags = fcntl(fd, F_GETFL);

		if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK | O_APPEND) == 0)
			changed++;
		if (tcgetattr(fd, &modes) == 0) {
			modes.c_lflag &= ~(tcflag_t)(ECHO | ICANON);
			if (tcsetattr(fd, TCSANOW, &modes) == 0)
				worked("the terminal's modes are changed");
		}
	}
	done("flags of %d descriptors were changed", changed);
}

ATTACK(left_cgroup)
{
	const char *tops[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids",
			      "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"};

	for (size_t i = 0; i < LEN(tops); i++) {
		const char *path = text("%s/%s", tops[i], mark());

		if (mkdir(path, 0700) == 0) {
			worked("a group was made in %s", tops[i]);
			rmdir(path);
		} else
			REFUSED(text("a group in %s", tops[i]), -1, ENOENT, EACCES, EPERM,
				EROFS);
	}
}

ATTACK(home_state)
{
	PLANT(home(), {".ssh/known_hosts", "evil ssh-rsa AAAA\n"}, {".bash_history", "evil\n"},
	      {".pki/nssdb/cert9.db", "evil\n"},
	      {".config/git/config", "[http]\n\tsslVerify = false\n"},
	      {".mozilla/firefox/profiles.ini", "evil\n"});
}
