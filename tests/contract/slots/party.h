/* SPDX-License-Identifier: MIT */
/*
 * party.h - one who wants a name: a client with one session and one attempt at a time, on a good
 * network. It makes the same calls as core.
 */
#ifndef DLT_PARTY_H
#define DLT_PARTY_H

#include "subject.h"

/* Long enough for all that a case does while a name is held. */
int dlt_party_ttl_ms(void);

/* By then a waiter has heard of what was done: a second of C13, and one for the exchanges. */
#define DLT_TOLD_MS 2000

/* It must not move. */
struct dlt_party {
    struct dlt_side side;
    struct dlt_attempt attempt;
    const struct dlt_run *run;
    const char *who; /* for messages: "the holder" */
    bool begun;      /* the attempt */
    bool released;   /* ... by an unlock, which is its last call */

    /* dlt_party_sleep */
    pthread_t thread;
    int64_t sleep_ms, awake_ns;
    enum dlock_status awake;
};

/* A client of its own, and an attempt at "job". options: for the URI, "waiter_lease=500ms"; NULL:
 * none. */
void dlt_party_begin(struct dlt_party *party, const struct dlt_run *run, const char *who,
                     const char *options);
/* A further session of the client of `other`. It ends before `other`. */
void dlt_party_join(struct dlt_party *party, struct dlt_party *other, const char *who);
/* Another thread of the client of `other`, as core lends sessions to threads. It ends before
 * `other`. */
void dlt_party_beside(struct dlt_party *party, struct dlt_party *other, const char *who);
/* What the attempt holds in the store stays until it ends by itself. */
void dlt_party_end(struct dlt_party *party);

/* False: the plugin has not that option, or it has no value. */
bool dlt_party_may_set(const struct dlt_party *party, const char *option);
/* A client whose queue entries last for 500 ms. The case is skipped where there is none. */
void dlt_party_brief(struct dlt_party *party, const struct dlt_run *run);

/* A new attempt, with a token of its own; the one before is forgotten. */
void dlt_party_anew(struct dlt_party *party, const char *suffix, enum dlock_mode mode,
                    int64_t ttl_ms);

/* The attempt is over, so that its session may be closed. */
void dlt_party_over(struct dlt_party *party);

bool dlt_party_queues(const struct dlt_party *party);

/* A slot each. */
enum dlock_status dlt_party_try(struct dlt_party *party);
enum dlock_status dlt_party_try_with(struct dlt_party *party, uint32_t flags);
/* OK: granted; BUSY: queued still; LOST: no queue entry. Without a queue it is a trylock. */
enum dlock_status dlt_party_refresh(struct dlt_party *party);
enum dlock_status dlt_party_renew(struct dlt_party *party);
enum dlock_status dlt_party_downgrade(struct dlt_party *party);
enum dlock_status dlt_party_unlock(struct dlt_party *party);
enum dlock_status dlt_party_dequeue(struct dlt_party *party);
enum dlock_status dlt_party_break(struct dlt_party *party, const char *owner);
/* `lock` where the plugin has it, or else `watch`. */
enum dlock_status dlt_party_watch(struct dlt_party *party, int64_t ms);
void dlt_party_interrupt(struct dlt_party *party);

/* The call of this party has to say `want`; the text says why: "nobody holds the name [TRY-1]". */
#define DLT_SAYS(party, call, want, ...) \
    dlt_party_says(__FILE__, __LINE__, (party), #call, (call), (want), __VA_ARGS__)
__attribute__((format(printf, 7, 8))) void
dlt_party_says(const char *file, int line, const struct dlt_party *party, const char *call,
               enum dlock_status got, enum dlock_status want, const char *format, ...);

/* The name is free: it has it. */
void dlt_party_hold(struct dlt_party *party);
/* It holds the name, and gives it back. Returns the moment before. */
int64_t dlt_party_release(struct dlt_party *party);

/* trylock: it is refused, and waits. With a queue it has a queue entry now. */
void dlt_party_line_up(struct dlt_party *party);
/* The same, and the plugin has set up all that it needs to hear: a wait ends by its deadline. */
void dlt_party_settle(struct dlt_party *party);

/* Waits as core does, for ms at most: BUSY of watch is worth a question, and then a further wait.
 * OK: the lock; else what ended the wait. */
enum dlock_status dlt_party_wait(struct dlt_party *party, int64_t ms);

/* The same in a thread. dlt_party_wake joins it. */
void dlt_party_sleep(struct dlt_party *party, int64_t ms);
enum dlock_status dlt_party_wake(struct dlt_party *party);

/* Waits, and has the lock no later than DLT_TOLD_MS after since_ns. */
#define DLT_TOLD(party, since_ns, ...) \
    dlt_party_told(__FILE__, __LINE__, (party), (since_ns), __VA_ARGS__)
__attribute__((format(printf, 5, 6))) void dlt_party_told(const char *file, int line,
                                                          struct dlt_party *party, int64_t since_ns,
                                                          const char *format, ...);

/* While another party holds the name, this party gets no wake-up for a moment. */
void dlt_party_not_told(struct dlt_party *party, const char *when);

/* How many wait for the name, by inspect. UINT32_MAX: the store does not say. */
uint32_t dlt_party_waiters(struct dlt_party *party);

/* A step of the store's clock and what TRY-2 allows: a lease of lease_ms has ended by then. */
int64_t dlt_party_ended_ms(const struct dlt_party *party, int64_t lease_ms);

/* The last number of the last grant of this party; 0: it has none. */
uint64_t dlt_party_fence(const struct dlt_party *party);

#endif
