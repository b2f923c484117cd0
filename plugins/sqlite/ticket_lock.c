/* SPDX-License-Identifier: MIT */
#include "ticket_lock.h"

#include "clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPIN_NS    (20 * DL_NS_PER_US) /* a transaction is shorter; falling asleep is not */
#define FARTHEST   8                   /* tickets away: patience does not grow beyond */
#define STEP_SHIFT 30

/* What a waiter knows of the lock. */
struct view {
    uint32_t state, served;
    int64_t state_ns;  /* since when `state` is the same */
    int64_t served_ns; /* since when the owner of the served ticket does not enter */
    bool blocked;      /* it cannot enter: the lock has had the same holder since then */
};

static bool change(_Atomic uint32_t *word, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong(word, &from, to);
}

/* Its turn has come, or is over. Tickets wrap around. */
static bool is_due(uint32_t served, uint32_t ticket)
{
    return (int32_t)(served - ticket) >= 0;
}

static uint32_t bit_of(uint32_t ticket)
{
    return 1u << ticket % 32;
}

static void wake(struct sqlite_ticket_lock *lock, uint32_t bits)
{
    (void)syscall(SYS_futex, &lock->state, FUTEX_WAKE_BITSET, INT32_MAX, NULL, NULL, bits);
}

static void sleep_until(struct sqlite_ticket_lock *lock, uint32_t state, int64_t until_ns,
                        uint32_t bits)
{
    struct timespec until = sqlite_clock_futex(until_ns);

    (void)syscall(SYS_futex, &lock->state, FUTEX_WAIT_BITSET, state, &until, NULL, bits);
}

static void spin(const struct sqlite_ticket_lock *lock, uint32_t state)
{
    int64_t until_ns = sqlite_clock_boottime() + SPIN_NS;

    while (atomic_load(&lock->state) == state && sqlite_clock_boottime() < until_ns)
        continue;
}

/* Never zero; the index holds the rest of the ticket. */
static uint32_t mark_of(uint32_t ticket)
{
    return ticket | (SQ_TICKETS_GIVEN_UP - 1);
}

/* Skips tickets that were given up. */
static void served_advance(struct sqlite_ticket_lock *lock)
{
    for (uint32_t i = 0; i < SQ_TICKETS_GIVEN_UP; i++) {
        uint32_t served = atomic_load(&lock->served);

        if (atomic_load(&lock->given_up[served % SQ_TICKETS_GIVEN_UP]) != mark_of(served))
            return;
        (void)change(&lock->served, served, served + 1);
    }
}

/* Wakes all waiters: a waiter that is skipped may be alive and has to know. */
static void served_skip(struct sqlite_ticket_lock *lock, uint32_t served, uint32_t ticket)
{
    uint32_t skips = atomic_fetch_add(&lock->skips, 1);
    uint32_t step = UINT32_C(1) << (skips < STEP_SHIFT ? skips : STEP_SHIFT);

    if (!change(&lock->served, served, step < ticket - served ? served + step : ticket))
        return;
    served_advance(lock);
    wake(lock, FUTEX_BITSET_MATCH_ANY);
}

static void ticket_give_up(struct sqlite_ticket_lock *lock, uint32_t ticket)
{
    atomic_store(&lock->given_up[ticket % SQ_TICKETS_GIVEN_UP], mark_of(ticket));
    served_advance(lock);
    wake(lock, bit_of(atomic_load(&lock->served)));
}

/* state: the state on which the decision was based. */
static bool take(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass, uint32_t state)
{
    uint32_t entered = (state + 1) | 1;

    if (!change(&lock->state, state, entered))
        return false;
    pass->entered = entered;
    return true;
}

static bool may_return(const struct sqlite_ticket_lock *lock, const struct sqlite_ticket_pass *pass,
                       uint32_t state, uint32_t served)
{
    return state == pass->exited && served != atomic_load(&lock->awake) &&
           sqlite_clock_boottime() < pass->since_ns + SQ_TICKET_RUN_NS;
}

