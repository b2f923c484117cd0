/* SPDX-License-Identifier: MIT */
/*
 * subject.h - a plugin whose slots are called without the engine of core: one client straight to
 * the store, one through a proxy that does what networks do, if --proxy was given.
 *
 * What cannot be set up ends the case, as a check that fails does (kit.h).
 */
#ifndef DLT_SUBJECT_H
#define DLT_SUBJECT_H

#include "kit.h"
#include "load/store.h"
#include "proxy_client.h"
#include "sys/host.h"

/* A client with one session at most. It must not move. */
struct dlt_side {
    struct dl_host host;    /* one for all sessions of the client [HST-1] */
    struct dl_host *joined; /* that of the client which this session belongs to; NULL: host */
    struct dl_store *store;
    const struct dl_plugin *plugin;
    void *self; /* NULL: no session */
    bool lent;  /* self is that of `joined` */
    struct dlock_session_info info;
    int64_t call_ms;        /* the deadline of each call */
    struct dlock_error err; /* of the last call */
    struct dlock_grant grant;
};

/* An attempt at a name. It must not move. */
struct dlt_attempt {
    struct dlock_request req;
    struct dlt_name name;
    void *memory; /* for req.attempt; NULL: none */
};

struct dlt_subject {
    const struct dlt_run *run;
    struct dlt_side direct, far; /* far: through the proxy, if there is one */
    struct dlt_proxy proxy;
    bool minority;    /* the proxy is before one of several servers, whose loss decides nothing */
    int64_t lease_ms; /* of the last grant on a good network, for the ttl of strike.c */
    uint64_t fence;   /* the last one of the name of strike.c */
};

/* What the environment says, which slots_main.c sets from the command line. */
#define DLT_SLOTS_PROXY    "DLT_SLOTS_PROXY"    /* HOST:PORT of the store */
#define DLT_SLOTS_MODULE   "DLT_SLOTS_MODULE"   /* "redis", of dlock_redis.so */
#define DLT_SLOTS_FRAMING  "DLT_SLOTS_FRAMING"  /* of the proxy; unset: raw */
#define DLT_SLOTS_STEP     "DLT_SLOTS_STEP"     /* bytes between two places of a cut */
#define DLT_SLOTS_DEADLINE "DLT_SLOTS_DEADLINE" /* ms, of calls that get no answer */
#define DLT_SLOTS_STOP     "DLT_SLOTS_STOP"     /* a command that stops the store's server */
#define DLT_SLOTS_CONT     "DLT_SLOTS_CONT"     /* ... that lets it go on */

/* A number of these; fallback: when it is not set. */
int64_t dlt_slots_number(const char *variable, int64_t fallback);

/* Both clients with a session each. */
void dlt_subject_begin(struct dlt_subject *subject, const struct dlt_run *run);
void dlt_subject_end(struct dlt_subject *subject);

/* An order to the proxy: proxy_client.h. */
__attribute__((format(printf, 2, 3))) void dlt_subject_tell(struct dlt_subject *subject,
                                                            const char *format, ...);

/* A client of the store at the URI, without a session. */
void dlt_side_init(struct dlt_side *side, const char *uri);
/* A further session of the client `other`, not yet open. It ends before `other`. */
void dlt_side_join(struct dlt_side *side, struct dlt_side *other);
/* The same for a thread of its own: with CONCURRENT that is the session of `other`. */
void dlt_side_share(struct dlt_side *side, struct dlt_side *other);
/* Closes the session, too. */
void dlt_side_fini(struct dlt_side *side);

bool dlt_side_has(const struct dlt_side *side, uint64_t cap);

/* The session of a client. Opening one that is open, and closing one that is not, does nothing. */
enum dlock_status dlt_side_open(struct dlt_side *side);
void dlt_side_close(struct dlt_side *side);

/* A new attempt of the client at prefix + suffix, with a token of its own and a ttl that the store
 * gives, the next one above ttl_ms. */
void dlt_attempt_begin(struct dlt_attempt *attempt, const struct dlt_run *run,
                       const struct dlt_side *side, const char *suffix, int64_t ttl_ms);
/* forget, unless it was unlocked: over. */
void dlt_attempt_end(struct dlt_attempt *attempt, struct dlt_side *side, bool unlocked);

/* A slot each. */
enum dlock_status dlt_side_try(struct dlt_side *side, struct dlt_attempt *attempt);
enum dlock_status dlt_side_renew(struct dlt_side *side, struct dlt_attempt *attempt);
enum dlock_status dlt_side_unlock(struct dlt_side *side, struct dlt_attempt *attempt);
/* Only if the plugin has a queue. */
enum dlock_status dlt_side_dequeue(struct dlt_side *side, struct dlt_attempt *attempt);
/* *remaining_ms: of the last holder; -1: none. UNSUPPORTED: no such slot. */
enum dlock_status dlt_side_inspect(struct dlt_side *side, const struct dlt_attempt *attempt,
                                   int64_t *remaining_ms);
/* The slot `lock` or `watch`, due in timeout_ms. */
enum dlock_status dlt_side_wait(struct dlt_side *side, struct dlt_attempt *attempt,
                                int64_t timeout_ms);

/* "BUSY: what the plugin says", of the last call of this client. */
const char *dlt_said(const struct dlt_side *side, enum dlock_status status);

#endif
