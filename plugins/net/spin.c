/* SPDX-License-Identifier: MIT */
#include "net/spin.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define WEIGHT 8 /* of the past against one answer */

static _Atomic unsigned spinning;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The child of a fork has no other thread. */
static void child(void)
{
    atomic_store(&spinning, 0);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, child);
}

unsigned spin_processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

void spin_init(struct spin *spin, unsigned processors)
{
    (void)pthread_once(&once, watch_forks);
    *spin = (struct spin){.processors = processors, .credit = SPIN_CREDIT};
}

static void stop(struct spin *spin)
{
    if (spin->counted)
        (void)atomic_fetch_sub(&spinning, 1);
    spin->counted = false;
}

void spin_begin(struct spin *spin, int64_t now_ns)
{
    int64_t most_ns = spin->average_ns > 0 ? 2 * spin->average_ns : SPIN_MOST_NS;

    spin->begun_ns = now_ns;
    spin->until_ns = now_ns;
    spin->tried = false;
    if (spin->rest > 0) {
        spin->rest--;
        return;
    }
    if (spin->processors < 2 || spin->average_ns > SPIN_ANSWER_NS)
        return;
    if (atomic_fetch_add(&spinning, 1) >= spin->processors / 2) {
        (void)atomic_fetch_sub(&spinning, 1);
        return;
    }
    spin->counted = true;
    spin->tried = true;
    spin->until_ns = now_ns + (most_ns < SPIN_MOST_NS ? most_ns : SPIN_MOST_NS);
}

bool spin_more(struct spin *spin, int64_t now_ns)
{
    if (spin->counted && now_ns < spin->until_ns)
        return true;
    stop(spin);
    return false;
}

static void judge(struct spin *spin, bool in_time)
{
    if (in_time && spin->credit < SPIN_CREDIT)
        spin->credit++;
    if (!in_time)
        spin->credit -= SPIN_PRICE;
    if (spin->credit < 0) {
        spin->credit = SPIN_PRICE;
        spin->rest = SPIN_REST;
    }
}

void spin_end(struct spin *spin, int64_t now_ns, bool answered)
{
    int64_t took_ns = now_ns - spin->begun_ns;

    if (spin->tried)
        judge(spin, spin->counted && now_ns <= spin->until_ns);
    stop(spin);
    if (answered)
        spin->average_ns =
            spin->average_ns == 0 ? took_ns : (spin->average_ns * (WEIGHT - 1) + took_ns) / WEIGHT;
}
