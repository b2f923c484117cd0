/* SPDX-License-Identifier: MIT */
/* settings.h - what a run is to be, from the command line. */
#ifndef TORTURE_SETTINGS_H
#define TORTURE_SETTINGS_H

#include "profile.h"
#include "store_command.h"

/* Tells the clients to hold what they get for long: in a run without a rule of the guard. */
#define TORTURE_LONG_HOLDS "DLT_TORTURE_LONG_HOLDS"

struct settings {
    const struct backend *backend;
    const struct profile *profile;
    struct store_commands commands; /* uri NULL: a server of our own */
    uint64_t seed;
    int64_t duration_ms; /* with faults */
    int64_t ttl_ms, slack_ms, think_us;
    unsigned processes, threads, names;
    const char *keep;    /* a directory to leave everything in; NULL: only what went wrong */
    unsigned guard_rule; /* of the failover guard that is off; 0: all are on */
    const char *rival;   /* the command of clients of another library; NULL: dlock's own */
    bool lone_guard;     /* servers do not end an old master by themselves */
    bool plan_only;
    bool until_seen; /* two claims at once: then it is over */
};

/* False: a usage was printed. */
bool settings_read(struct settings *settings, int argc, char **argv);

/* T of the failover guard: the ttl, but where the rule is off that no lease is longer. */
int64_t settings_longest_ms(const struct settings *settings);

/* How long a wanted name may be free at most when nothing is wrong any more: until the end of what
 * a dead holder had, that of a dead waiter, and the next look. */
int64_t settings_stall_ms(const struct settings *settings);

#endif
