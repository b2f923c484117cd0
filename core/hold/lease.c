/* SPDX-License-Identifier: MIT */
#include "hold/lease.h"
#include "sys/clock.h"

#define MARGIN_LEAST_NS (10 * DL_NS_PER_MS)

/* Signal handlers may call dlock_state: libatomic must not use a lock for this type. */
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics have to be lock-free");

static uint64_t word_make(enum dlock_state state, int64_t until_ns)
{
    return (uint64_t)until_ns << 2 | (uint64_t)state;
}

static enum dlock_state word_state(uint64_t word)
{
    return (enum dlock_state)(word & 3);
}

static int64_t word_until(uint64_t word)
{
    return (int64_t)(word >> 2);
}

static bool word_holds(uint64_t word)
{
    return word_state(word) == DLOCK_STATE_HELD || word_state(word) == DLOCK_STATE_DOUBTFUL;
}

/* Returns the word at now_ns. If the end of the lease has passed, it writes the loss into the word
 * first. */
static uint64_t word_now(struct dl_lease *lease, int64_t now_ns)
{
    uint64_t word = atomic_load(&lease->word);

    while (word_holds(word) && now_ns >= word_until(word)) {
        uint64_t lost = word_make(DLOCK_STATE_LOST, word_until(word));

        if (atomic_compare_exchange_weak(&lease->word, &word, lost))
            return lost;
    }
    return word;
}

enum dlock_state dl_lease_state(struct dl_lease *lease, int64_t now_ns)
{
    return word_state(word_now(lease, now_ns));
}

int64_t dl_lease_left_ns(struct dl_lease *lease, int64_t now_ns)
{
    uint64_t word = word_now(lease, now_ns);

    return word_holds(word) ? word_until(word) - now_ns : 0;
}

int64_t dl_lease_until_ns(const struct dl_lease *lease)
{
    return word_until(atomic_load(&lease->word));
}

void dl_lease_grant(struct dl_lease *lease, int64_t until_ns)
{
    atomic_store(&lease->word, word_make(DLOCK_STATE_HELD, until_ns));
}

static bool lease_rewrite(struct dl_lease *lease, int64_t now_ns, enum dlock_state state,
                          int64_t until_ns)
{
    uint64_t word = word_now(lease, now_ns);

    while (word_holds(word)) {
        int64_t later = until_ns > word_until(word) ? until_ns : word_until(word);

        if (atomic_compare_exchange_weak(&lease->word, &word, word_make(state, later)))
            return true;
        word = word_now(lease, now_ns);
    }
    return false;
}

bool dl_lease_extend(struct dl_lease *lease, int64_t now_ns, int64_t until_ns)
{
    return lease_rewrite(lease, now_ns, DLOCK_STATE_HELD, until_ns);
}

bool dl_lease_doubt(struct dl_lease *lease, int64_t now_ns)
{
    return lease_rewrite(lease, now_ns, DLOCK_STATE_DOUBTFUL, 0);
}

void dl_lease_lose(struct dl_lease *lease)
{
    atomic_store(&lease->word, word_make(DLOCK_STATE_LOST, dl_lease_until_ns(lease)));
}

void dl_lease_free(struct dl_lease *lease)
{
    atomic_store(&lease->word, word_make(DLOCK_STATE_FREE, dl_lease_until_ns(lease)));
}

int64_t dl_lease_margin_ns(int64_t lease_ms, unsigned margin)
{
    int64_t part_ns = lease_ms * (DL_NS_PER_MS / 100) * margin;

    return part_ns > MARGIN_LEAST_NS ? part_ns : MARGIN_LEAST_NS;
}

int64_t dl_lease_valid_until_ns(int64_t base_ns, int64_t lease_ms, unsigned margin)
{
    return base_ns + lease_ms * DL_NS_PER_MS - dl_lease_margin_ns(lease_ms, margin);
}

int64_t dl_lease_least_ns(int64_t lease_ms)
{
    int64_t tenth = lease_ms * (DL_NS_PER_MS / 10);

    return tenth > 10 * DL_NS_PER_MS ? tenth : 10 * DL_NS_PER_MS;
}

bool dl_lease_is_enough(int64_t now_ns, int64_t until_ns, int64_t lease_ms)
{
    return until_ns - now_ns > dl_lease_least_ns(lease_ms);
}
