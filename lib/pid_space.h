/* SPDX-License-Identifier: MIT */
/* pid_space.h - which processes the number of a process counts: containers with one host name have
 * numbers of their own. */
#ifndef LIB_PID_SPACE_H
#define LIB_PID_SPACE_H

#include <stdbool.h>

#define DL_PID_SPACE_SIZE 9

/*
 * Eight hex digits, the same for two processes that are in one PID namespace, since one boot of one
 * machine. "": not known, because /proc is missing, or dl_pid_space_is_in_proc is false.
 */
void dl_pid_space_read(char out[DL_PID_SPACE_SIZE]);

/* True: /proc has the numbers of this process' own PID namespace, and not those of another one. */
bool dl_pid_space_is_in_proc(void);

#endif
