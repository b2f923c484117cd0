/* SPDX-License-Identifier: MIT */
/* Tests: cli/watch.c */
/* Is a command ended early enough, and only then? In virtual time. */
#include "watch.h"

#include <criterion/criterion.h>

#define TTL_MS        INT64_C(30000)
#define KILL_AFTER_MS INT64_C(5000)

/* A lease that was granted at 0, and a command under it. */
struct scene {
    struct watch watch;
    int64_t next_ms;
};

static struct scene scene_new(int64_t ttl_ms, int64_t kill_after_ms)
{
    struct scene scene;
    struct watch_view view = {.now_ms = 0, .remaining_ms = ttl_ms};

    watch_init(&scene.watch, kill_after_ms, false);
    cr_assert_eq(watch_step(&scene.watch, &view, &scene.next_ms), WATCH_NONE);
    return scene;
}

static enum watch_action look(struct scene *scene, int64_t now_ms, int64_t valid_until_ms)
{
    struct watch_view view = {.now_ms = now_ms, .remaining_ms = valid_until_ms - now_ms};

    return watch_step(&scene->watch, &view, &scene->next_ms);
}

static enum watch_action look_lost(struct scene *scene, int64_t now_ms)
{
    struct watch_view view = {.now_ms = now_ms, .lost = true};

    return watch_step(&scene->watch, &view, &scene->next_ms);
}

Test(watch, a_renewed_lease_is_looked_at_rarely_and_left_alone)
{
    struct scene s = scene_new(TTL_MS, KILL_AFTER_MS);
    int64_t now = 0;
    int looks = 0;

    /* The renewer renews every 10 s, for an hour. */
    while (now < 3600000) {
        cr_assert_geq(s.next_ms, now + 10000, "%lld", (long long)now);
        now = s.next_ms;
        looks++;
        cr_assert_eq(look(&s, now, now / 10000 * 10000 + TTL_MS), WATCH_NONE);
    }
    cr_assert_leq(looks, 360);
}

Test(watch, silence_is_told_at_kill_after_before_the_end)
{
    struct scene s = scene_new(TTL_MS, KILL_AFTER_MS);

    cr_assert_eq(s.next_ms, TTL_MS - KILL_AFTER_MS);
    cr_assert_eq(look(&s, s.next_ms - 1, TTL_MS), WATCH_NONE);
    cr_assert_eq(look(&s, TTL_MS - KILL_AFTER_MS, TTL_MS), WATCH_TERM);
    cr_assert_eq(look(&s, TTL_MS - KILL_AFTER_MS + 1, TTL_MS), WATCH_NONE);
    cr_assert_lt(s.next_ms, TTL_MS);
    cr_assert_eq(s.next_ms, TTL_MS - 500, "time for the end of the command, before the timer");
    cr_assert_eq(look(&s, s.next_ms, TTL_MS), WATCH_KILL);
    cr_assert_eq(s.next_ms, WATCH_NEVER);
    cr_assert_eq(look_lost(&s, TTL_MS), WATCH_NONE, "told twice");
}

Test(watch, a_long_kill_after_is_cut_to_a_third_of_the_ttl)
{
    struct scene s = scene_new(3000, KILL_AFTER_MS);

    cr_assert_eq(s.next_ms, 2000);
    cr_assert_eq(look(&s, 2000, 3000), WATCH_TERM);
}

Test(watch, the_shortest_ttl_still_kills_in_time)
{
    struct scene s = scene_new(50, KILL_AFTER_MS);

    cr_assert_eq(look(&s, s.next_ms, 50), WATCH_TERM);
    cr_assert_lt(s.next_ms, 50);
    cr_assert_eq(look(&s, s.next_ms, 50), WATCH_KILL);
}

Test(watch, without_kill_after_there_is_no_sigterm)
{
    struct scene s = scene_new(TTL_MS, 0);

    cr_assert_lt(s.next_ms, TTL_MS);
    cr_assert_eq(look(&s, s.next_ms, TTL_MS), WATCH_KILL);
}

Test(watch, a_renewal_after_sigterm_gives_kill_after_and_no_more)
{
    struct scene s = scene_new(6000, KILL_AFTER_MS);

    cr_assert_eq(look(&s, 4000, 6000), WATCH_TERM);
    cr_assert_eq(look(&s, 4100, 10100), WATCH_NONE);
    cr_assert_eq(s.next_ms, 4000 + KILL_AFTER_MS);
    cr_assert_eq(look(&s, s.next_ms, s.next_ms + 6000), WATCH_KILL);
}

Test(watch, a_lock_that_was_taken_ends_the_command_within_a_second)
{
    struct scene s = scene_new(TTL_MS, KILL_AFTER_MS);

    cr_assert_eq(look_lost(&s, 100), WATCH_TERM);
    cr_assert_eq(s.next_ms, 1100);
    cr_assert_eq(look_lost(&s, 600), WATCH_NONE);
    cr_assert_eq(s.next_ms, 1100, "each look must not put it off");
    cr_assert_eq(look_lost(&s, 1100), WATCH_KILL);
}

Test(watch, a_short_kill_after_holds_for_a_taken_lock_too)
{
    struct scene s = scene_new(TTL_MS, 200);

    cr_assert_eq(look_lost(&s, 100), WATCH_TERM);
    cr_assert_eq(s.next_ms, 300);
}

Test(watch, taken_after_sigterm_does_not_give_more_time)
{
    struct scene s = scene_new(TTL_MS, KILL_AFTER_MS);
    int64_t kill_at;

    cr_assert_eq(look(&s, 25000, TTL_MS), WATCH_TERM);
    kill_at = s.next_ms;
    cr_assert_eq(look_lost(&s, kill_at - 100), WATCH_NONE);
    cr_assert_leq(s.next_ms, kill_at);
}

Test(watch, a_process_that_was_stopped_past_the_end_kills_at_once)
{
    struct scene s = scene_new(TTL_MS, KILL_AFTER_MS);

    cr_assert_eq(look_lost(&s, TTL_MS), WATCH_KILL);
    s = scene_new(TTL_MS, KILL_AFTER_MS);
    cr_assert_eq(look_lost(&s, 10 * TTL_MS), WATCH_KILL);
}

Test(watch, a_short_first_grant_is_measured_anew_when_it_is_extended)
{
    struct scene s = scene_new(3000, KILL_AFTER_MS);

    cr_assert_eq(look(&s, 2000, 2000 + TTL_MS), WATCH_NONE);
    cr_assert_eq(s.next_ms, 2000 + TTL_MS - KILL_AFTER_MS);
}

Test(watch, warn_only_tells_once_and_ends_nothing)
{
    struct scene s;
    struct watch_view view = {.now_ms = 0, .remaining_ms = TTL_MS};

    watch_init(&s.watch, KILL_AFTER_MS, true);
    cr_assert_eq(watch_step(&s.watch, &view, &s.next_ms), WATCH_NONE);
    cr_assert_eq(s.next_ms, TTL_MS);
    cr_assert_eq(look(&s, TTL_MS, TTL_MS), WATCH_NONE);
    cr_assert_gt(s.next_ms, TTL_MS, "no busy loop at the edge");
    cr_assert_eq(look_lost(&s, TTL_MS + 1), WATCH_WARN);
    cr_assert_eq(look_lost(&s, TTL_MS + 2), WATCH_NONE);
    cr_assert_eq(s.next_ms, WATCH_NEVER);
}
