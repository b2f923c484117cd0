/* SPDX-License-Identifier: MIT */
/*
 * redis.h - what the files of the redis plugin share.
 *
 * A session is one connection, used by one call at a time. Every operation on a lock is one script
 * in the server and one round trip; what the scripts store is said in name.lua.
 *
 *   plugin.c  the slots, in the order of plugin.h
 *   place.c   what the URI says
 *   link.c    one connection: a question, an answer
 *   setup.c   making a connection ready: who we are, which database, what the server is
 *   facts.c   what a server says of itself, and what that means for a lock
 *   script.c  running a script
 *   keys.c    the keys of a name
 *   lease.c   trylock, unlock, leave, break
 *   renew.c   renew
 *   hub.c     what a client has once; hub.h says how grants arrive
 *   channel.c the connection that they arrive on
 *   watch.c   waiting for them
 *   look.c    inspect
 *   list.c    list
 *   errmap.c  what an error of the server means
 */
#ifndef REDIS_H
#define REDIS_H

#include "resp.h"
#include "script.h"
#include "stream.h"
#include "tls.h"

#include <dlock/plugin.h>
#include <stdbool.h>

#define REDIS_ORIGIN     "redis"
#define REDIS_HEX_SIZE   (2 * DLOCK_TOKEN_SIZE + 1)
#define REDIS_NAME_MAX   255
#define REDIS_PREFIX_MAX 64
#define REDIS_FENCE_ROOM 31u /* see FENCE_STEP in fence.lua */
#define REDIS_NS_PER_MS  INT64_C(1000000)

/* ---- place.c: what the URI says; borrows from the target, and may be copied ---- */

struct redis_place {
    const struct dlock_target *target;
    const char *path;       /* of a unix socket; NULL: TCP */
    struct address address; /* TCP */
    bool secure;            /* TLS */
    const char *sni;        /* the name that the server is asked for, and shows a certificate of;
                               NULL: the host's */
    struct tls_options tls;
    int64_t database;
    const char *prefix;
    bool raw;  /* the lock's key is the name itself */
    bool spin; /* look for an answer before sleeping for it */
    bool unsafe_eviction;
    int64_t restart_guard_ms;
    char endpoint[64];
};

/* OK or INVALID. */
enum dlock_status redis_place_init(struct redis_place *place, const struct dlock_target *target,
                                   struct dlock_error *err);

/* ---- link.c ---- */

struct redis_link {
    struct stream stream;
    struct resp_reader reader;
    const struct redis_place *place;
};

/* Zeroed is fine for redis_link_close; it must not move while it is open. */
void redis_link_close(struct redis_link *link);
/* In a forked child: gives the descriptor back, and no memory. */
void redis_link_leave(struct redis_link *link);

/* Connects; TLS too. Says nothing to the server yet. UNAVAILABLE, AUTH, PROTOCOL, INVALID. */
enum dlock_status redis_link_open(struct redis_link *link, const struct redis_place *place,
                                  const struct tls *tls, const struct dlock_host *host,
                                  int64_t deadline_ns, struct dlock_error *err);

/* OK; UNAVAILABLE: not a byte has left; UNKNOWN. */
enum dlock_status redis_link_send(struct redis_link *link, const char *bytes, size_t len,
                                  int64_t deadline_ns, struct dlock_error *err);

/* The next answer, to be freed by freeReplyObject. UNKNOWN: none by the deadline; PROTOCOL; NOMEM:
 * to read it. */
enum dlock_status redis_link_read(struct redis_link *link, int64_t deadline_ns, redisReply **out,
                                  struct dlock_error *err);

/* One command, one answer. What is no answer to it, before or after, ends the connection's life. */
enum dlock_status redis_link_ask(struct redis_link *link, const struct resp_command *command,
                                 int64_t deadline_ns, redisReply **out, struct dlock_error *err);

/* Fills err with "<endpoint>: ..." and returns status. */
__attribute__((format(printf, 4, 5))) enum dlock_status redis_fail(const struct redis_place *place,
                                                                   struct dlock_error *err,
                                                                   enum dlock_status status,
                                                                   const char *format, ...);

/* ---- errmap.c ---- */

/* What the server's error means for a request, and fills err. Its text is shown, unless a secret
 * may be in it. */
enum dlock_status redis_error(const struct redis_place *place, const redisReply *reply,
                              struct dlock_error *err);
/* The same without its text. */
enum dlock_status redis_error_quiet(const struct redis_place *place, const redisReply *reply,
                                    const char *what, struct dlock_error *err);
bool redis_error_is(const redisReply *reply, const char *code);

/* ---- facts.c ---- */

struct redis_facts {
    char server[64]; /* "Redis 7.0.15" */
    char role[16];
    char policy[32]; /* maxmemory-policy */
    char fsync[16];  /* appendfsync; "": the user may not know */
    int64_t max_memory;
    int64_t uptime_s;
    bool aof, cluster, loading;
};

/* Takes what INFO and CONFIG GET answered. */
void redis_facts_info(struct redis_facts *facts, const char *text, size_t len);
void redis_facts_config(struct redis_facts *facts, const redisReply *reply);

/* OK and the capabilities in force; UNAVAILABLE, PROTOCOL or CONFIG. */
enum dlock_status redis_facts_judge(const struct redis_facts *facts,
                                    const struct redis_place *place, uint32_t *caps,
                                    struct dlock_error *err);

