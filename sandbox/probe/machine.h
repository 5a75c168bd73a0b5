/*
 * What a machine offers for jails, by trying it: each try in a process of its own, which then ends, so
 * nothing stays. For agent doctor, which runs it outside of any jail.
 *
 * A line a try on standard output, four fields between tabs: NAME, "yes", "no" or "part", what was
 * found or what failed and why, what to do about it ("" when nothing is to be done).
 */
#ifndef PROBE_MACHINE_H
#define PROBE_MACHINE_H

/* dir: on the file system that layers lie on. 0, or 1 when a try could not be started. */
int machine_try(const char *dir);

#endif
