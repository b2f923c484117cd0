/* SPDX-License-Identifier: MIT */
/* call.h - one command on one of the pool's connections. */
#ifndef REDIS_CALL_H
#define REDIS_CALL_H

#include "redis/call/redirect.h"
#include "redis/guard/guard.h"
#include "redis/guard/view.h"
#include "redis/lua/script.h"
#include "redis/servers/pool.h"
#include "resp/command.h"
#include "resp/keys.h"
#include "resp/reader.h"

struct redis_call;
typedef bool redis_validate_fn(const struct redis_call *call, const redisReply *reply);

/*
 * One command and its answer. A begin function begins the command, the caller adds the arguments
 * with resp_command_add, redis_call_run runs it.
 *
 * While the server of a connection has been up for less than restart_guard, a call that `grants` is
 * not sent on it (BUSY, with a text). In other calls `guarded`, a word of the command, is "1" then,
 * and the script passes nothing on; else it is "0". On a connection with the failover guard the
 * script looks at the guard itself (guard.h).
 */
struct redis_call {
    struct resp_command command;
    const struct resp_script *script;             /* NULL: the command runs no script */
    const struct resp_script *plain, *with_guard; /* what script is; NULL: it has no guard */
    char count[RESP_DIGITS];
    uint32_t number;          /* the answer is it or ends with it, else PROTOCOL; 0: no number */
    char digits[RESP_DIGITS]; /* number as the last argument, added by redis_call_run */
    char guarded[2];
    bool rechecks;                   /* the script rechecks the server (same.lua) */
    char seen[REDIS_VIEW_WORD_SIZE]; /* its last argument then */
    bool grants;
    bool keeps;            /* a renewal: as for `grants`, the server has to be a master still */
    bool adopts;           /* and it is an adoption: UNAVAILABLE where `grants` is BUSY [REN-6] */
    bool releases;         /* and passes the name on */
    int64_t guard_left_ms; /* set by redis_call_run with BUSY, if `grants` or `adopts` */
    size_t shown;          /* the word of the command that errors name as the key */
    size_t reply_max;      /* bytes of the answer; RESP_REPLY_MAX */
    /* True: an answer that is no error, without its number, has the right form. False: answers may
     * belong to other requests: PROTOCOL, and no request is answered on that connection any more.
     */
    redis_validate_fn *validate;
    size_t expects;                 /* for validate */
    bool foreign;                   /* set by redis_call_run: a key has another type */
    bool of_name;                   /* set by redis_call_run: refused, as others need not be */
    bool refused;                   /* set by redis_call_run: the answer is an error */
    bool lasting;                   /* and it may come each time: it is for a right or the form */
    int slot;                       /* of its name in a cluster, set by the caller; else NO_SLOT */
    bool asking;                    /* for a slot that this server is about to get */
    struct redis_redirect redirect; /* set by redis_call_run: where else the call belongs */
    char others[RESP_OTHERS_COUNT][RESP_KEY_MAX]; /* with config.all_keys */
};

/* A script on n names, or its variant for key=raw. The keys must not move until redis_call_run,
 * nor the call. With config.all_keys n is 1: a cluster refuses keys of several slots in one script.
 */
void redis_call_begin(struct redis_call *call, enum redis_script_id script,
                      const struct resp_keys *keys, size_t n, redis_validate_fn *validate);
/* A script of many.h, which is given the lock's key of each name. */
void redis_call_begin_many(struct redis_call *call, enum redis_script_id script,
                           const struct resp_keys *const *keys, size_t n,
                           redis_validate_fn *validate);
/* A command that runs no script. */
void redis_call_begin_plain(struct redis_call *call, redis_validate_fn *validate);

/*
 * Sends the command and waits for the answer. OK: *out is an answer that is no error, to be freed
 * by freeReplyObject. UNAVAILABLE, BUSY, or a status of redis_pool_connect: the server did nothing;
 * UNKNOWN; PROTOCOL; NOMEM; or the status that the server's error means. If the server does not
 * know the script, the script is sent. A call may be run again, at another server.
 */
enum dlock_status redis_call_run(struct redis_pool *pool, struct redis_call *call,
                                 int64_t deadline_ns, redisReply **out, struct dlock_error *err);

/* For calls.h: the call is sent with the text of its script. A script that the server does not know
 * has not run: to send it again is safe. */
void redis_call_body_set(struct redis_call *call);

/* For send.h and calls.h: gives the call a new number; and makes the status of an answer that is an
 * error, which is freed. */
void redis_call_number(struct redis_pool *pool, struct redis_call *call);
enum dlock_status redis_call_error_take(const struct redis_pool *pool, struct redis_call *call,
                                        enum dlock_status status, redisReply **reply,
                                        struct dlock_error *err);

#endif
