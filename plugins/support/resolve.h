/* SPDX-License-Identifier: MIT */
/*
 * resolve.h - the addresses of a host, by a deadline.
 *
 * Numbers are read at once. A name is looked up by a thread of its own, because the resolver of the
 * C library cannot be stopped: at the deadline the thread is left to itself, and ends when the
 * resolver lets it.
 */
#ifndef SUPPORT_RESOLVE_H
#define SUPPORT_RESOLVE_H

#include <dlock/plugin.h>
#include <netdb.h>
#include <stdint.h>

/* 0 and *out, to be freed by freeaddrinfo; else a value of EAI_*. EAI_AGAIN: no answer in time. */
int resolve_host(const char *host, uint16_t port, const struct dlock_host *clock,
                 int64_t deadline_ns, struct addrinfo **out);

#endif
