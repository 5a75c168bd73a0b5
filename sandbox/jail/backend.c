#include "backend.h"

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
