#include "jailconf.h"

#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/config.h"
#include "sandbox/jail_spec.h"

int jailconf_backend(const struct config *config, struct jail_spec *spec, struct error *err)
{
	const char *runsc = config_get(config, "jail.runsc");

	if (jail_backend_parse(config_get(config, "jail.backend"), &spec->backend) < 0)
		return error_set(err, ERROR_USAGE, "jail.backend = %s: no such backend",
				 config_get(config, "jail.backend"));
	if (spec->backend != JAIL_GVISOR || !runsc)
		return 0;
	if (runsc[0] != '/') {
		error_set(err, ERROR_USAGE, "jail.runsc = %s: not an absolute path", runsc);
		return error_next(err, "write where the program is, such as /usr/bin/runsc");
	}
	spec->runtime = mem_strdup(runsc);
	return 0;
}

bool jailconf_on_disk(const struct config *config)
{
	return strcmp(config_get(config, "jail.scratch"), "disk") == 0;
}
