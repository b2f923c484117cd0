/* SPDX-License-Identifier: MIT */
/*
 * crew.h - the client processes of a run, as seen by the one that starts and ends them. Each is
 * this program again, or that of a rival (rivals/README.md), and ends with it.
 */
#ifndef TORTURE_CREW_H
#define TORTURE_CREW_H

#include "shared.h"
#include "store.h"

#include "../history/log.h"
#include <sys/types.h>

struct member {
    pid_t pid; /* 0: it does not run */
    unsigned generation;
    bool stopped;
    bool leaving, left; /* was asked to end; did so, and well */
    int64_t leave_ns;   /* when it has to have done so */
};

/* What stands for a process in the history: pids are used again. */
static inline int32_t member_number(unsigned client, unsigned generation)
{
    return (int32_t)(client * 100000 + generation + 1);
}

struct crew {
    const struct store *store;
    struct shared *shared;
    struct dlt_log *log; /* of what is done to them */
    const char *directory;
    uint64_t seed;
    const char *rival; /* the command of each process; NULL: this program */
    int64_t ttl_ms, think_us;
    unsigned clients, threads, names;
    struct member members[CLIENTS_MOST];
    unsigned broken; /* ended by themselves, or badly */
};

/* Waits for the client (`clients`: for any) to hold a name exclusively for more than a moment, but
 * no longer than that. */
void crew_await_claim(const struct crew *crew, unsigned client, int64_t most_ms);

/* Each of these: true if that is so now. They note what they did. */
bool crew_start(struct crew *crew, unsigned client);
bool crew_stop(struct crew *crew, unsigned client);
bool crew_cont(struct crew *crew, unsigned client);
bool crew_kill(struct crew *crew, unsigned client);
/* Asks it to close. */
bool crew_leave(struct crew *crew, unsigned client);
/* Whether it has. It is killed, and counts as broken, if patience is over. */
enum crew_left { CREW_LEFT, CREW_LEAVING, CREW_STAYED };
enum crew_left crew_left(struct crew *crew, unsigned client);

/* Counts those that ended though nobody had told them to. */
void crew_look(struct crew *crew);

/* Waits for all, which were told to end; kills those that do not within limit_ms. False: some. */
bool crew_end(struct crew *crew, int64_t limit_ms);

#endif
