/* SPDX-License-Identifier: MIT */
/*
 * session_kit.h - a session of a plugin, opened and called through its table by a test that is its
 * own core. The host's clock runs. Every call is bounded by call_ms.
 */
#ifndef DLT_SESSION_KIT_H
#define DLT_SESSION_KIT_H

#include "fake_host.h"

#include <stdbool.h>

#define DLT_OPTIONS_MAX 12

struct dlt_session {
    struct dlock_target target; /* first: its functions look behind it */
    const char *hosts[4];       /* and NULL */
    char address[128];
    char options[DLT_OPTIONS_MAX][2][128]; /* name, value */
    const struct dlock_plugin *plugin;
    const struct dlock_backend_ops *ops; /* of the strategy */
    struct dlt_host host, *shared;       /* shared: the host in use */
    struct dlock_session_info info;
    struct dlock_error err;                               /* of the last call */
    struct dlock_node_error nodes[DLOCK_NODE_ERRORS_MAX]; /* what err has of nodes */
    struct dlock_grant grant;
    int64_t call_ms;
    bool subscribed; /* has watched once */
    bool joined;     /* self is another one's */
    void *self;
};

/* A target at "127.0.0.1:6379", or, for a scheme with '+', at a path. No user, no options. Must not
 * move afterwards. */
void dlt_session_target(struct dlt_session *session, const struct dlock_plugin *plugin,
                        const char *scheme, const char *where);
/* As a URI's option; durations in ms, without a unit. */
void dlt_session_option(struct dlt_session *session, const char *name, const char *value);

enum dlock_status dlt_session_open(struct dlt_session *session);
/* Harmless twice. */
void dlt_session_close(struct dlt_session *session);

/* The request, due in timeout_ms; err and grant are those of a call to come. */
struct dlock_request *dlt_due(struct dlt_session *session, struct dlt_request *request,
                              int64_t timeout_ms);

enum dlock_status dlt_try(struct dlt_session *session, struct dlt_request *request);
/* grant is that of the renewal. */
enum dlock_status dlt_renew(struct dlt_session *session, struct dlt_request *request);
enum dlock_status dlt_unlock(struct dlt_session *session, struct dlt_request *request);
enum dlock_status dlt_break(struct dlt_session *session, const char *name, const char *owner);

/* grant is that of the watch. */
enum dlock_status dlt_watch(struct dlt_session *session, struct dlt_request *request,
                            int64_t timeout_ms);
enum dlock_status dlt_dequeue(struct dlt_session *session, struct dlt_request *request);
void dlt_interrupt(struct dlt_session *session, struct dlt_request *request);

struct dlt_holder {
    char name[256];
    char owner[64];
    char label[256];
    uint32_t mode, waiters;
    uint32_t limit, permit, kept;
    uint64_t fence;
    int64_t remaining_ms, held_ms;
};
/* The holders, at most as many as *count says; sets it. */
enum dlock_status dlt_inspect(struct dlt_session *session, const char *name,
                              struct dlt_holder *holders, size_t *count);
enum dlock_status dlt_list(struct dlt_session *session, const char *prefix,
                           struct dlt_holder *holders, size_t *count);

struct dlt_queued {
    char owner[64];
    char label[256];
    uint32_t mode, position;
    int64_t waited_ms;
};
/* The waiters, at most as many as *count says, after which no more are asked for; sets it. */
enum dlock_status dlt_list_waiters(struct dlt_session *session, const char *name,
                                   struct dlt_queued *waiters, size_t *count);

/* An exclusive request for a name, with a token of 16 bytes `owner`. */
void dlt_request(struct dlt_session *session, struct dlt_request *request, const char *name,
                 unsigned char owner, int64_t ttl_ms);

void dlt_sleep_ms(int64_t ms);

#endif
