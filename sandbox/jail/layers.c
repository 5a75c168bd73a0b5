#include "layers.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/copy.h"
#include "sandbox/jail/parts.h"
#include "sandbox/jail/run.h"
#include "sandbox/jail/tree.h"

static void close_all(const int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* The go's bytes, and descriptors with them. */
static int send_go(struct jail_run *run, const struct jail_go *go, const int *fds, size_t count)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, JAIL_SPEC_MAX);
	jail_go_format(go, &text);
	if (parts_send_raw(run->payload_sock, text.data, text.len, fds, count) < 0 &&
	    !parts_peer_gone())
		return -1;
	return 0;
}

static int open_base(const char *path)
{
	return path ? tree_open_path(AT_FDCWD, path) : -1;
}

static const char *layer_name(const struct jail_go *go, size_t index)
{
	return index < go->layer_count ? go->layers[index]
				       : go->home_layers[index - go->layer_count];
}

/* One mount a layer. *mapped becomes false when their owners cannot be shown as the payload. */
static int open_mounts(struct jail_run *run, const struct jail_go *go, int *trees,
		       size_t *count, bool *mapped)
{
	int store AUTO_FD = open_base(run->spec.store),
		  scratch AUTO_FD = open_base(run->spec.scratch);
	size_t total = go->layer_count + go->home_count;

	for (*count = 0; *count < total && *mapped; ++*count) {
		const char *name = layer_name(go, *count);
		int fd AUTO_FD = tree_open_layer(store, scratch, name);

		trees[*count] = fd < 0 ? -1 : tree_clone(fd, false);
		if (trees[*count] < 0)
			return step_fail(run, "layer %s", name);
		*mapped = tree_give_to_payload(run, trees[*count]) == 0;
	}
	return 0;
}

int layers_send(struct jail_run *run, const struct jail_go *go)
{
	int trees[PARTS_MAX];
	size_t count = 0;
	bool mapped = true;
	int result;

	if (step_enter(run, STEP_go) < 0)
		return step_fail(run, "go");
	if (!run->separate || run->spec.copy_layers)
		return send_go(run, go, NULL, 0) < 0 ? step_fail(run, "go") : 0;
	result = open_mounts(run, go, trees, &count, &mapped);
	if (result == 0 && send_go(run, go, trees, mapped ? count : 0) < 0)
		result = step_fail(run, "go");
	close_all(trees, count);
	return result;
}

/* ---- copies ---- */

/* In the child: the payload's user, who may read what the layers' owner may. */
static int become_copier(const struct jail_run *run)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct caps[2] = {
	    {1U << CAP_DAC_READ_SEARCH, 1U << CAP_DAC_READ_SEARCH, 0}, {0, 0, 0}};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	umask(022);
	if (!run->separate)
		return 0;
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 ||
	    setresgid(run->gid, run->gid, run->gid) < 0 ||
	    setresuid(run->uid, run->uid, run->uid) < 0 || syscall(SYS_capset, &head, caps) < 0)
		return -1;
	return prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static int copy_one(int layer_fd, int target, struct jail_failure *failure, const char *name)
{
	int layer AUTO_FD =
	    layer_fd < 0 ? -1 : openat(layer_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char where[256] = "";

	if (layer >= 0 && copy_layer(layer, target, where, sizeof(where)) == 0)
		return 0;
	failure->err = errno;
	snprintf(failure->what, sizeof(failure->what), "layer %s cannot be copied: %s", name,
		 where);
	return -1;
}

/* From the lowest layer up. */
static int copy_all(const struct jail_run *run, const struct jail_go *go, char which,
		    int target, struct jail_failure *failure)
{
	char **names = which == 'w' ? go->layers : go->home_layers;
	size_t count = which == 'w' ? go->layer_count : go->home_count;
	int store AUTO_FD = open_base(run->spec.store),
		  scratch AUTO_FD = open_base(run->spec.scratch);

	if (which == 'w' && run->spec.work_dir) {
		int fd AUTO_FD = open_base(run->spec.work_dir);

		if (copy_one(fd, target, failure, run->spec.work_dir) < 0)
			return -1;
	}
	for (size_t i = count; i-- > 0;) {
		int fd AUTO_FD = tree_open_layer(store, scratch, names[i]);

		if (copy_one(fd, target, failure, names[i]) < 0)
			return -1;
	}
	return 0;
}

int layers_copy(struct jail_run *run, const struct jail_go *go, char which, int target)
{
	struct jail_failure failure = {
	    .step = STEP_layers, .err = EIO, .what = "the copy died"};
	int ends[2], status;
	pid_t pid;

	if (step_enter(run, STEP_layers) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return step_fail(run, "copy of the layers");
	pid = fork();
	if (pid == 0) {
		failure.what[0] = '\0';
		if (become_copier(run) < 0) {
			failure.err = errno;
			snprintf(failure.what, sizeof(failure.what),
				 "the copy cannot become uid %u", run->uid);
		} else {
			copy_all(run, go, which, target, &failure);
		}
		_exit(write(ends[1], &failure, sizeof(failure)) == sizeof(failure) ? 0 : 1);
	}
	close(ends[1]);
	if (pid > 0) {
		if (read(ends[0], &failure, sizeof(failure)) != sizeof(failure))
			snprintf(failure.what, sizeof(failure.what), "the copy died");
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			continue;
	}
	close(ends[0]);
	if (!failure.what[0])
		return 0;
	failure.what[sizeof(failure.what) - 1] = '\0';
	errno = failure.err;
	return step_fail(run, "%s", failure.what);
}
