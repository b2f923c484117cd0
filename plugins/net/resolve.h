/* SPDX-License-Identifier: MIT */
/*
 * resolve.h - the addresses of a host, by a deadline.
 *
 * Numbers are read at once. A name is looked up by a thread of its own, because the resolver of the
 * C library cannot be stopped: at the deadline the thread is left to itself, and ends when the
 * resolver lets it. With RESOLVE_LEFT_MOST of them left in a process no other one is begun.
 */
#ifndef NET_RESOLVE_H
#define NET_RESOLVE_H

#include <dlock/plugin.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

#define RESOLVE_LEFT_MOST 8

/* 0 and *out, to be freed by freeaddrinfo; else a value of EAI_*. EAI_AGAIN: no answer in time,
 * or too many that had none. */
int resolve_host(const char *host, uint16_t port, const struct dlock_host *clock,
                 int64_t deadline_ns, struct addrinfo **out);

/*
 * The same without waiting. resolve_number: 0 for a number, else it is a name, and resolve_begin
 * starts to look it up; NULL: no memory, or too many are left. resolve_poll: false while there is
 * no answer; true ends the look-up with a result as above. resolve_abandon ends it without one;
 * NULL is fine.
 */
struct resolve_job;
int resolve_number(const char *host, uint16_t port, struct addrinfo **out);
struct resolve_job *resolve_begin(const char *host, uint16_t port);
bool resolve_poll(struct resolve_job *job, int *result, struct addrinfo **out);
void resolve_abandon(struct resolve_job *job);

#endif
