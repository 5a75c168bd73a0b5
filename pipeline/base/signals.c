#include "signals.h"

#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

void signals_reset(void)
{
	/* rt_sigaction(2) itself: glibc keeps 32 and 33 for its threads and refuses them, but
	 * somebody may have made us with them ignored. */
	const struct {
		void *handler; /* SIG_DFL */
		unsigned long flags;
		void *restorer;
		unsigned long mask;
	} action = {NULL, 0, NULL, 0};
	sigset_t none;

	for (int sig = 1; sig < _NSIG; sig++)
		syscall(SYS_rt_sigaction, sig, &action, NULL,
			sizeof(action.mask)); /* KILL, STOP: EINVAL */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}
