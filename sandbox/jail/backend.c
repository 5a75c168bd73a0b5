#include "backend.h"

#include <errno.h>

#include "sandbox/jail/gvisor.h"
#include "sandbox/jail/rootfs.h"
#include "sandbox/jail/run.h"

#define BIT(name) (1ULL << STEP_##name)

/* Namespaces and file system: built in the same way for every backend. */
#define BUILT                                                                                  \
	(BIT(userns) | BIT(mountns) | BIT(pidns) | BIT(ipcns) | BIT(utsns) | BIT(netns) |      \
	 BIT(init) | BIT(session) | BIT(proc) | BIT(root) | BIT(dev) | BIT(work) | BIT(home) | \
	 BIT(pivot))

static const struct backend backends[JAIL_BACKEND_COUNT] = {
    [JAIL_NATIVE] = {.root = rootfs_pivot,
		     .enter = native_enter,
		     .observes = true,
		     .layers = BUILT | BIT(cgroupns) | BIT(ids) | BIT(nesting) | BIT(rlimits) |
			       BIT(caps) | BIT(nnp) | BIT(landlock) | BIT(seccomp) |
			       BIT(selftest)},
    /* no Landlock: that kernel has none, and around runsc there can be none, since it mounts */
    [JAIL_GVISOR] = {.find = gvisor_find,
		     .root = gvisor_root,
		     .enter = gvisor_enter,
		     .processes = gvisor_processes,
		     .far = true,
		     .layers = BUILT | BIT(cgroupns) | BIT(gvisor) | BIT(ids) | BIT(rlimits) |
			       BIT(caps) | BIT(nnp) | BIT(seccomp) | BIT(selftest)},
};

const struct backend *backend_of(const struct jail_spec *spec)
{
	return &backends[spec->backend];
}

int backend_check_layers(struct jail_run *run)
{
	uint64_t missing = backend_of(&run->spec)->layers & ~run->done;

	for (unsigned i = 0; i < STEP_COUNT; i++) {
		if (!(missing & 1ULL << i))
			continue;
		errno = 0;
		run->step = (enum jail_step)i;
		return step_fail(run,
				 "this layer is mandatory for the backend %s and is not there",
				 jail_backend_text(run->spec.backend));
	}
	return 0;
}
