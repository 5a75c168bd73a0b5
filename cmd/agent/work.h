/* agent work: what its files share. work.c is the worker, work_help.c what it does beside its jobs. */
#ifndef CMD_AGENT_WORK_H
#define CMD_AGENT_WORK_H

/* The environment of a worker's processes: some of its own variables, and no other (laws L2, L5). Owned by the caller:
 * work_env_free. */
char **work_env(void);
void work_env_free(char **env);

#endif
