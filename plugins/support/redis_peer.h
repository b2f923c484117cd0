/* SPDX-License-Identifier: MIT */
/*
 * redis_peer.h - what plugins know of one Redis server: where it is, what it says of itself, what
 * its errors mean, how the keys of a name are called, and what a new connection has to be told.
 *
 *   redis_error.c  errors, of ours and of the server
 *   redis_facts.c  what a server says of itself, and what that means for a lock
 *   redis_guard.c  what a server that was just started may not do
 *   redis_keys.c   the keys of a name
 *   redis_reply.c  taking answers apart
 *   redis_setup.c  making a connection ready
 *   redis_tls.c    the options of TLS
 */
#ifndef SUPPORT_REDIS_PEER_H
#define SUPPORT_REDIS_PEER_H

#include "resp.h"
#include "stream.h"
#include "tls.h"

#include <dlock/plugin.h>
#include <stdbool.h>

#define REDIS_HEX_SIZE    (2 * DLOCK_TOKEN_SIZE + 1)
#define REDIS_NAME_MAX    255
#define REDIS_PREFIX_MAX  64
#define REDIS_RUN_ID_SIZE 48
#define REDIS_NS_PER_MS   INT64_C(1000000)

/* Where it is and how it is spoken to. The texts are borrowed; it may be copied. */
struct redis_place {
    const char *origin;                /* the plugin, for errors */
    const struct dlock_target *target; /* to read the password again; NULL: `password` stays */
    const char *user, *password;
    const char *path;       /* of a unix socket; NULL: TCP */
    struct address address; /* TCP */
    bool secure;            /* TLS */
    const char *sni;        /* the name that the server is asked for, and shows a certificate of;
                               NULL: the host's */
    struct tls_options tls;
    int64_t database;
    const char *prefix;
    bool raw;  /* the name itself is a key, too */
    bool spin; /* look for an answer before sleeping for it */
    bool unsafe_eviction;
    int64_t restart_guard_ms;
    char endpoint[64];
};

/* The script's text and the SHA1 that a server knows it by; made by embed.cmake. */
struct redis_script {
    const char *sha; /* 40 hex digits */
    const char *body;
    size_t len;
    const char *name;
};

/* ---- redis_error.c ---- */

/* Fills err with "<endpoint>: ..." and returns status. */
__attribute__((format(printf, 4, 5))) enum dlock_status redis_fail(const struct redis_place *place,
                                                                   struct dlock_error *err,
                                                                   enum dlock_status status,
                                                                   const char *format, ...);

/* What the server's error means for a request, and fills err. Its text is shown, unless a secret
 * may be in it. */
enum dlock_status redis_error(const struct redis_place *place, const redisReply *reply,
                              struct dlock_error *err);
/* The same without its text. */
enum dlock_status redis_error_quiet(const struct redis_place *place, const redisReply *reply,
                                    const char *what, struct dlock_error *err);
/* What the server says, in one line that can be shown. */
void redis_error_text(char *out, size_t size, const redisReply *reply);
bool redis_error_is(const redisReply *reply, const char *code);
/* In a list, of a name of which a key is something else. */
#define REDIS_FOREIGN_LABEL "no lock: the key is something else"
/* CONFIG: it was WRONGTYPE, of this name's key of the lock or of another one. */
enum dlock_status redis_error_key(const struct redis_place *place, const char *key, size_t len,
                                  struct dlock_error *err);

/* What a failed connect, or a failed handshake, means. */
enum dlock_status redis_connect_status(enum stream_result result);

/* ---- redis_reply.c ---- */

/* The i-th element of an array, if it is an integer within the bounds. */
bool redis_reply_int(const redisReply *reply, size_t i, int64_t least, int64_t most, int64_t *out);
/* The i-th element, if it is a string; NULL: it is not. */
const redisReply *redis_reply_text(const redisReply *reply, size_t i);
/* It is an array of so many. */
bool redis_reply_array(const redisReply *reply, size_t count);

/* A lease that a server may count, and bytes of a number as text. */
#define REDIS_LEASE_MAX_MS (INT64_C(400) * 24 * 3600 * 1000)
#define REDIS_DIGITS       24

/* The number in out, which holds REDIS_DIGITS. */
const char *redis_number(char *out, int64_t number);

/* What of a lease that the server counts is relied on: never more than was asked for now. A clock
 * that was set back, or an earlier and longer ttl, makes it longer. */
int64_t redis_lease(int64_t counted_ms, int64_t ttl_ms);

/* ---- redis_facts.c ---- */

