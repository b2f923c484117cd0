/* SPDX-License-Identifier: MIT */
/*
 * resolve.h - the addresses of a host, by a deadline.
 *
 * Numbers are parsed at once. A thread of its own looks up a name, because the resolver of the C
 * library cannot be stopped. At the deadline the thread is abandoned: it ends, and frees its job,
 * when the resolver returns. While RESOLVE_LEFT_MOST abandoned threads of a process have not ended,
 * no new lookup starts. In a child of a fork that count begins at 0.
 *
 * resolve_host waits. The other functions serve connections that are made in steps.
 */
#ifndef NET_RESOLVE_H
#define NET_RESOLVE_H

#include <dlock/plugin.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

#define RESOLVE_LEFT_MOST 8

/* Returns 0 and sets *out, to be freed by freeaddrinfo, or returns a value of EAI_*. EAI_AGAIN: no
 * answer in time, or too many abandoned threads. */
int resolve_host(const char *host, uint16_t port, const struct dlock_host *clock,
                 int64_t deadline_ns, struct addrinfo **out);

/*
 * The same without waiting. resolve_number returns 0 for a number; otherwise host is a name, and
 * resolve_begin starts the lookup (NULL: no memory, or too many abandoned threads). resolve_poll
 * returns false while there is no answer, and true, with a result as above, when it has ended the
 * lookup. resolve_abandon ends the lookup without a result; NULL is fine.
 */
struct resolve_job;
int resolve_number(const char *host, uint16_t port, struct addrinfo **out);
struct resolve_job *resolve_begin(const char *host, uint16_t port);
bool resolve_poll(struct resolve_job *job, int *result, struct addrinfo **out);
void resolve_abandon(struct resolve_job *job);

#endif
