/* Signals as a new program should find them. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

/* Every disposition the default, none blocked. Between fork and exec: async-signal-safe. */
void signals_reset(void);

#endif
