/* SPDX-License-Identifier: MIT */
/* nemesis.h - carries out a plan, and counts what came of it. */
#ifndef TORTURE_NEMESIS_H
#define TORTURE_NEMESIS_H

#include "crew.h"
#include "plan.h"

#include <skew.h>

#define ACTIVE_MOST 8
#define BURNERS     3

struct sqlite3;

/* What proxies count. */
enum proxied { SWALLOWED, DELAYED, SLICED, WITHHELD, CUTS, KILLED, ACCEPTED, PROXIED };

/* A fault in force. */
struct active {
    const struct fault *fault; /* NULL: none */
    bool effective;
    unsigned node;           /* of the servers, that it hits */
    int64_t began_ms;        /* which may be later than planned */
    int64_t later_ms;        /* its end is put off by that */
    int64_t counts[PROXIED]; /* of the proxies, meanwhile */
    pid_t burners[BURNERS];
    struct sqlite3 *db;
};

struct nemesis {
    struct crew *crew;
    struct store *store;
    struct dlt_skew *clocks; /* NULL: servers have the true time */
    int64_t lease_ms;
    int64_t start_ns;
    struct active active[ACTIVE_MOST];
    int64_t unready_ms;  /* since when a failover has waited for its store; 0: none waits */
    int64_t unserved_ms; /* no fault was in force, and the servers were still choosing a leader */
    int64_t starved_ms;  /* the longest time that a sleep lasted too long: no processor was free */
    uint64_t tried[FAULT_KINDS], effective[FAULT_KINDS];
    bool broken;     /* a server did not come up again */
    bool disobeyed;  /* a proxy did not do as it was told */
    bool until_seen; /* ends when shared memory has seen two claims at once */
    void (*progress)(void *arg);
    void *arg;
};

/* Carries out the plan from start_ns on. Returns when nothing is wrong any more, or `interrupted`
 * is set. */
void nemesis_run(struct nemesis *nemesis, const struct plan *plan, const volatile int *interrupted);

/* Whether the fault may begin beside those in force: each lasts for as long as it needs, a failover
 * until there is another master, and a client that leaves until its calls have ended. */
bool nemesis_may_begin(const struct nemesis *nemesis, const struct fault *fault);

/* Nothing happens for so long, while the servers have a leader if they choose one. */
void nemesis_rest(struct nemesis *nemesis, int64_t ms, const volatile int *interrupted);

/* fault.c: begins and ends one. What is `effective` then has been seen. */
void fault_begin(struct nemesis *nemesis, struct active *active);
/* False: it does not end yet; ask again soon. */
bool fault_end(struct nemesis *nemesis, struct active *active);

/* fault_net.c: the same for those that hit the ways to the servers. */
void net_begin(struct nemesis *nemesis, struct active *active);
void net_end(struct nemesis *nemesis, struct active *active);

#endif
