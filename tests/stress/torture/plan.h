/* SPDX-License-Identifier: MIT */
/*
 * plan.h - what is done to clients, servers and the ways between them, and when. A plan follows
 * from its seed alone; what the processes make of it does not.
 *
 * At most two faults are in force at a time, never two on the same client, and never two on
 * servers.
 */
#ifndef TORTURE_PLAN_H
#define TORTURE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 *   X(name, text, subject, shortest, longest)   lengths in tenths of a lease; 0: a moment
 */
#define FAULT_MAP(X)                                                       \
    X(CLIENT_STOP, "client stopped", CLIENT, 5, 30)                        \
    X(CLIENT_KILL, "client killed", CLIENT, 0, 3)                          \
    X(CLIENT_LEAVE, "client closed and opened", CLIENT, 15, 25)            \
    X(SERVER_STOP, "server stopped", SERVER, 1, 20)                        \
    X(SERVER_KILL, "server killed", SERVER, 0, 4)                          \
    X(SERVER_KICK, "connections ended by the server", SERVER, 0, 0)        \
    X(SCRIPT_FLUSH, "scripts flushed", SERVER, 0, 0)                       \
    X(NET_CUT, "connections cut", CLIENT, 0, 0)                            \
    X(NET_CUT_INSIDE, "connection cut inside a message", CLIENT, 5, 10)    \
    X(NET_BLACKHOLE, "bytes swallowed for a while", CLIENT, 2, 25)         \
    X(NET_DELAY, "messages delayed", CLIENT, 5, 20)                        \
    X(NET_SLICE, "bytes in slices", CLIENT, 5, 20)                         \
    X(NET_HOLD, "a message held back", CLIENT, 1, 15)                      \
    X(NET_REFUSE, "connections refused", CLIENT, 2, 20)                    \
    X(STORE_BUSY, "file locked by a stranger", SERVER, 1, 15)              \
    X(CPU_BURST, "processors busy", SERVER, 2, 10)                         \
    X(FORGET, "locks deleted by a stranger", SERVER, 0, 0)                 \
    X(CLOCK_STEP, "clock set forward", SERVER, 0, 0)                       \
    X(MEMBER_CUT, "member cut off from all clients", SERVER, 2, 25)        \
    X(MEMBER_PART, "member cut off from the other members", SERVER, 2, 40) \
    X(FAILOVER, "master replaced", SERVER, 15, 45)

enum fault_subject { FAULT_OF_CLIENT, FAULT_OF_SERVER };

#define FAULT_ENUM(name, text, subject, shortest, longest) FAULT_##name,
enum fault_kind { FAULT_MAP(FAULT_ENUM) FAULT_KINDS };
#undef FAULT_ENUM

#define FAULT_BIT(name) (UINT32_C(1) << FAULT_##name)

struct fault {
    int64_t start_ms, length_ms;
    enum fault_kind kind;
    unsigned client, node; /* whom it hits; node == plan_terms.nodes: all of them */
    uint32_t variant;      /* chance for whoever carries it out */
};

struct plan {
    struct fault *faults; /* by start */
    size_t count;
};

struct plan_terms {
    uint64_t seed;
    int64_t duration_ms; /* no fault lasts longer than this */
    int64_t lease_ms;
    unsigned clients, nodes;
    uint32_t kinds; /* FAULT_BIT */
    uint32_t often; /* of them: those that every second fault is chosen from; 0: no matter */
};

/* Both hit the same client, or both hit servers: one of them has to end before the other begins. */
bool fault_excludes(const struct fault *fault, const struct fault *other);

const char *fault_name(enum fault_kind kind);
const char *fault_text(enum fault_kind kind);

/* False: no memory. */
bool plan_make(const struct plan_terms *terms, struct plan *plan);
void plan_fini(struct plan *plan);
void plan_print(FILE *out, const struct plan *plan);

#endif
