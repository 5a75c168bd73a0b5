/* What main.c hands to notes.c. */
#ifndef ATTACK_MAIN_H
#define ATTACK_MAIN_H

void arguments_set(char **argv); /* borrowed, ended by NULL */

#endif
