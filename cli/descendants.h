/* SPDX-License-Identifier: MIT */
/*
 * descendants.h - the processes that this process and its children have started, in whatever group
 * or session they are. A process whose parent has ended becomes a child of this one, so that no
 * descendant gets out of sight. Processes that another service starts on request (at, cron,
 * systemd-run, a container engine, a running tmux) are none.
 *
 * A descendant may start another one while it is counted or before a signal reaches it: repeat the
 * call until none is left.
 */
#ifndef CLI_DESCENDANTS_H
#define CLI_DESCENDANTS_H

#include "proc_stat.h"

#include <stddef.h>

struct descendants {
    pid_t kept; /* a child that its owner reaps; 0: none */

    size_t living;  /* those that had not ended */
    size_t refused; /* of these: those of another user, which the signal does not reach */
    struct proc_stat stubborn; /* the first of the refused */

    struct proc_stat
        *elders; /* were there before, as children that this process inherited by exec */
    size_t elder_count;
};

/* From now on this process becomes the parent of each descendant whose parent ends. Those that it
 * has now do not count. 0 or an errno; after 0: descendants_fini. */
int descendants_init(struct descendants *descendants);
void descendants_fini(struct descendants *descendants);

/* Reaps the children that have ended, up to the child `kept`; 0: all of them. */
void descendants_reap(pid_t kept);

/* Counts them. There are none where /proc is missing, or shows another PID namespace. */
void descendants_count(struct descendants *descendants);

/* Counts them, and sends SIGTERM and SIGCONT to each that is not in this process group; 0: to all.
 */
void descendants_term(struct descendants *descendants, pid_t group);

/* Counts them, and sends SIGKILL to each. */
void descendants_kill(struct descendants *descendants);

#endif
