/* SPDX-License-Identifier: MIT */
/* Many at once, and what a plugin says of its shape (TRY-1, TRY-6, PAR-1, SRV-1). */
#include "calls.h"
#include "session/slot.h"
#include "slots.h"

#include <stdatomic.h>

#define CROWD    4
#define CROWD_MS 1500
#define TURNS    25
#define TURN_MS  30000

struct crowd {
    const struct dlt_run *run;
    atomic_int writers, readers;
    atomic_uint grants;
    atomic_ullong fence;
};

static void inside(struct crowd *crowd, struct dlt_party *party)
{
    bool reads = party->attempt.req.mode == DLOCK_SHARED;
    unsigned long long fence = party->side.grant.fence;
    int writers = atomic_fetch_add(&crowd->writers, reads ? 0 : 1);
    int readers = atomic_fetch_add(&crowd->readers, reads ? 1 : 0);

    DLT_CHECK(writers == 0 && (reads || readers == 0),
              "%d writers and %d readers hold the name beside a %s [TRY-1]", writers, readers,
              reads ? "reader" : "writer");
    if (!reads && dlt_side_has(&party->side, DLOCK_CAP_FENCE))
        DLT_CHECK(atomic_exchange(&crowd->fence, fence) < fence, "the fence fell to %llu [TRY-6]",
                  fence);
    atomic_fetch_add(&crowd->grants, 1);
    atomic_fetch_sub(reads ? &crowd->readers : &crowd->writers, 1);
}

static void *contend(void *arg)
{
    struct crowd *crowd = arg;
    struct dlt_party party;
    int64_t start_ns = dlt_now_ns();

    dlt_party_begin(&party, crowd->run, "one of a crowd", NULL);
    for (int i = 0; dlt_ms_since(start_ns) < CROWD_MS; i++) {
        bool reads = i % 3 == 0 && dlt_side_has(&party.side, DLOCK_CAP_RWLOCK);
        enum dlock_status status;

        dlt_party_anew(&party, "job", reads ? DLOCK_SHARED : DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        status = dlt_party_try(&party);
        if (status == DLOCK_BUSY)
            continue;
        DLT_SAYS(&party, status, DLOCK_OK, "trylock of one of a crowd is OK or BUSY [TRY-3]");
        inside(crowd, &party);
        DLT_SAYS(&party, dlt_party_unlock(&party), DLOCK_OK, "a holder in a crowd [UNL-1]");
    }
    dlt_party_end(&party);
    return NULL;
}

/* Returns the grants. */
static unsigned gather(const struct dlt_run *run, void *(*member)(void *arg))
{
    struct crowd crowd = {.run = run};
    pthread_t threads[CROWD];

    for (int i = 0; i < CROWD; i++)
        threads[i] = dlt_thread(member, &crowd);
    for (int i = 0; i < CROWD; i++)
        (void)dlt_join(threads[i]);
    return atomic_load(&crowd.grants);
}

void dlt_slots_crowd(struct dlt_run *run)
{
    unsigned grants = gather(run, contend);

    DLT_CHECK(grants > CROWD, "%u grants in %d ms", grants, CROWD_MS);
}

/* Waits by asking again, so that the order of the queue alone decides. */
static void take_turn(struct dlt_party *party)
{
    int64_t start_ns = dlt_now_ns();
    enum dlock_status status = dlt_party_try_with(party, DLOCK_REQ_ENQUEUE);

    while (status == DLOCK_BUSY || status == DLOCK_LOST) {
        DLT_WITHIN(start_ns, TURN_MS, "one of a queue of %d has not had its turn [C13]", CROWD);
        dlt_sleep_ms(1);
        status = status == DLOCK_BUSY /* LOST: the machine stood still longer than an entry lasts */
                     ? dlt_party_refresh(party)
                     : dlt_party_try_with(party, DLOCK_REQ_ENQUEUE);
    }
    DLT_SAYS(party, status, DLOCK_OK, "it is its turn [C13]");
}

static void *queue_up(void *arg)
{
    struct crowd *crowd = arg;
    struct dlt_party party;

    dlt_party_begin(&party, crowd->run, "one of a queue", NULL);
    for (int i = 0; i < TURNS; i++) {
        bool reads = i % 3 == 0 && dlt_side_has(&party.side, DLOCK_CAP_RWLOCK);

        dlt_party_anew(&party, "job", reads ? DLOCK_SHARED : DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        take_turn(&party);
        inside(crowd, &party);
        DLT_SAYS(&party, dlt_party_unlock(&party), DLOCK_OK, "a holder in a crowd [UNL-1]");
    }
    dlt_party_end(&party);
    return NULL;
}

void dlt_slots_crowd_in_the_queue(struct dlt_run *run)
{
    struct dlt_party last;

    (void)gather(run, queue_up);
    dlt_party_begin(&last, run, "the last", NULL);
    dlt_party_hold(&last);
    DLT_CHECK(last.side.grant.waiters == 0 || last.side.grant.waiters == UINT32_MAX,
              "%u wait, though all have gone", last.side.grant.waiters);
    dlt_party_end(&last);
}

/* ---- what a plugin says of itself ---- */

void dlt_slots_parallelism(struct dlt_run *run)
{
    struct dlt_party one, beside, other;

    dlt_party_begin(&one, run, "the first", NULL);
    dlt_party_beside(&beside, &one, "another session of the first");
    dlt_party_begin(&other, run, "the second", NULL);
    if (one.side.info.parallelism == 0)
        dlt_skip("not applicable: each call makes its own exchange");
    DLT_CHECK(beside.side.info.parallelism == one.side.info.parallelism &&
                  other.side.info.parallelism == one.side.info.parallelism,
              "parallelism is %u, %u and %u in three sessions, want the same in all [PAR-1]",
              one.side.info.parallelism, beside.side.info.parallelism, other.side.info.parallelism);
    dlt_party_end(&other);
    dlt_party_end(&beside);
    dlt_party_end(&one);
}

void dlt_slots_server_of(struct dlt_run *run)
{
    struct dlt_party one, beside, *holder = &one;
    const struct dl_plugin *plugin;
    uint32_t first, number;
    int64_t start_ns;

    dlt_party_begin(&one, run, "the first", NULL);
    plugin = one.side.plugin;
    if (plugin->ops.server_of == NULL)
        dlt_skip("not applicable: one server has all names");
    dlt_party_beside(&beside, &one, "another session of the first");
    dlt_party_hold(holder);
    first =
        dl_slot_server_of(plugin, one.side.self, one.attempt.req.name, one.attempt.req.name_len);
    if (dlt_side_has(&one.side, DLOCK_CAP_WATCH)) {
        dlt_party_settle(&beside);
        dlt_party_sleep(&beside, 1000);
    }
    start_ns = dlt_now_ns();
    for (int i = 0; i < 1000; i++) {
        number = dl_slot_server_of(plugin, i % 2 == 0 ? one.side.self : beside.side.self,
                                   one.attempt.req.name, one.attempt.req.name_len);
        DLT_CHECK(number == first, "the name is at server %u, and was at %u [SRV-1]", number,
                  first);
    }
    DLT_WITHIN(start_ns, 1000, "server_of waits for something [SRV-1]");
    if (dlt_side_has(&one.side, DLOCK_CAP_WATCH))
        DLT_SAYS(&beside, dlt_party_wake(&beside), DLOCK_TIMEOUT, "the name is held");
    dlt_party_end(&beside);
    dlt_party_end(&one);
}
