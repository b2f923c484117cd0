/* SPDX-License-Identifier: MIT */
/* Plants a leak in one of two Criterion tests; the other is clean. See test_sanitizers.sh. */
#include <criterion/criterion.h>
#include <stdlib.h>

Test(plant, leak)
{
    char *volatile lost = malloc(64);

    cr_assert_not_null(lost);
    lost = NULL;
}

Test(clean, nothing)
{
    char *kept = malloc(64);

    cr_assert_not_null(kept);
    free(kept);
}
