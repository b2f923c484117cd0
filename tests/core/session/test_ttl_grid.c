/* SPDX-License-Identifier: MIT */
/* Tests: core/session/ttl_grid.c */
/* Is a ttl rounded up to what the store gives, and refused where there is none? */
#include "session/ttl_grid.h"

#include <criterion/criterion.h>
#include <string.h>

#define WEEK_MS (INT64_C(7) * 24 * 3600 * 1000)

static struct dlock_session_info info_of(int64_t least_ms, int64_t most_ms, int64_t step_ms)
{
    return (struct dlock_session_info){.struct_size = sizeof(struct dlock_session_info),
                                       .ttl_least_ms = least_ms,
                                       .ttl_most_ms = most_ms,
                                       .ttl_step_ms = step_ms};
}

static struct dl_ttl_grid grid_of(int64_t least_ms, int64_t most_ms, int64_t step_ms)
{
    struct dlock_session_info info = info_of(least_ms, most_ms, step_ms);
    struct dl_ttl_grid grid = {0};

    cr_assert(dl_ttl_grid_valid(&info));
    dl_ttl_grid_narrow(&grid, &info);
    return grid;
}

Test(ttl_grid, TTL_1_without_one_each_ttl_is_what_it_is)
{
    struct dl_ttl_grid grid = grid_of(0, 0, 0);

    cr_expect_eq(dl_ttl_grid_round(&grid, 50), 50);
    cr_expect_eq(dl_ttl_grid_round(&grid, 12345), 12345);
    cr_expect_eq(dl_ttl_grid_round(&grid, WEEK_MS), WEEK_MS);
}

Test(ttl_grid, TTL_1_a_ttl_goes_up_to_the_next_step)
{
    struct dl_ttl_grid grid = grid_of(2000, 0, 1000);

    cr_expect_eq(dl_ttl_grid_round(&grid, 50), 2000);
    cr_expect_eq(dl_ttl_grid_round(&grid, 2000), 2000);
    cr_expect_eq(dl_ttl_grid_round(&grid, 2001), 3000);
    cr_expect_eq(dl_ttl_grid_round(&grid, 2999), 3000);
    cr_expect_eq(dl_ttl_grid_round(&grid, WEEK_MS), WEEK_MS);
}

/* The steps are multiples, also where the least ttl is none. */
Test(ttl_grid, TTL_1_the_least_goes_up_to_a_step)
{
    struct dl_ttl_grid grid = grid_of(1500, 0, 1000);

    cr_expect_eq(dl_ttl_grid_round(&grid, 50), 2000);
    cr_expect_eq(dl_ttl_grid_round(&grid, 1600), 2000);
}

Test(ttl_grid, TTL_1_more_than_the_most_is_refused)
{
    struct dl_ttl_grid grid = grid_of(0, 40500, 1000);
    struct dlock_error err = DLOCK_ERROR_INIT;

    cr_expect_eq(dl_ttl_grid_round(&grid, 40000), 40000);
    cr_expect_eq(dl_ttl_grid_round(&grid, 40001), 0, "41 s is the next step");
    cr_expect_eq(dl_ttl_grid_judge(&grid, 40000, &err), DLOCK_OK);
    cr_expect_eq(dl_ttl_grid_judge(&grid, 60000, &err), DLOCK_CONFIG);
    cr_expect(strstr(err.message, "a ttl of 60 s is longer") != NULL, "%s", err.message);
    cr_expect(strstr(err.message, "at most 40 s") != NULL, "%s", err.message);
    grid = grid_of(0, 40500, 0);
    cr_expect_eq(dl_ttl_grid_round(&grid, 40500), 40500);
    cr_expect_eq(dl_ttl_grid_round(&grid, 40501), 0);
}

Test(ttl_grid, TTL_2_the_narrowest_counts)
{
    struct dl_ttl_grid grid = grid_of(2000, 60000, 500);
    struct dlock_session_info wider = info_of(1000, 90000, 100), none = info_of(0, 0, 0);
    struct dlock_session_info narrower = info_of(4000, 30000, 1000);

    dl_ttl_grid_narrow(&grid, &wider);
    dl_ttl_grid_narrow(&grid, &none);
    cr_expect_eq(dl_ttl_grid_round(&grid, 50), 2000);
    cr_expect_eq(dl_ttl_grid_round(&grid, 2100), 2500);
    cr_expect_eq(dl_ttl_grid_round(&grid, 60001), 0);
    dl_ttl_grid_narrow(&grid, &narrower);
    cr_expect_eq(dl_ttl_grid_round(&grid, 50), 4000);
    cr_expect_eq(dl_ttl_grid_round(&grid, 4001), 5000);
    cr_expect_eq(dl_ttl_grid_round(&grid, 30001), 0);
}

Test(ttl_grid, nonsense_is_not_valid)
{
    static const struct {
        int64_t least_ms, most_ms, step_ms;
        bool valid;
    } rows[] = {
        {0, 0, 0, true},
        {2000, 2000, 1000, true},
        {2000, 1999, 0, false},
        {1500, 1900, 1000, false},
        {0, 49, 0, false},
        {0, 50, 0, true},
        {-1, 0, 0, false},
        {0, -1, 0, false},
        {0, 0, -1, false},
        {WEEK_MS + 1, 0, 0, false},
        {0, 0, INT64_MAX, false},
        {INT64_MAX, 0, 0, false},
        {WEEK_MS, INT64_MAX, WEEK_MS, true},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct dlock_session_info info =
            info_of(rows[i].least_ms, rows[i].most_ms, rows[i].step_ms);

        cr_expect_eq(dl_ttl_grid_valid(&info), rows[i].valid, "row %zu", i);
    }
}

Test(ttl_grid, the_text_is_for_people)
{
    static const struct {
        int64_t least_ms, most_ms, step_ms;
        const char *text;
    } rows[] = {
        {0, 0, 0, ""},
        {50, WEEK_MS, 1, ""},
        {2000, 0, 1000, "whole seconds, at least 2 s"},
        {1500, 0, 1000, "whole seconds, at least 2 s"},
        {4000, 40000, 0, "at least 4 s, at most 40 s"},
        {0, 40500, 500, "steps of 500 ms, at most 40500 ms"},
        {0, 40500, 1000, "whole seconds, at most 40 s"},
        {WEEK_MS, WEEK_MS - 1 + 86400000, 86400000, "steps of 86400 s, at least 604800 s"},
    };
    char text[DL_TTL_GRID_TEXT];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct dl_ttl_grid grid = grid_of(rows[i].least_ms, rows[i].most_ms, rows[i].step_ms);

        dl_ttl_grid_text(&grid, text);
        cr_expect_str_eq(text, rows[i].text, "\"%s\"", text);
    }
}
