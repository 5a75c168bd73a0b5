/* What the main program hands to notes.c. */
#ifndef PROBE_ARGUMENTS_H
#define PROBE_ARGUMENTS_H

void arguments_set(char **argv); /* borrowed, ended by NULL */

#endif