struct redis_facts {
    char server[64]; /* "Redis 7.0.15" */
    char role[16];
    char policy[32];                /* maxmemory-policy */
    char fsync[16];                 /* appendfsync; "": the user may not know */
    bool fsync_pauses;              /* no-appendfsync-on-rewrite */
    bool aof_begins;                /* the append-only file is being written for the first time */
    char run_id[REDIS_RUN_ID_SIZE]; /* another one after each start; "": unknown */
    int64_t max_memory;
    int64_t uptime_s;
    int64_t major;    /* of the version that the server says it is compatible with */
    int64_t clock_us; /* the server's wall clock; 0: it does not say */
    bool aof, cluster, sentinel, loading;
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

/* No crash of the server makes it forget: restart_guard is not needed. */
bool redis_facts_durable(const struct redis_facts *facts);

/* ---- redis_guard.c: the option restart_guard ----
 *
 * A server that was restarted may have forgotten a lock whose holder still relies on it. Until the
 * server has been up for restart_guard, no new lock is taken there; and no lease is longer than
 * restart_guard, so that all leases from before the restart have ended by then. 0: no guard.
 */

/* What doctor says of restart_guard=0. */
#define REDIS_UNGUARDED                                                                         \
    "a server that restarts forgets locks, and could grant a lock again while it is held: set " \
    "restart_guard to at least the longest ttl of any client"

/* The time for which a server that has just said uptime_s takes no new lock. The server counts
 * whole seconds. 0: it takes them. */
int64_t redis_guard_left_ms(int64_t guard_ms, int64_t uptime_s);

/* "a lock from before may still be in use for 26 s (until 12:00:30Z); see restart_guard" */
#define REDIS_GUARD_TEXT_SIZE 128
void redis_guard_rest(char *out, size_t size, int64_t left_ms);

/* The message of BUSY while left_ms of the guard remain. */
void redis_guard_text(char *out, size_t size, int64_t guard_ms, int64_t left_ms);

/* OK; CONFIG: a lease of ttl_ms would outlast the guard. */
enum dlock_status redis_guard_judge_ttl(const char *origin, int64_t guard_ms, int64_t ttl_ms,
                                        struct dlock_error *err);

/* The lease that a renewal or an adoption may ask for. */
int64_t redis_guarded_ttl_ms(int64_t guard_ms, int64_t ttl_ms);

/* ---- redis_setup.c ---- */

/*
 * Everything that a new connection needs goes out in one piece, and is answered in one: the way to
 * the first lock is short. What was asked is remembered, to know which answer is which.
 */
#define REDIS_SETUP_MAX 12
struct redis_setup {
    const struct redis_place *place;
    struct redis_facts *facts;
    char *bytes; /* to be sent; wiped by redis_setup_end */
    size_t len;
    int questions[REDIS_SETUP_MAX];
    size_t count, answered;
};

/* identity: authenticates and chooses the database. facts, NULL: does not ask for them. False: no
 * memory. Ended by redis_setup_end in either case. */
bool redis_setup_begin(struct redis_setup *setup, const struct redis_place *place, bool identity,
                       struct redis_facts *facts);
/* The next answer, which stays the caller's. OK; or why the connection cannot be used. */
enum dlock_status redis_setup_take(struct redis_setup *setup, const redisReply *reply,
                                   struct dlock_error *err);
bool redis_setup_done(const struct redis_setup *setup);
void redis_setup_end(struct redis_setup *setup);

/* ---- redis_tls.c ---- */

/* Takes the options of TLS for these places, which know whether they are `secure`. INVALID: there
 * are some, and none of the places is; or they do not fit together. */
enum dlock_status redis_tls_take(struct redis_place *places, unsigned count,
                                 const struct dlock_target *target, struct dlock_error *err);

/* ---- redis_keys.c ---- */

#define REDIS_KEY_COUNT 2u
#define REDIS_KEY_MAX   (REDIS_PREFIX_MAX + 3 * REDIS_NAME_MAX + 5)

/* Those keys of a name that scripts are given, lock and meta: they make the others themselves. The
 * plugins' name.lua say what is in them. */
struct redis_keys {
    char bytes[REDIS_KEY_COUNT][REDIS_KEY_MAX];
    size_t lens[REDIS_KEY_COUNT];
    const char *raw; /* with key=raw the name, which is borrowed; NULL without */
    size_t raw_len;
};

void redis_keys_make(struct redis_keys *keys, const struct redis_place *place,
                     const unsigned char *name, uint32_t name_len);

/* With key=raw a name could be one of our own keys [TRY-7]: INVALID. OK: it is none. */
enum dlock_status redis_keys_refuse(const struct redis_place *place, const unsigned char *name,
                                    uint32_t name_len, struct dlock_error *err);

/* What all keys of names with this prefix begin with, as SCAN matches. pattern holds
 * 2 * REDIS_KEY_MAX. Returns its length: with key=raw there may be a zero byte in it. */
size_t redis_keys_pattern(char *pattern, const struct redis_place *place,
                          const unsigned char *prefix, uint32_t prefix_len);

/* The name of which this is the lock's or the readers' key. False: it is another one, or with
 * key=raw one of ours. */
bool redis_keys_name(const struct redis_place *place, const char *key, size_t len,
                     unsigned char *name, uint32_t *name_len);

void redis_hex(char *hex, const unsigned char *token);

#endif
