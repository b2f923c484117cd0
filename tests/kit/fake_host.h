/* SPDX-License-Identifier: MIT */
/*
 * fake_host.h - core's side of plugin.h for tests that call a plugin's slots themselves: a host
 * whose clock the test moves, a target made of literals, requests with tokens that tell apart.
 */
#ifndef DLT_FAKE_HOST_H
#define DLT_FAKE_HOST_H

#include "ruler.h"

#include <dlock/plugin.h>
#include <stdatomic.h>

#define DLT_NS_PER_MS INT64_C(1000000)

struct dlt_host {
    struct dlock_host table; /* table.ctx is this struct: it must not move */
    int runs;                /* non-zero: CLOCK_BOOTTIME, and now_ns more */
    _Atomic int64_t now_ns;
    _Atomic unsigned logs;                                     /* calls of log with a warning */
    char logged[256];                                          /* the first of its lines */
    _Atomic unsigned connections[DLOCK_CONNECTION_BROKEN + 1]; /* counted, by event */
    _Atomic uint64_t caps; /* that no session_caps left out; all at first */
};

/* [CNT-1] What was counted of connections since the last call: "made, failed, broken", in a buffer
 * of its own. */
const char *dlt_host_counted(struct dlt_host *host);
/* A clock that stands still, a day after boot. */
void dlt_host_init(struct dlt_host *host);
/* The real clock. */
void dlt_host_init_running(struct dlt_host *host);
void dlt_host_advance(struct dlt_host *host, int64_t ms);
int64_t dlt_host_now(struct dlt_host *host);
/* dlt_within (ruler.h), for begin_ns of dlt_host_now and a host that runs. */
int dlt_host_within(struct dlt_host *host, int64_t begin_ns, int64_t most_ms);
/* The moment in timeout_ms. */
int64_t dlt_host_in(struct dlt_host *host, int64_t timeout_ms);

struct dlt_target {
    struct dlock_target target;
    const char *hosts[3];
};

/* dlock_target.read_secret of targets that have their secrets in `password` and `option`. */
int dlt_read_secret(const struct dlock_target *target, const char *option, char *buf, size_t size,
                    struct dlock_error *err);

/* scheme://host path; host NULL: none. No user, no options. */
void dlt_target_init(struct dlt_target *target, const char *scheme, const char *host,
                     const char *path);

#define DLT_ATTEMPT_SIZE 1024
#define DLT_RENEW_MAX    512

struct dlt_request {
    struct dlock_request req;
    _Alignas(16) unsigned char attempt[DLT_ATTEMPT_SIZE];
};

/* An exclusive request for a name, with a token of 16 bytes `owner`, due in 1 s. */
void dlt_request_init(struct dlt_request *request, struct dlt_host *host, const char *name,
                      unsigned char owner, int64_t ttl_ms);

/* The slot renew of a table, for an array of operations. */
enum dlock_status dlt_renew_many(const struct dlock_backend_ops *table, void *self,
                                 struct dlock_lease_op *ops, size_t n, int64_t deadline_ns,
                                 struct dlock_error *err);

#endif
