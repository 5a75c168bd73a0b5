#include "receive.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/base/mem.h"

void receive_init(struct receive *receive, const char *path, const char *home, const char *user,
		  const char *run)
{
	size_t n = 0, own = 0;

	*receive = (struct receive){.argv = {"git", "receive-pack", path, NULL}};
	receive->env[n++] = "PATH=/usr/local/bin:/usr/bin:/bin";
	receive->env[n++] = "LANG=C.UTF-8";
	receive->env[n++] = receive->owned[own++] =
	    mem_printf("HOME=%s", home ? home : "/nonexistent");
	if (user) {
		receive->env[n++] = receive->owned[own++] = mem_printf("USER=%s", user);
		receive->env[n++] = receive->owned[own++] = mem_printf("LOGNAME=%s", user);
	}
	receive->env[n++] = receive->owned[own++] = mem_printf("AGENT_RUN=%s", run);
}

int receive_add(struct receive *receive, const char *pair)
{
	size_t len = strcspn(pair, "="), at = 0, own = 0;

	while (receive->env[at] && strncmp(receive->env[at], pair, len + 1) != 0)
		at++;
	while (own < RECEIVE_ENV && receive->owned[own])
		own++;
	if (!len || !pair[len] || at >= RECEIVE_ENV - 1 || own >= RECEIVE_ENV)
		return -1;
	receive->env[at] = receive->owned[own] = mem_strdup(pair);
	return 0;
}

void receive_release(struct receive *receive)
{
	for (size_t i = 0; i < RECEIVE_ENV; i++)
		free(receive->owned[i]);
	*receive = (struct receive){.argv = {NULL}};
}
