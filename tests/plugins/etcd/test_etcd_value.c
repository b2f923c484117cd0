/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/kv.c */
/* Does the value of a key say whose it is, and do comparisons of etcd tell the limits of keys, and
 * what is kept from what is held? */
#include "kv.h"

#include <criterion/criterion.h>
#include <string.h>

Test(value, LIM_1_a_limit_is_told_by_two_edges)
{
    static const uint32_t limits[] = {1, 2, 3, 30, 31, 300, 1000};
    char low[ETCD_EDGE_SIZE], high[ETCD_EDGE_SIZE], value[ETCD_VALUE_SIZE];

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++) {
            bool inside = false;

            etcd_kv_edges(low, high, limits[i]);
            for (uint32_t permit = 0; permit < 2 && permit < limits[k]; permit++) {
                if (limits[k] == 1)
                    (void)etcd_kv_make(value, sizeof value, DLOCK_EXCLUSIVE, "h:1:x");
                else
                    (void)etcd_kv_make_permit(value, sizeof value, limits[k], permit, "h:1:x");
                inside = strcmp(value, high) < 0 && (low[0] == '\0' || strcmp(value, low) > 0);
                cr_assert_eq(inside, i == k, "%u and %u", limits[i], limits[k]);
            }
        }
}

Test(value, KEP_1_what_is_kept_is_outside_the_edges_of_claims)
{
    static const uint32_t limits[] = {1, 2, 30, 1000};
    char low[ETCD_EDGE_SIZE], high[ETCD_EDGE_SIZE], values[3][ETCD_VALUE_SIZE];

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const uint32_t limit = limits[i];

        etcd_kv_claim_edges(low, high, limit);
        (void)etcd_kv_make_kept(values[0], sizeof values[0], limit, limit - 1, "h:1:x");
        if (limit == 1) {
            (void)etcd_kv_make(values[1], sizeof values[1], DLOCK_EXCLUSIVE, "h:1:x");
            (void)etcd_kv_make(values[2], sizeof values[2], DLOCK_SHARED, "h:1:x");
        } else {
            (void)etcd_kv_make_permit(values[1], sizeof values[1], limit, limit - 1, "h:1:x");
            (void)etcd_kv_make_waiter(values[2], sizeof values[2], limit, "h:1:x");
        }
        for (int k = 0; k < 3; k++)
            cr_assert_eq(strcmp(values[k], low) > 0 && strcmp(values[k], high) < 0, k > 0,
                         "limit %u, value %d", limit, k);
    }
}

static struct etcd_value parsed(const char *text)
{
    struct etcd_value value;

    etcd_kv_parse(&value, text, strlen(text));
    return value;
}

Test(value, a_value_says_who_it_is)
{
    char text[ETCD_VALUE_SIZE];
    struct etcd_value value;

    (void)etcd_kv_make_waiter(text, sizeof text, 12, "h:1:w");
    value = parsed(text);
    cr_assert(value.limit == 12 && value.waits && !value.kept && !value.shared);
    (void)etcd_kv_make_permit(text, sizeof text, 12, 11, "h:1:p");
    value = parsed(text);
    cr_assert(value.limit == 12 && value.permit == 11 && !value.waits && !value.kept);
    (void)etcd_kv_make_kept(text, sizeof text, 12, 3, NULL);
    value = parsed(text);
    cr_assert(value.limit == 12 && value.permit == 3 && value.kept && value.label_len == 0);
    (void)etcd_kv_make_kept(text, sizeof text, 1, 0, "h:1:k");
    value = parsed(text);
    cr_assert(value.limit == 1 && value.kept && !value.shared);
    cr_assert_eq(strncmp(value.label, "h:1:k", value.label_len), 0);
}

Test(value, what_is_no_semaphores_is_a_lock)
{
    static const char *const texts[] = {"",
                                        "\xff",
                                        "\xff"
                                        "2",
                                        "\xff"
                                        "2 q1 x",
                                        "\xff"
                                        "2 p2 x",
                                        "\xff"
                                        "2 p x",
                                        "\xff"
                                        "0 w x",
                                        "\xff"
                                        "1001 w x",
                                        "\xff"
                                        "99999999999 w x",
                                        "\xff"
                                        "2 p1",
                                        "\xff"
                                        "2w x",
                                        "\xff-2 w x"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct etcd_value value = parsed(texts[i]);

        cr_assert(value.limit == 1 && !value.waits && !value.kept && !value.shared, "text %zu", i);
        cr_assert_eq(value.label_len, 0);
    }
}
