/* The value that gen_filters.c writes where a filter must compare with the process's own id;
 * restrict.c replaces it before it installs the filter. Larger than any process id (pid_max is
 * 2^22). */
#ifndef SANDBOX_FILTER_SELF_H
#define SANDBOX_FILTER_SELF_H

#define FILTER_SELF_MARK 0x5e1f5e1fu

#endif
