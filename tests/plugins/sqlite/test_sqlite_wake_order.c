/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/wake_file.c */
/* Does a wake-up leave no sleeper behind, whatever the order of their steps? The steps of a sleeper
 * are made at each place between two steps of a wake-up [WAT-2]. */
#include <stdatomic.h>

static void between_steps(void);

#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_fetch_and
#define SEQ memory_order_seq_cst
#define atomic_exchange(object, value) \
    (between_steps(), atomic_exchange_explicit(object, value, SEQ))
#define atomic_fetch_add(object, value) \
    (between_steps(), atomic_fetch_add_explicit(object, value, SEQ))
#define atomic_fetch_and(object, value) \
    (between_steps(), atomic_fetch_and_explicit(object, value, SEQ))

#include "wake_file.c"

#include <criterion/criterion.h>

#define GROUPS 6u /* of the thread that waits on the word */

static struct sqlite_wake_map map;

/* The sleeper reads the count before the step note_at of the wake-up, and marks itself before the
 * step mark_at. */
static unsigned now_at, note_at, mark_at;
static uint32_t noted;
static bool on_word;

static void sleeper_step(void)
{
    if (now_at == note_at)
        noted = atomic_load(on_word ? &map.words[0].count : &map.buckets[0].count);
    if (now_at == mark_at && on_word)
        (void)atomic_fetch_or(&map.words[0].groups, GROUPS);
    else if (now_at == mark_at)
        atomic_store(&map.buckets[0].sleepers, 1);
}

static void between_steps(void)
{
    sleeper_step();
    now_at++;
}

/* Runs one wake-up with the sleeper's steps in between. Returns how many places there are. */
static unsigned wake_with(unsigned note, unsigned mark)
{
    memset(&map, 0, sizeof map);
    now_at = 0;
    note_at = note;
    mark_at = mark;
    if (on_word)
        word_wake(&map.words[0], UINT32_MAX);
    else
        bucket_wake(&map.buckets[0]);
    between_steps(); /* after the last one */
    return now_at;
}

/* The sleeper goes to sleep now. Is it known to the next wake-up? */
static bool is_known(void)
{
    if (on_word)
        return atomic_load(&map.words[0].count) != noted ||
               atomic_load(&map.words[0].groups) == GROUPS;
    return atomic_load(&map.buckets[0].count) != noted ||
           atomic_load(&map.buckets[0].sleepers) != 0;
}

static void each_order(unsigned least)
{
    unsigned places = wake_with(0, 0);

    cr_assert_eq(places, least, "steps of a wake-up");
    for (unsigned note = 0; note < places; note++)
        for (unsigned mark = note; mark < places; mark++) {
            (void)wake_with(note, mark);
            cr_assert(is_known(), "a sleeper that read before step %u and marked before step %u",
                      note, mark);
        }
}

Test(wake_order, WAT_2_the_next_wake_up_knows_each_sleeper_of_a_bucket)
{
    on_word = false;
    each_order(3);
}

Test(wake_order, WAT_2_the_next_wake_up_knows_each_thread_of_a_word)
{
    on_word = true;
    each_order(3);
}
