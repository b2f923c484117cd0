/* SPDX-License-Identifier: MIT */
/*
 * relay.h - a process that passes bytes between clients and one server, and can fall silent: the
 * connections stay, and no byte passes any more.
 */
#ifndef BENCH_RELAY_H
#define BENCH_RELAY_H

#include "work.h"

#include <sys/types.h>

struct bench_relay {
    pid_t pid;
    char uri[600]; /* of the server, by way of the relay */
};

/* For the one server of the URI, which has to say its port. 0, or -1 and why. */
int bench_relay_start(struct bench_relay *relay, const char *uri, char *why);
void bench_relay_silence(const struct bench_relay *relay);
void bench_relay_stop(const struct bench_relay *relay);

#endif
