/* SPDX-License-Identifier: MIT */
/*
 * call.h - one command, or many at once, on one of the pool's connections.
 *
 * Before a call is sent, what the client knows of the server has to allow it:
 *
 *   it is a master, and the one that was judged:   each script looks by itself (same.lua)
 *   no replica follows it, or enough of them do:   each script (same.lua; guard.lua)
 *   what the failover guard compares with:         a look each second (view.h)
 *   what it gives: durability, eviction and so on: a look each 10 s, before a call that grants
 *
 * A connection whose server has changed takes no more requests. The next one judges the server
 * (pool.c), in the same call.
 */
#ifndef REDIS_CALL_H
#define REDIS_CALL_H

#include "redis/guard/view.h"
#include "redis/link/slot.h"
#include "redis/lua/script.h"
#include "redis/servers/pool.h"
#include "resp/command.h"
#include "resp/keys.h"
#include "resp/reader.h"

#include <hiredis/hiredis.h>

#define REDIS_CALLS_MOST 64 /* of redis_call_run_all */

struct redis_call;
typedef bool redis_validate_fn(const struct redis_call *call, const redisReply *reply);

/*
 * What a call does to names. While the server of a connection has been up for less than
 * restart_guard, GRANTS and ADOPTS are not sent on it. In other calls `guarded`, a word of the
 * command, is "1" then, and the script passes nothing on; else it is "0". On a connection with the
 * failover guard the script looks at the guard itself (view.h).
 */
enum redis_call_kind {
    REDIS_CALL_READS,
    REDIS_CALL_GRANTS, /* BUSY, with a text, while the server grants nothing */
    REDIS_CALL_KEEPS,  /* a renewal: the server has to be a master still */
    REDIS_CALL_ADOPTS, /* a renewal that is UNAVAILABLE where GRANTS is BUSY [REN-6] */
    REDIS_CALL_RELEASES
};

enum redis_redirect_kind {
    REDIS_REDIRECT_NONE,
    REDIS_REDIRECT_MOVED,   /* the slot belongs to `to` */
    REDIS_REDIRECT_ASK,     /* this request alone goes to `to` */
    REDIS_REDIRECT_TRYAGAIN /* the keys of the name are at two servers just now */
};

/* Where else a call belongs. It was not executed then. */
struct redis_redirect {
    enum redis_redirect_kind kind;
    unsigned slot;
    struct address to; /* an empty host: the one of the server that answered */
};

/* How a call has ended, beside its status. Set by redis_call_run. */
struct redis_call_outcome {
    bool foreign;          /* a key has another type */
    bool of_name;          /* refused, as others need not be */
    bool refused;          /* the answer is an error */
    bool lasting;          /* and it may come each time: it is for a right or the form */
    int64_t guard_left_ms; /* of a call that GRANTS or ADOPTS and was refused for that */
    struct redis_redirect redirect;
};

/* What was sent last. Set by redis_call_run. */
struct redis_call_sent {
    const struct resp_script *script; /* NULL: the command runs no script */
    uint32_t number;                  /* the last word; the answer is it or ends with it; 0: none */
    char digits[RESP_DIGITS];
    char guarded[2];                 /* a word that the caller adds to the command */
    char seen[REDIS_VIEW_WORD_SIZE]; /* the last word but the number, if the script rechecks */
};

/* A command. A begin function begins it, the caller adds the arguments with resp_command_add and
 * sets what differs from the script's, redis_call_run runs it. */
struct redis_call {
    struct resp_command command;
    const struct resp_script *plain, *with_guard; /* NULL: no script; it has no guard */
    char count[RESP_DIGITS];
    char others[RESP_OTHERS_COUNT][RESP_KEY_MAX]; /* with config.all_keys */
    enum redis_call_kind kind;
    bool rechecks;    /* the script rechecks the server (same.lua) */
    size_t shown;     /* the word of the command that errors name as the key */
    size_t reply_max; /* bytes of the answer; RESP_REPLY_MAX */
    /* True: an answer that is no error, without its number, has the right form. False: answers may
     * belong to other requests: PROTOCOL, and no request is answered on that connection any more.
     */
    redis_validate_fn *validate;
    size_t expects; /* for validate */
    int slot;       /* of its name in a cluster, set by route.c; else REDIS_NO_SLOT */
    bool asking;    /* for a slot that this server is about to get, set by route.c */

    struct redis_call_sent sent;
    struct redis_call_outcome outcome;
};

/* A script on n names, or its variant for key=raw. The keys must not move until redis_call_run,
 * nor the call. With config.all_keys n is 1: a cluster refuses keys of several slots in one script.
 */
void redis_call_begin(struct redis_call *call, enum redis_script_id script,
                      const struct resp_keys *keys, size_t n, redis_validate_fn *validate);
/* A script for many names of a batch, which is given the lock's key of each name. */
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

/* How one of many calls has ended. */
struct redis_call_end {
    enum dlock_status status; /* as of redis_call_run, */
    redisReply *reply;        /* as *out there */
    struct dlock_error *err;  /* set by the caller */
    /* call.c's: not ended yet; the server did not know its script, and it is sent again with the
     * others; it is sent again alone */
    bool pending, unknown, alone;
};

/* Sends n calls, each with a script, in one write, and waits for the answers. Each ends as if it
 * had been sent alone. Calls whose scripts the server does not know have one more write, in which
 * the first of each script has its text. */
void redis_call_run_all(struct redis_pool *pool, struct redis_call *const *calls,
                        struct redis_call_end *ends, size_t n, int64_t deadline_ns);

/* Reads an error of the server; no other answer names another server. Pure. */
void redis_call_redirect(struct redis_redirect *out, const redisReply *reply);

#endif
