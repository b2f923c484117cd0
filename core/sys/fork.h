/* SPDX-License-Identifier: MIT */
/*
 * fork.h - tells a forked child from its parent (C10) without a system call.
 *
 * The generation lives in a page that the kernel empties in every child (MADV_WIPEONFORK), so that
 * fork, _Fork and clone alike are noticed; a handler of pthread_atfork empties it, too, for kernels
 * and emulators that do not.
 */
#ifndef DL_FORK_H
#define DL_FORK_H

#include <stdint.h>

/* The generation of this process, made on first use; 0: no memory for it. */
uint64_t dl_fork_generation(void);

/* Async-signal-safe. Non-zero: `generation` was taken in another process. */
int dl_fork_differs(uint64_t generation);

#endif
