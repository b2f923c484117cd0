/* SPDX-License-Identifier: MIT */
/* Tests: core/client/name_state.c core/hold/unlock.c */
/* Who of one client's waiters may go to the store, and may a lease be handed on? (C13) */
#include "client/name_state.h"
#include "hold/unlock.h"
#include "sys/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { N = 6 };

struct fixture {
    struct dl_local_queue queue;
    struct dl_local_waiter waiters[N];
};

/* 'r' and 'w' in a row. */
static void line_up(struct fixture *f, const char *modes)
{
    *f = (struct fixture){0};
    for (size_t i = 0; modes[i] != '\0'; i++)
        dl_local_queue_push(&f->queue, &f->waiters[i],
                            modes[i] == 'r' ? DLOCK_SHARED : DLOCK_EXCLUSIVE);
}

static void admit(struct fixture *f)
{
    while (dl_local_queue_admit(&f->queue) != NULL)
        continue;
}

/* Who is in: "1100". */
static const char *admitted(const struct fixture *f)
{
    static char text[N + 1];
    size_t n = 0;

    for (const struct dl_local_waiter *turn = f->queue.first; turn != NULL; turn = turn->next)
        text[n++] = turn->admitted ? '1' : '0';
    text[n] = '\0';
    return text;
}

Test(queue, only_the_first_writer_is_let_in)
{
    struct fixture f;

    line_up(&f, "www");
    admit(&f);
    cr_assert_str_eq(admitted(&f), "100");
}

Test(queue, readers_at_the_head_pass_together)
{
    struct fixture f;

    line_up(&f, "rrwr");
    admit(&f);
    cr_assert_str_eq(admitted(&f), "1100");
}

Test(queue, a_reader_does_not_pass_a_waiting_writer)
{
    struct fixture f;

    line_up(&f, "rw");
    cr_assert_not(dl_local_queue_open_to(&f.queue, DLOCK_SHARED));
    dl_local_queue_remove(&f.queue, &f.waiters[1]);
    cr_assert(dl_local_queue_open_to(&f.queue, DLOCK_SHARED));
    cr_assert_not(dl_local_queue_open_to(&f.queue, DLOCK_EXCLUSIVE));
}

Test(queue, the_next_comes_in_when_all_before_it_have_gone)
{
    struct fixture f;

    line_up(&f, "rrwrr");
    dl_local_queue_remove(&f.queue, &f.waiters[0]);
    admit(&f);
    cr_assert_str_eq(admitted(&f), "1000");
    dl_local_queue_remove(&f.queue, &f.waiters[1]);
    admit(&f);
    cr_assert_str_eq(admitted(&f), "100");
    dl_local_queue_remove(&f.queue, &f.waiters[2]);
    admit(&f);
    cr_assert_str_eq(admitted(&f), "11");
}

Test(queue, who_leaves_in_the_middle_lets_those_behind_move_up)
{
    struct fixture f;

    line_up(&f, "rwr");
    dl_local_queue_remove(&f.queue, &f.waiters[1]);
    admit(&f);
    cr_assert_str_eq(admitted(&f), "11");
    dl_local_queue_remove(&f.queue, &f.waiters[1]); /* again: nothing */
    cr_assert_str_eq(admitted(&f), "11");
}

Test(name, C11_a_name_is_one_however_often_it_is_asked_for)
{
    struct dl_name_states names = {NULL};
    struct dl_name_state *a = dl_name_state_ref(&names, "job", 3);
    struct dl_name_state *b = dl_name_state_ref(&names, "job\0", 4);

    cr_assert_neq(a, b);
    cr_assert_eq(a, dl_name_state_ref(&names, "jobs", 3));
    dl_name_state_unref(&names, a);
    cr_assert_eq(a, dl_name_state_ref(&names, "job", 3));
    dl_name_state_unref(&names, a);
    dl_name_state_unref(&names, a);
    dl_name_state_unref(&names, b);
    cr_assert_null(names.root);
}

Test(name, thousands_of_names_come_and_go)
{
    struct dl_name_states names = {NULL};
    struct dl_name_state *all[2000];
    char text[16];

    for (size_t i = 0; i < 2000; i++) {
        (void)snprintf(text, sizeof text, "n%zu", i);
        all[i] = dl_name_state_ref(&names, text, 5);
        cr_assert_not_null(all[i]);
    }
    for (size_t i = 0; i < 2000; i++)
        dl_name_state_unref(&names, all[i]);
    cr_assert_null(names.root);
}

static struct dl_unlock_handoff fine(void)
{
    return (struct dl_unlock_handoff){.handoffs = 3,
                                      .handoffs_most = 31,
                                      .fence = 1000,
                                      .fence_room = 31,
                                      .now_ns = 100 * DL_NS_PER_MS,
                                      .contended_since_ns = DL_NEVER,
                                      .confirmed_ns = 0,
                                      .left_ns = 20 * DL_NS_PER_S,
                                      .ttl_ns = 30 * DL_NS_PER_S};
}

Test(handoff, allowed_within_all_bounds)
{
    struct dl_unlock_handoff input = fine();

    cr_assert(dl_unlock_handoff_allowed(&input));
    input.handoffs = 29;
    cr_assert(dl_unlock_handoff_allowed(&input));
}

Test(handoff, ends_after_so_many_turns)
{
    struct dl_unlock_handoff input = fine();

    input.handoffs = 31;
    cr_assert_not(dl_unlock_handoff_allowed(&input));
    input.handoffs = input.handoffs_most = 0;
    cr_assert_not(dl_unlock_handoff_allowed(&input));
}

Test(handoff, C6_ends_with_the_numbers_of_the_grant)
{
    struct dl_unlock_handoff input = fine();

    input.fence_room = 4; /* the last is for an heir */
    cr_assert_not(dl_unlock_handoff_allowed(&input));
    input.fence = input.fence_room = 0; /* a store without fences needs none */
    cr_assert(dl_unlock_handoff_allowed(&input));
}

Test(handoff, C5_needs_a_lease_that_was_confirmed_within_a_second)
{
    struct dl_unlock_handoff input = fine();

    input.now_ns = DL_NS_PER_S - 1;
    cr_assert(dl_unlock_handoff_allowed(&input));
    input.now_ns = DL_NS_PER_S;
    cr_assert_not(dl_unlock_handoff_allowed(&input));
}

/* A ttl that was cut short leaves an end that says nothing of the last confirmation. */
Test(handoff, C5_needs_to_know_when_the_lease_was_confirmed)
{
    struct dl_unlock_handoff input = fine();

    input.confirmed_ns = input.now_ns + 1;
    cr_assert_not(dl_unlock_handoff_allowed(&input));
}

Test(handoff, needs_more_than_half_of_the_lease)
{
    struct dl_unlock_handoff input = fine();

    input.left_ns = 15 * DL_NS_PER_S;
    cr_assert_not(dl_unlock_handoff_allowed(&input));
}

Test(handoff, ends_soon_once_others_wait)
{
    struct dl_unlock_handoff input = fine();

    input.contended_since_ns = 81 * DL_NS_PER_MS;
    cr_assert(dl_unlock_handoff_allowed(&input));
    input.contended_since_ns = 80 * DL_NS_PER_MS;
    cr_assert_not(dl_unlock_handoff_allowed(&input));
}