static bool enter_without_ticket(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass)
{
    uint32_t state = atomic_load(&lock->state), served = atomic_load(&lock->served);
    bool has_waiters = served != atomic_load(&lock->next);

    return (state & 1) == 0 && (!has_waiters || may_return(lock, pass, state, served)) &&
           take(lock, pass, state);
}

static void view_update(const struct sqlite_ticket_lock *lock, struct view *view)
{
    int64_t now_ns = sqlite_clock_boottime();
    uint32_t state = atomic_load(&lock->state), served = atomic_load(&lock->served);
    bool first = view->served_ns == 0;

    if (first || served != view->served) {
        view->served_ns = now_ns;
        view->blocked = (state & 1) != 0;
    } else if (view->blocked && state != view->state) {
        view->served_ns = now_ns;
        view->blocked = false;
    }
    if (view->state_ns == 0 || state != view->state)
        view->state_ns = now_ns;
    view->state = state;
    view->served = served;
}

/* The wait of a ticket that is due. True: entered. */
static bool wait_first(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass,
                       const struct view *view, uint32_t ticket, int64_t until_ns)
{
    int64_t patience_ns = view->state_ns + SQ_TICKET_HOLDER_NS;

    if ((view->state & 1) != 0 && sqlite_clock_boottime() < patience_ns) {
        atomic_store(&lock->awake, view->served);
        spin(lock, view->state);
        sleep_until(lock, view->state, sqlite_clock_min(patience_ns, until_ns),
                    FUTEX_BITSET_MATCH_ANY);
        return false;
    }
    if (!take(lock, pass, view->state))
        return false;
    pass->since_ns = sqlite_clock_boottime();
    if (change(&lock->served, ticket, ticket + 1)) {
        atomic_store(&lock->skips, 0);
        served_advance(lock);
    }
    return true;
}

/* The wait of a ticket that is not due. Each waiter is more patient than the one before it, so that
 * one skips the ticket and the others see it. */
static void wait_behind(struct sqlite_ticket_lock *lock, const struct view *view, uint32_t ticket,
                        int64_t until_ns)
{
    int64_t step_ns =
        sqlite_clock_min((int32_t)(ticket - view->served), FARTHEST) * SQ_TICKET_WAITER_NS;
    int64_t patience_ns = view->served_ns + step_ns + (view->blocked ? SQ_TICKET_HOLDER_NS : 0);
    int64_t now_ns = sqlite_clock_boottime();

    if (now_ns >= patience_ns)
        served_skip(lock, view->served, ticket);
    else
        sleep_until(lock, view->state,
                    sqlite_clock_min(sqlite_clock_min(patience_ns, now_ns + step_ns), until_ns),
                    bit_of(ticket));
}

static bool is_unusable(const struct sqlite_ticket_pass *pass)
{
    return pass->usable != NULL && !pass->usable(pass->arg);
}

int sqlite_ticket_lock_enter(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass,
                             int64_t until_ns)
{
    struct view view = {.state = pass->waited, .state_ns = pass->waited_ns};
    uint32_t ticket = 0;

    if (enter_without_ticket(lock, pass))
        return 0;
    ticket = atomic_fetch_add(&lock->next, 1);
    do {
        view_update(lock, &view);
        if (!is_due(view.served, ticket))
            wait_behind(lock, &view, ticket, until_ns);
        else if (wait_first(lock, pass, &view, ticket, until_ns))
            return 0;
        if (is_unusable(pass))
            return ENODATA;
    } while (sqlite_clock_boottime() < until_ns);
    pass->waited = view.state;
    pass->waited_ns = view.state_ns;
    ticket_give_up(lock, ticket);
    return ETIMEDOUT;
}

void sqlite_ticket_lock_exit(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass)
{
    uint32_t served = 0;

    if (!change(&lock->state, pass->entered, pass->entered + 1)) /* others passed this holder */
        return;
    pass->exited = pass->entered + 1;
    served = atomic_load(&lock->served);
    if (served != atomic_load(&lock->next))
        wake(lock, bit_of(served));
    else if (change(&lock->awake, served, served - 1)) /* a waiter that was skipped */
        wake(lock, FUTEX_BITSET_MATCH_ANY);
}
