/* What configuration says about every jail, of tests and of warms alike. */
#ifndef PIPELINE_JAILCONF_H
#define PIPELINE_JAILCONF_H

#include <stdbool.h>

struct config;
struct error;
struct jail_spec;

/* [jail] backend and runsc. 0 or ERROR_USAGE. */
int jailconf_backend(const struct config *config, struct jail_spec *spec, struct error *err);

/* [jail] scratch. */
bool jailconf_on_disk(const struct config *config);

#endif
