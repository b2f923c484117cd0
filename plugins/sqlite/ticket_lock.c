/* SPDX-License-Identifier: MIT */
#include "ticket_lock.h"

#include "sqlite.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS    (20 * DL_NS_PER_US) /* a transaction is shorter; falling asleep is not */
#define DISTANT    8                   /* tickets away: as patient as it gets */
#define STEP_SHIFT 30

/* What one who waits sees. */
struct view {
    uint32_t state, turn;
    int64_t state_ns; /* since when it is the same */
    int64_t turn_ns;  /* since when the owner of the turn does not take it; */
    int blocked;      /* non-zero: because it cannot: who was in is in */
};

static int move(_Atomic uint32_t *word, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong(word, &from, to);
}

/* Its turn is now, or is over. Tickets wrap around. */
static int due(uint32_t turn, uint32_t ticket)
{
    return (int32_t)(turn - ticket) >= 0;
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

/* Never zero: its place tells the rest. */
static uint32_t mark_of(uint32_t ticket)
{
    return ticket | (SQ_TICKETS_GONE - 1);
}

/* Past those that gave up. */
static void turn_settle(struct sqlite_ticket_lock *lock)
{
    for (uint32_t i = 0; i < SQ_TICKETS_GONE; i++) {
        uint32_t turn = atomic_load(&lock->turn);

        if (atomic_load(&lock->gone[turn % SQ_TICKETS_GONE]) != mark_of(turn))
            return;
        (void)move(&lock->turn, turn, turn + 1);
    }
}

/* Those that are skipped have to look, in case they live. */
static void turn_skip(struct sqlite_ticket_lock *lock, uint32_t turn, uint32_t ticket)
{
    uint32_t skips = atomic_fetch_add(&lock->skips, 1);
    uint32_t step = UINT32_C(1) << (skips < STEP_SHIFT ? skips : STEP_SHIFT);

    if (!move(&lock->turn, turn, step < ticket - turn ? turn + step : ticket))
        return;
    turn_settle(lock);
    wake(lock, FUTEX_BITSET_MATCH_ANY);
}

static void ticket_give_up(struct sqlite_ticket_lock *lock, uint32_t ticket)
{
    atomic_store(&lock->gone[ticket % SQ_TICKETS_GONE], mark_of(ticket));
    turn_settle(lock);
    wake(lock, bit_of(atomic_load(&lock->turn)));
}

/* state: as it was when that was decided. */
static int door_pass(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass,
                     uint32_t state)
{
    uint32_t entered = (state + 1) | 1;

    if (!move(&lock->state, state, entered))
        return 0;
    pass->entered = entered;
    return 1;
}

static int may_return(const struct sqlite_ticket_lock *lock, const struct sqlite_ticket_pass *pass,
                      uint32_t state, uint32_t turn)
{
    return state == pass->left && turn != atomic_load(&lock->awake) &&
           sqlite_clock_boottime() < pass->since_ns + SQ_TICKET_RUN_NS;
}

static int enter_without_ticket(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass)
{
    uint32_t state = atomic_load(&lock->state), turn = atomic_load(&lock->turn);

    if ((state & 1) != 0)
        return 0;
    if (turn != atomic_load(&lock->next) && !may_return(lock, pass, state, turn))
        return 0;
    return door_pass(lock, pass, state);
}

static void look(const struct sqlite_ticket_lock *lock, struct view *view)
{
    int64_t now_ns = sqlite_clock_boottime();
    uint32_t state = atomic_load(&lock->state), turn = atomic_load(&lock->turn);
    int first = view->turn_ns == 0;

    if (first || turn != view->turn) {
        view->turn_ns = now_ns;
        view->blocked = (state & 1) != 0;
    } else if (view->blocked && state != view->state) {
        view->turn_ns = now_ns;
        view->blocked = 0;
    }
    if (view->state_ns == 0 || state != view->state)
        view->state_ns = now_ns;
    view->state = state;
    view->turn = turn;
}

/* One that is due. Non-zero: entered. */
static int stand_at_door(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass,
                         const struct view *view, uint32_t ticket, int64_t until_ns)
{
    int64_t patience_ns = view->state_ns + SQ_TICKET_HOLDER_NS;

    if ((view->state & 1) != 0 && sqlite_clock_boottime() < patience_ns) {
        atomic_store(&lock->awake, view->turn);
        spin(lock, view->state);
        sleep_until(lock, view->state, sqlite_lesser(patience_ns, until_ns),
                    FUTEX_BITSET_MATCH_ANY);
        return 0;
    }
    if (!door_pass(lock, pass, view->state))
        return 0;
    pass->since_ns = sqlite_clock_boottime();
    if (move(&lock->turn, ticket, ticket + 1)) {
        atomic_store(&lock->skips, 0);
        turn_settle(lock);
    }
    return 1;
}

/* One that is not. Each behind the first is more patient, so that one skips and the others see. */
static void stand_in_line(struct sqlite_ticket_lock *lock, const struct view *view, uint32_t ticket,
                          int64_t until_ns)
{
    int64_t step_ns = sqlite_lesser((int32_t)(ticket - view->turn), DISTANT) * SQ_TICKET_WAITER_NS;
    int64_t patience_ns = view->turn_ns + step_ns + (view->blocked ? SQ_TICKET_HOLDER_NS : 0);
    int64_t now_ns = sqlite_clock_boottime();

    if (now_ns >= patience_ns)
        turn_skip(lock, view->turn, ticket);
    else
        sleep_until(lock, view->state,
                    sqlite_lesser(sqlite_lesser(patience_ns, now_ns + step_ns), until_ns),
                    bit_of(ticket));
}

static int gone(const struct sqlite_ticket_pass *pass)
{
    return pass->there != NULL && !pass->there(pass->of);
}

int sqlite_ticket_enter(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass,
                        int64_t until_ns)
{
    struct view view = {.state = pass->seen, .state_ns = pass->seen_ns};
    uint32_t ticket = 0;

    if (enter_without_ticket(lock, pass))
        return 0;
    ticket = atomic_fetch_add(&lock->next, 1);
    do {
        look(lock, &view);
        if (!due(view.turn, ticket))
            stand_in_line(lock, &view, ticket, until_ns);
        else if (stand_at_door(lock, pass, &view, ticket, until_ns))
            return 0;
        if (gone(pass))
            return ENODATA;
    } while (sqlite_clock_boottime() < until_ns);
    pass->seen = view.state;
    pass->seen_ns = view.state_ns;
    ticket_give_up(lock, ticket);
    return ETIMEDOUT;
}

void sqlite_ticket_leave(struct sqlite_ticket_lock *lock, struct sqlite_ticket_pass *pass)
{
    uint32_t turn = 0;

    if (!move(&lock->state, pass->entered, pass->entered + 1)) /* we were passed */
        return;
    pass->left = pass->entered + 1;
    turn = atomic_load(&lock->turn);
    if (turn != atomic_load(&lock->next))
        wake(lock, bit_of(turn));
    else if (move(&lock->awake, turn, turn - 1)) /* one who is late waits */
        wake(lock, FUTEX_BITSET_MATCH_ANY);
}
