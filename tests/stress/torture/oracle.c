/* SPDX-License-Identifier: MIT */
#include "oracle.h"

#include "../history/log.h"
#include <dlock/types.h>

static void witness(struct shared *shared, uint32_t name, unsigned place, unsigned other,
                    int64_t now_ns)
{
    const struct oracle_claim *mine = &shared->claims[name][place];
    const struct oracle_claim *theirs = &shared->claims[name][other];
    uint32_t count = atomic_fetch_add(&shared->witness_count, 1);

    if (count < WITNESSES_MOST)
        shared->witnesses[count] = (struct oracle_witness){
            .attempt = atomic_load(&mine->attempt),
            .other = atomic_load(&theirs->attempt),
            .clock_ns = now_ns,
            .until_ns = atomic_load(&mine->until_ns),
            .other_until_ns = atomic_load(&theirs->until_ns),
            .name = name,
        };
}

/* Both claims were there at once if neither has ended when the clock was read after both were
 * seen. */
static void look_around(struct shared *shared, uint32_t name, unsigned place)
{
    const struct oracle_claim *mine = &shared->claims[name][place];
    uint32_t mode = atomic_load(&mine->mode), permit = atomic_load(&mine->permit);

    atomic_fetch_add(&shared->scans, 1);
    for (unsigned i = 0; i < PLACES_MOST; i++) {
        const struct oracle_claim *other = &shared->claims[name][i];
        uint64_t attempt = atomic_load(&other->attempt);
        int64_t now_ns;

        if (i == place || attempt == 0 || atomic_load(&other->permit) != permit ||
            (mode == DLOCK_SHARED && atomic_load(&other->mode) == DLOCK_SHARED))
            continue;
        now_ns = dlt_log_now_ns();
        if (atomic_load(&other->until_ns) > now_ns && atomic_load(&mine->until_ns) > now_ns &&
            atomic_load(&other->attempt) == attempt && atomic_load(&mine->attempt) != 0)
            witness(shared, name, place, i, now_ns);
    }
}

void oracle_enter(struct shared *shared, uint32_t name, unsigned place,
                  const struct dlt_record *record, int64_t until_ns)
{
    struct oracle_claim *claim = &shared->claims[name][place];

    atomic_store(&claim->until_ns, until_ns);
    atomic_store(&claim->mode, record->mode);
    atomic_store(&claim->permit, record->permit);
    atomic_store(&claim->attempt, record->attempt_id);
    look_around(shared, name, place);
}

void oracle_extend(struct shared *shared, uint32_t name, unsigned place, int64_t until_ns)
{
    struct oracle_claim *claim = &shared->claims[name][place];

    if (atomic_load(&claim->attempt) == 0)
        return;
    atomic_store(&claim->until_ns, until_ns);
    look_around(shared, name, place);
}

void oracle_downgrade(struct shared *shared, uint32_t name, unsigned place)
{
    atomic_store(&shared->claims[name][place].mode, DLOCK_SHARED);
}

void oracle_leave(struct shared *shared, uint32_t name, unsigned place)
{
    atomic_store(&shared->claims[name][place].attempt, 0);
}

uint64_t oracle_claims(const struct shared *shared, uint32_t name, unsigned place)
{
    const struct oracle_claim *claim = &shared->claims[name][place];

    return atomic_load(&claim->mode) == DLOCK_EXCLUSIVE ? atomic_load(&claim->attempt) : 0;
}
