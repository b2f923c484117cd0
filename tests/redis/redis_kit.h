/* SPDX-License-Identifier: MIT */
/*
 * redis_kit.h - sessions of the redis plugin, opened through its table by a test that is its own
 * core. The host's clock runs.
 */
#ifndef DLT_REDIS_KIT_H
#define DLT_REDIS_KIT_H

#include "fake_host.h"
#include "redis_server.h"

#define DLT_OPTIONS_MAX 8

struct dlt_session {
    struct dlock_target target; /* first: its functions look behind it */
    const char *hosts[2];
    char address[128];
    char options[DLT_OPTIONS_MAX][2][128]; /* name, value */
    const struct dlock_backend_ops *ops;
    struct dlt_host host, *shared; /* shared: the host in use */
    struct dlock_session_info info;
    struct dlock_error err; /* of the last call */
    struct dlock_grant grant;
    int64_t call_ms; /* bound of each call: 2 s */
    bool subscribed; /* dlt_queue_up has watched once */
    bool joined;     /* self is another one's */
    void *self;
};

const struct dlock_plugin *dlock_plugin_redis(void);

/* Where and how: "redis", "127.0.0.1:6379". A unix socket's path for "redis+unix". */
void dlt_session_init(struct dlt_session *session, const char *scheme, const char *where);
/* As a URI's option; durations in ms, without a unit. */
void dlt_session_option(struct dlt_session *session, const char *name, const char *value);

/* Bounded by call_ms, as all calls here. */
enum dlock_status dlt_session_open(struct dlt_session *session);
void dlt_session_close(struct dlt_session *session);
/* init and open on a server; on failure prints why. */
enum dlock_status dlt_session_start(struct dlt_session *session, const struct dlt_redis *server);
/* Another thread's view of the same session: it is CONCURRENT. */
void dlt_session_join(struct dlt_session *session, struct dlt_session *first);

enum dlock_status dlt_try(struct dlt_session *session, struct dlt_request *request);
/* dlt_try with DLOCK_REQ_ENQUEUE, and with DLOCK_REQ_REFRESH. */
enum dlock_status dlt_enqueue(struct dlt_session *session, struct dlt_request *request);
enum dlock_status dlt_refresh(struct dlt_session *session, struct dlt_request *request);
enum dlock_status dlt_watch(struct dlt_session *session, struct dlt_request *request,
                            int64_t timeout_ms);
enum dlock_status dlt_leave(struct dlt_session *session, struct dlt_request *request);
/* Enqueues, and goes on until the watch hears of grants: BUSY, and queued. */
enum dlock_status dlt_queue_up(struct dlt_session *session, struct dlt_request *request);
enum dlock_status dlt_renew(struct dlt_session *session, struct dlt_request *request);
enum dlock_status dlt_unlock(struct dlt_session *session, struct dlt_request *request);
enum dlock_status dlt_break(struct dlt_session *session, const char *name, const char *owner);

struct dlt_holder {
    char name[256];
    char owner[64];
    char label[256];
    uint32_t mode, waiters;
    uint64_t fence;
    int64_t remaining_ms, held_ms;
};
/* The holders, at most as many as *count says; sets it. */
enum dlock_status dlt_inspect(struct dlt_session *session, const char *name,
                              struct dlt_holder *holders, size_t *count);
enum dlock_status dlt_list(struct dlt_session *session, const char *prefix,
                           struct dlt_holder *holders, size_t *count);

/* An exclusive request for a name, with a token of 16 bytes `owner`. */
void dlt_request(struct dlt_session *session, struct dlt_request *request, const char *name,
                 unsigned char owner, int64_t ttl_ms);

void dlt_sleep_ms(int64_t ms);

#endif
