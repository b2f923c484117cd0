/* SPDX-License-Identifier: MIT */
/*
 * view.h - the failover guard: what a connection knows of its server, where a replica may become
 * the master (docs/adr/0034-redis-failover-guard.md), and what follows from it. No I/O.
 *
 * Once a second, before a request that grants or keeps, the connection looks: view.lua reads the
 * server's clock, how much it has written for its replicas, and since when enough replicas follow
 * it. Each guarded script is told what was seen, and compares in the server when it runs
 * (guard.lua).
 *
 *   T  restart_guard, which no lease exceeds
 *   D  an old master answers "yours" and grants for D at most when its replicas have left it. A
 *      look counts for D / 2, and the term of a master bridges D / 2 as well
 *   S  the servers' clocks differ by less
 *
 * From the moment when enough replicas follow a server on, which is after its promotion or its
 * start, nothing is "yours" for D + S, and nothing is granted for T + D. In a cluster the same
 * holds for the names of a slot from the moment when a look saw the slot at this server first
 * (owned.lua): the server that had the slot before may have been promoted a moment ago. A slot
 * that no look saw there counts as one whose term has not begun.
 */
#ifndef REDIS_VIEW_H
#define REDIS_VIEW_H

#include "resp/info.h"

#include <pthread.h>

#define REDIS_REPLID_SIZE    41
#define REDIS_TAG_SIZE       16
#define REDIS_VIEW_WORD_SIZE 256
#define REDIS_NO_SLOT        (-1) /* not in a cluster */

/* ---- what is known ---- */

struct redis_slot_range {
    uint16_t first, last;
    int64_t since_us; /* server's clock; 0: long ago */
};

/* In order, and disjoint. All zero: no slots. */
struct redis_slots {
    struct redis_slot_range *ranges;
    size_t count;
};

struct redis_view {
    int64_t server_us, offset; /* 0: no look */
    int64_t seen_ns;           /* not later than the look */
};

/* A pipeline's. Without `on` id and alone are used alone. */
struct redis_guard {
    const struct dlock_host *host;
    const struct resp_config *config; /* whose endpoint errors name */
    bool on;
    bool alone;                 /* no replica may follow the server */
    bool is_safe;               /* redis_view_lack finds that FAILOVER_SAFE lacks nothing */
    char id[REDIS_REPLID_SIZE]; /* of the server that was judged; see same.lua */
    char tag[REDIS_TAG_SIZE];   /* in a cluster, of the record's keys */
    int64_t needed;             /* replicas */
    int64_t lasts_ms, yours_ms, grants_ms;

    pthread_mutex_t mutex; /* a leaf; guards the rest */
    int64_t since_us;      /* server's clock; 0: not yet */
    struct redis_view views[2];
    struct redis_slots owned; /* in a cluster, of views[0] */
};

/* ---- looks ---- */

/* Keeps the answer of a look that was made at seen_ns or later. Answers may come in another order
 * than the looks. NULL: fine. Else why the next connection has to judge the server again. */
const char *redis_view_keep(struct redis_guard *guard, const redisReply *reply, int64_t seen_ns);

/* True: the last look does not count any more. */
bool redis_view_expired(struct redis_guard *guard, int64_t now_ns);
/* True: no look will be confirmed in time by what replicas say on their own. */
bool redis_view_unsettled(struct redis_guard *guard, int64_t now_ns);

/* The last word of a script that looks at the server (same.lua, guard.lua), on names of this slot,
 * or REDIS_NO_SLOT. */
void redis_view_word(struct redis_guard *guard, int slot, int64_t now_ns,
                     char out[REDIS_VIEW_WORD_SIZE]);

/* How long nothing is granted in this slot; *age_ms: since enough replicas follow the server, and
 * the slot is there. 0 also if that is not known. */
int64_t redis_view_left_ms(struct redis_guard *guard, int slot, int64_t now_ns, int64_t *age_ms);

/* ---- the settings of a server ---- */

/* Sets what the guard needs, and for how long. In a cluster info->replicas is what the cluster
 * knows. OK; CONFIG: how long an old master goes on is not bounded, err says what to set. */
enum dlock_status redis_view_judge(const struct resp_config *config, const struct resp_info *info,
                                   struct redis_guard *guard, struct dlock_error *err);

/* Why a server with the guard is not FAILOVER_SAFE, and what to set; NULL: it is. */
const char *redis_view_lack(const struct resp_info *info);

/* Passes the checks of probe to fn. */
void redis_view_report(const struct resp_config *config, const struct resp_info *info,
                       dlock_check_fn *fn, void *arg);

/* ---- in a cluster ---- */

/* Reads " first-last@since ...". False: no memory, or it makes no sense; there are no slots then.
 */
bool redis_view_slots_read(struct redis_slots *owned, const char *text);
void redis_view_slots_free(struct redis_slots *owned);

/* Since when the slot is there; -1: it is not. */
int64_t redis_view_slots_since(const struct redis_slots *owned, unsigned slot);

/*
 * Where the failover guard keeps its record (view.lua): a key needs a slot of the server that it is
 * about. All clients choose the same slot as long as the server has the same slots. Few slots that
 * come or go change the choice seldom. If it changes, the record is lost, and the guard begins
 * anew.
 *
 * Reads the answer to CLUSTER NODES. *tag: "{...}", in a slot of the server that answered which
 * does not move just now. *replicas: how many it has, also of those that are down. False: it has no
 * such slot, or the answer makes no sense.
 */
bool redis_view_tag_choose(const char *nodes, char tag[REDIS_TAG_SIZE], int64_t *replicas);

#endif
