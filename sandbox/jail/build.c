#include "build.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "sandbox/jail/parts.h"
#include "sandbox/jail/rootfs.h"
#include "sandbox/jail/run.h"
#include "sandbox/jail/tree.h"

/*
 * The go from outer: the bytes that the starter sent, checked already, and with a uid of the
 * payload's own the layers' mounts. *fds is an array of *count owned descriptors. 0 or -1.
 */
static int receive_go(struct jail_run *run, struct jail_go *go, int fds[PARTS_MAX],
		      size_t *count)
{
	static char text[JAIL_SPEC_MAX];
	struct error err = {0};
	long len = parts_receive_raw(run->payload_sock, text, JAIL_SPEC_MAX, fds, count);

	if (len == 0)
		_exit(0); /* outer is gone, or there will be no go */
	if (len < 0 || jail_go_parse(text, (size_t)len, go, &err) < 0)
		return step_fail(run, "the go cannot be read %s", err.message);
	return 0;
}

static int receive_parts(struct jail_run *run)
{
	if (step_enter(run, STEP_parts) < 0 || parts_receive(run) < 0)
		return step_fail(run, "parts");
	step_done(run);
	return 0;
}

int build_begin(struct jail_run *run, struct rootfs *fs)
{
	if (rootfs_prepare(run, fs) < 0 || receive_parts(run) < 0)
		return -1;
	return rootfs_take_proc(run, fs);
}

int build_root(struct jail_run *run, struct rootfs *fs)
{
	struct jail_packet prepared = {.message = MSG_PREPARED};
	struct jail_go go;
	int layers[PARTS_MAX];
	size_t count;

	if (rootfs_fill(run, fs) < 0)
		return -1;
	if (step_enter(run, STEP_go) < 0 || packet_send(run->payload_sock, &prepared, -1) < 0 ||
	    receive_go(run, &go, layers, &count) < 0)
		return step_fail(run, "go");
	if (run->separate && !count)
		run->spec.copy_layers = true; /* outer could not map their owners */
	else if (run->separate && count != go.layer_count + go.home_count)
		return step_fail(run, "the go lacks layers");
	step_done(run);
	if (tree_give_writable(run) < 0)
		return -1;
	if (rootfs_lay_out(run, fs, &go, run->separate ? layers : NULL) < 0)
		return -1;
	return rootfs_place_proc(run, fs);
}
