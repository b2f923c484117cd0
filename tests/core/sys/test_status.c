/* SPDX-License-Identifier: MIT */
/* Tests: core/sys/error.c */
/* Is the table of statuses whole, and safe to ask for any number? */
#include <criterion/criterion.h>
#include <dlock/types.h>
#include <string.h>

Test(status, values_are_frozen)
{
    cr_assert_eq(DLOCK_OK, 0);
    cr_assert_eq(DLOCK_BUSY, 1);
    cr_assert_eq(DLOCK_UNKNOWN, 6);
    cr_assert_eq(DLOCK_INTERNAL, 21);
    cr_assert_eq(DLOCK_NO_STORE, 22);
}

Test(status, every_number_has_a_name_a_text_and_a_class)
{
    for (int s = 0; s <= DLOCK_NO_STORE; s++) {
        cr_assert_str_neq(dlock_status_name(s), "?", "%d", s);
        cr_assert_gt(strlen(dlock_status_text(s)), 3, "%d", s);
    }
    cr_assert_eq(dlock_status_class(DLOCK_BUSY), DLOCK_CLASS_OUTCOME);
    cr_assert_eq(dlock_status_class(DLOCK_UNKNOWN), DLOCK_CLASS_BACKEND);
    cr_assert_eq(dlock_status_class(DLOCK_NO_STORE), DLOCK_CLASS_BACKEND);
}

Test(status, a_foreign_number_is_answered)
{
    cr_assert_str_eq(dlock_status_name(-1), "?");
    cr_assert_str_eq(dlock_status_name(9999), "?");
    cr_assert_str_eq(dlock_status_text(INT32_MIN), "unknown status");
    cr_assert_eq(dlock_status_class(9999), DLOCK_CLASS_INTERNAL);
}

/* The next bit must not be dropped where capabilities are masked. */
Test(status, all_capabilities_are_in_the_mask)
{
    uint32_t all = 0;
#define ADD(name) all |= DLOCK_CAP_##name;
    DLOCK_CAP_MAP(ADD)
#undef ADD
    cr_expect_eq(all, DLOCK_CAP_ALL);
    cr_expect_eq(all & (all + 1), 0u, "a gap");
}
