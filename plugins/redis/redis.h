/* SPDX-License-Identifier: MIT */
/*
 * redis.h - what the files of the redis plugin share.
 *
 * A client has one session, which all its threads use at once; the session has a few connections.
 * Every operation on a lock is one script in the server and one round trip; what the scripts store
 * is said in name.lua.
 *
 *   plugin.c  the slots, in the order of plugin.h
 *   place.c   what the URI says
 *   pool.c    the connections of a session, and which of them a question takes
 *   wire.c    one of them, shared by threads; wire_open.c, how it begins
 *   link.c    what a connection is made of, and how it begins
 *   setup.c   making a connection, and making it ready
 *   script.c  running a script
 *   lease.c   trylock, unlock, leave, break
 *   renew.c   renew
 *   waiter.c  an attempt that waits; how grants arrive
 *   look.c    inspect
 *   list.c    list
 *
 * What it knows of a server without talking to one is in plugins/resp.
 */
#ifndef REDIS_H
#define REDIS_H

#include "resp/command.h"
#include "resp/config.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "resp/info.h"
#include "resp/keys.h"
#include "resp/reader.h"
#include "resp/reply.h"
#include "resp/setup.h"
#include "script.h"

#define REDIS_ORIGIN     "redis"
#define REDIS_FENCE_ROOM 31u /* see FENCE_STEP in fence.lua */

/* ---- place.c: what the URI says; borrows from the target ---- */

/* OK or INVALID. */
enum dlock_status redis_place_init(struct resp_config *place, const struct dlock_target *target,
                                   struct dlock_error *err);

/* ---- link.c ---- */

struct redis_link {
    struct stream stream;
    struct resp_reader reader;
    const struct resp_config *place;
};

/* Zeroed is fine for redis_link_close; it must not move while it is open. */
void redis_link_close(struct redis_link *link);
/* In a forked child: gives the descriptor back, and no memory. */
void redis_link_leave(struct redis_link *link);

/* Connects; TLS too. Says nothing to the server yet. UNAVAILABLE, AUTH, PROTOCOL, INVALID. */
enum dlock_status redis_link_open(struct redis_link *link, const struct resp_config *place,
                                  const struct tls *tls, const struct dlock_host *host,
                                  int64_t deadline_ns, struct dlock_error *err);

/* OK; UNAVAILABLE: not a byte has left; UNKNOWN. */
enum dlock_status redis_link_send(struct redis_link *link, const char *bytes, size_t len,
                                  int64_t deadline_ns, struct dlock_error *err);

/* The next answer, to be freed by freeReplyObject. UNKNOWN: none by the deadline; PROTOCOL; NOMEM:
 * to read it. */
enum dlock_status redis_link_read(struct redis_link *link, int64_t deadline_ns, redisReply **out,
                                  struct dlock_error *err);

/* ---- setup.c ---- */

struct redis_dial {
    const struct resp_config *place;
    const struct tls *tls;
    const struct dlock_host *host;
};

/* Connects, authenticates with the present password [SEC-1] and chooses the database. facts, NULL:
 * does not ask for them. All questions are one round trip. */
enum dlock_status redis_connect(struct redis_link *link, const struct redis_dial *dial,
                                int64_t deadline_ns, struct resp_info *facts,
                                struct dlock_error *err);

/* ---- script.c ---- */

struct redis_pool;
struct redis_question;
typedef bool redis_fits_fn(const struct redis_question *question, const redisReply *reply);

/* Begins a command that runs a script on n names, whose keys must stay where they are, or its twin
 * for key=raw; arguments are added by resp_command_add. */
struct redis_call {
    const struct resp_script *script;
    char count[RESP_DIGITS];
    char number[RESP_DIGITS]; /* of the question: the last argument, added by redis_call_run */
    char guarded[2];          /* see pool.h: an argument of those that pass on */
    bool grants, keeps;       /* see pool.h */
    int64_t guard_left_ms;    /* set by redis_call_run with BUSY, of what grants */
    size_t shown;             /* the word of the command that errors call the key */
    size_t reply_max;         /* bytes of the answer; RESP_REPLY_MAX */
    redis_fits_fn *fits;      /* of the answer, see pool.h */
    size_t expects;           /* ... */
    bool foreign;             /* set by redis_call_run: a key is something else than ours */
    struct resp_command command;
};
void redis_call_begin(struct redis_call *call, enum redis_script_id script,
                      const struct resp_keys *keys, size_t n, redis_fits_fn *fits);

/*
 * Runs it. OK and an answer that is no error; UNKNOWN, UNAVAILABLE, BUSY or PROTOCOL of the
 * connection; or what the server's error means. A server that does not know the script is given it.
 */
enum dlock_status redis_call_run(struct redis_pool *pool, struct redis_call *call,
                                 int64_t deadline_ns, redisReply **out, struct dlock_error *err);

/* ---- lease.c, renew.c, look.c, list.c: slots of plugin.h ---- */

enum dlock_status redis_trylock(void *self, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status redis_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                              int64_t deadline_ns, struct dlock_error *err);
enum dlock_status redis_unlock(void *self, const struct dlock_request *req,
                               struct dlock_error *err);
enum dlock_status redis_leave(void *self, const struct dlock_request *req, struct dlock_error *err);
enum dlock_status redis_break(void *self, const unsigned char *name, uint32_t name_len,
                              const char *owner, int64_t deadline_ns, struct dlock_error *err);
enum dlock_status redis_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                struct dlock_error *err);
enum dlock_status redis_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                             int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                             struct dlock_error *err);

#endif
