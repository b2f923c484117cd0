/* SPDX-License-Identifier: MIT */
/* bare_zookeeper.h - libzookeeper_st with as little around it as will do: one session, used by one
 * thread, which sends requests by the zoo_a* functions and polls for the answers. */
#ifndef BENCH_BARE_ZOOKEEPER_H
#define BENCH_BARE_ZOOKEEPER_H

#include "address.h"

#include <zookeeper/zookeeper.h>

/* -1 and why, always. rc: ZNONODE and the like. */
int bench_zookeeper_failed(int rc, char *why);

/* Waits until the session is there. NULL: why. */
zhandle_t *bench_zookeeper_connect(const struct bench_address *address, char *why);
/* NULL is fine. */
void bench_zookeeper_close(zhandle_t *handle);

/* Waits until something can be read, or the library has something to do, and lets the library do
 * it: completions and watchers are called in here. 0, or -1 and why. */
int bench_zookeeper_step(zhandle_t *handle, char *why);

#endif
