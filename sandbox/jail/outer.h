/* agent-jail as it was started: see run.h. */
#ifndef JAIL_OUTER_H
#define JAIL_OUTER_H

/* Runs one jail from FD_SPEC to FD_FACTS. fault: name of the step that shall fail, in test
 * builds; NULL. Returns the exit status. */
int outer_main(const char *fault);

#endif
