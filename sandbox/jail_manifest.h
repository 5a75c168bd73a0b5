/*
 * What a jail of ours holds by default: the toolchain of the distribution as a list of mounts,
 * and the whole environment of the payload. The supervisor fills specs with it. Looks at the
 * file system (stat, readlink), changes nothing. Never lists a directory that may hold sockets,
 * secrets or state (/run, /var, /root, /home, /opt).
 */
#ifndef SANDBOX_JAIL_MANIFEST_H
#define SANDBOX_JAIL_MANIFEST_H

struct error;
struct jail_spec;

/* Adds the distribution's toolchain, read-only, and the default environment. */
void jail_manifest_default(struct jail_spec *spec);

/*
 * Adds a directory or file of the operator's `[jail] path`, read-only at the same place inside;
 * a link on the way is followed here, and the path as written is made inside as a link to it. Its
 * "bin", or itself when it is named so, or the directory of a single program, is put in front of
 * PATH, so call it after jail_manifest_default and before the spec is formatted. 0, or
 * ERROR_USAGE.
 */
int jail_manifest_add_path(struct jail_spec *spec, const char *path, struct error *err);

#endif
