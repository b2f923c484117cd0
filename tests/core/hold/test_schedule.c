/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/schedule.c */
/* Does the schedule always give the earliest, whatever was moved or removed? */
#include "hold/schedule.h"
#include "sys/random.h"

#include <criterion/criterion.h>

#define COUNT 200

static int64_t earliest(const struct dl_due *due)
{
    int64_t at = INT64_MAX;

    for (int i = 0; i < COUNT; i++)
        if (due[i].heap_index != 0 && due[i].at_ns < at)
            at = due[i].at_ns;
    return at;
}

Test(schedule, first_is_the_earliest_through_10000_random_changes)
{
    static struct dl_due due[COUNT];
    struct dl_schedule schedule = {0};
    uint64_t state = 1;

    for (int i = 0; i < COUNT; i++)
        cr_assert(dl_schedule_reserve(&schedule));
    for (int i = 0; i < 10000; i++) {
        struct dl_due *one = &due[dl_random_jitter(&state) % COUNT];
        struct dl_due *first;

        if (dl_random_jitter(&state) % 3 == 0)
            dl_schedule_remove(&schedule, one);
        else
            dl_schedule_set(&schedule, one, (int64_t)(dl_random_jitter(&state) % 1000));
        first = dl_schedule_first(&schedule);
        cr_assert_eq(first == NULL ? INT64_MAX : first->at_ns, earliest(due), "step %d", i);
    }
    dl_schedule_fini(&schedule);
}

Test(schedule, removing_twice_is_nothing)
{
    struct dl_schedule schedule = {0};
    struct dl_due one = {0}, other = {0};

    cr_assert(dl_schedule_reserve(&schedule) && dl_schedule_reserve(&schedule));
    dl_schedule_set(&schedule, &one, 5);
    dl_schedule_set(&schedule, &other, 3);
    dl_schedule_remove(&schedule, &one);
    dl_schedule_remove(&schedule, &one);
    cr_assert_eq(dl_schedule_first(&schedule), &other);
    dl_schedule_remove(&schedule, &other);
    cr_assert_null(dl_schedule_first(&schedule));
    dl_schedule_fini(&schedule);
}