/* What probe reports. */
void redis_facts_report(const struct redis_facts *facts, const struct redis_place *place,
                        dlock_check_fn *fn, void *arg);

/* ---- setup.c ---- */

/* Authenticates, chooses the database and asks for the facts, in one round trip. */
enum dlock_status redis_setup(struct redis_link *link, int64_t deadline_ns,
                              struct redis_facts *facts, struct dlock_error *err);
/* The first two only. */
enum dlock_status redis_setup_identity(struct redis_link *link, int64_t deadline_ns,
                                       struct dlock_error *err);
/* Asks for the facts again. */
enum dlock_status redis_setup_look(struct redis_link *link, int64_t deadline_ns,
                                   struct redis_facts *facts, struct dlock_error *err);

/* ---- keys.c ---- */

#define REDIS_KEY_COUNT 5
#define REDIS_KEY_MAX   (REDIS_PREFIX_MAX + 3 * REDIS_NAME_MAX + 5)

/* lock, meta, readers, queue and waiters of a name, as name.lua has them. */
struct redis_keys {
    char bytes[REDIS_KEY_COUNT][REDIS_KEY_MAX];
    size_t lens[REDIS_KEY_COUNT];
};

void redis_keys_make(struct redis_keys *keys, const struct redis_place *place,
                     const unsigned char *name, uint32_t name_len);

/* What all keys of names with this prefix begin with, as SCAN matches. pattern holds
 * 2 * REDIS_KEY_MAX. */
void redis_keys_pattern(char *pattern, const struct redis_place *place, const unsigned char *prefix,
                        uint32_t prefix_len);

/* The name of which this is the lock's or the readers' key. False: it is another one. */
bool redis_keys_name(const struct redis_place *place, const char *key, size_t len,
                     unsigned char *name, uint32_t *name_len);

void redis_hex(char *hex, const unsigned char *token);

/* ---- script.c ---- */

/* Begins a command that runs a script; keys and arguments are added by resp_command_add. The number
 * of keys has to be count. */
struct redis_call {
    const struct redis_script *script;
    char count[12];
    struct resp_command command;
};
void redis_call_begin(struct redis_call *call, enum redis_script_id script, unsigned keys);
void redis_call_keys(struct redis_call *call, const struct redis_keys *keys);

/*
 * Runs it. OK and an answer that is no error; UNKNOWN, UNAVAILABLE or PROTOCOL of the connection;
 * or what the server's error means. A server that does not know the script is given it.
 */
enum dlock_status redis_call_run(struct redis_link *link, struct redis_call *call,
                                 int64_t deadline_ns, redisReply **out, struct dlock_error *err);

/* The i-th element of an array, if it is an integer within the bounds. */
bool redis_reply_int(const redisReply *reply, size_t i, int64_t least, int64_t most, int64_t *out);
/* The i-th element, if it is a string; NULL: it is not. */
const redisReply *redis_reply_text(const redisReply *reply, size_t i);
/* It is an array of so many. */
bool redis_reply_array(const redisReply *reply, size_t count);

/* That a server may count, that core asks for, and bytes of a number as text. */
#define REDIS_LEASE_MAX_MS (INT64_C(400) * 24 * 3600 * 1000)
#define REDIS_TTL_MAX_MS   (INT64_C(7) * 24 * 3600 * 1000)
#define REDIS_DIGITS       24

/* The number in out, which holds REDIS_DIGITS. */
const char *redis_number(char *out, int64_t number);

/* What of a lease that the server counts is to be relied on: a clock that was set back makes it
 * longer than anybody asked for, until it is set right again. */
int64_t redis_lease(int64_t counted_ms);

/* PROTOCOL: an answer, but not to this question. */
enum dlock_status redis_nonsense(const struct redis_place *place, struct dlock_error *err);

/* ---- a session ---- */

struct redis_hub;

struct redis_session {
    const struct dlock_host *host;
    struct redis_place place;
    struct redis_link link;
    struct redis_hub *hub;
    struct redis_facts facts;
    uint32_t caps;
    int64_t guard_until_ns;  /* no new lock before [restart_guard] */
    int64_t waiter_lease_ms; /* how long a place lasts, and the lease that is granted to it */
};

/* ---- lease.c, renew.c, look.c, list.c: slots of plugin.h ---- */

enum dlock_status redis_trylock(void *self, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status redis_renew(void *self, struct dlock_lease_op *ops, size_t n, int64_t deadline_ns,
                              struct dlock_error *err);
enum dlock_status redis_unlock(void *self, const struct dlock_request *req,
                               struct dlock_error *err);
enum dlock_status redis_leave(void *self, const struct dlock_request *req, struct dlock_error *err);
enum dlock_status redis_break(void *self, const unsigned char *name, uint32_t name_len,
                              const char *owner, int64_t deadline_ns, struct dlock_error *err);
enum dlock_status redis_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                int64_t deadline_ns, dlock_lease_fn *fn, void *arg,
                                struct dlock_error *err);
enum dlock_status redis_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                             int64_t deadline_ns, dlock_lease_fn *fn, void *arg,
                             struct dlock_error *err);

/* What redis_inspect does; *stopped: fn wanted no more. */
enum dlock_status redis_look(struct redis_session *session, const unsigned char *name,
                             uint32_t name_len, int64_t deadline_ns, dlock_lease_fn *fn, void *arg,
                             bool *stopped, struct dlock_error *err);

#endif
