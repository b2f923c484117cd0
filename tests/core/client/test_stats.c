/* SPDX-License-Identifier: MIT */
/* Tests: core/client/stats.c */
/* Which class is a name of, how many classes are there, and which bucket has a time? (metrics.h) */
#include "client/stats.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct dl_stats_class *class_of(struct dl_stats *stats, const char *name)
{
    return dl_stats_class_locked(stats, (const unsigned char *)name, strlen(name));
}

static bool is_called(const struct dl_stats_class *class, const char *text)
{
    return class->len == strlen(text) && memcmp(class->bytes, text, class->len) == 0;
}

Test(stats, the_class_is_the_name_up_to_its_first_separator)
{
    struct dl_stats stats = {0};
    const struct dl_stats_class *order = class_of(&stats, "order:4711");

    cr_assert(is_called(order, "order"));
    cr_assert_eq(class_of(&stats, "order/4712"), order);
    cr_assert_eq(class_of(&stats, "order::"), order);
    cr_assert(is_called(class_of(&stats, "orders:1"), "orders"));
    cr_assert(is_called(class_of(&stats, "nightly"), ""), "a name is no label");
    cr_assert_eq(class_of(&stats, ":x"), class_of(&stats, "weekly"));
    cr_assert_eq(dl_stats_class_at(&stats, 0), order);
    cr_assert(is_called(dl_stats_class_at(&stats, 2), ""));
    cr_assert_null(dl_stats_class_at(&stats, 3));
    dl_stats_fini(&stats);
}

Test(stats, classes_are_bounded_and_the_rest_is_other)
{
    struct dl_stats stats = {0};
    const struct dl_stats_class *class, *other;
    char name[16];
    unsigned used = 0;

    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "c%d:x", i);
        (void)class_of(&stats, name);
    }
    while ((class = dl_stats_class_at(&stats, used)) != NULL)
        used++;
    cr_assert_eq(used, DLOCK_STATS_CLASSES);
    other = dl_stats_class_at(&stats, used - 1);
    cr_assert(is_called(other, "other"));
    cr_assert_eq(class_of(&stats, "c999:x"), other);
    cr_assert(is_called(class_of(&stats, "c0:y"), "c0"));
    dl_stats_fini(&stats);
}

Test(stats, a_class_called_other_and_a_long_one_are_other)
{
    struct dl_stats stats = {0};
    char longest[DL_STATS_CLASS_MOST + 3];

    cr_assert_eq(class_of(&stats, "other:1"), &stats.other);
    memset(longest, 'a', sizeof longest);
    longest[DL_STATS_CLASS_MOST] = ':';
    longest[DL_STATS_CLASS_MOST + 1] = '\0';
    cr_assert_eq(class_of(&stats, longest)->len, DL_STATS_CLASS_MOST);
    longest[DL_STATS_CLASS_MOST] = 'a';
    longest[DL_STATS_CLASS_MOST + 1] = ':';
    longest[DL_STATS_CLASS_MOST + 2] = '\0';
    cr_assert_eq(class_of(&stats, longest), &stats.other);
    dl_stats_fini(&stats);
}

Test(stats, a_time_is_in_the_bucket_of_its_least_bound)
{
    cr_assert_eq(dl_stats_bucket(-5), 0);
    cr_assert_eq(dl_stats_bucket(0), 0);
    for (unsigned i = 0; i + 1 < DLOCK_HISTOGRAM_BUCKETS; i++) {
        int64_t most_ns = INT64_C(16000) << i;

        cr_assert_eq(dl_stats_bucket(most_ns), i);
        cr_assert_eq(dl_stats_bucket(most_ns + 1), i + 1);
    }
    cr_assert_eq(dl_stats_bucket(INT64_MAX), DLOCK_HISTOGRAM_BUCKETS - 1);
}
