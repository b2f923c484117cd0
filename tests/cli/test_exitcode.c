/* SPDX-License-Identifier: MIT */
/* Tests: cli/exitcode.c */
/* Is each status one of the documented exit codes? */
#include "exitcode.h"

#include <criterion/criterion.h>

Test(exitcode, contention_is_temporary_failure)
{
    cr_assert_eq(cli_exitcode_of(DLOCK_OK), 0);
    cr_assert_eq(cli_exitcode_of(DLOCK_BUSY), 75);
    cr_assert_eq(cli_exitcode_of(DLOCK_TIMEOUT), 75);
    cr_assert_eq(cli_exitcode_of(DLOCK_UNKNOWN), 75);
    cr_assert_eq(cli_exitcode_of(DLOCK_LOST), 70);
    cr_assert_eq(cli_exitcode_of(DLOCK_NOT_HELD), 1);
}

Test(exitcode, what_to_change_can_be_told_apart)
{
    cr_assert_eq(cli_exitcode_of(DLOCK_INVALID), 64);
    cr_assert_eq(cli_exitcode_of(DLOCK_NO_STORE), 66);
    cr_assert_eq(cli_exitcode_of(DLOCK_UNAVAILABLE), 69);
    cr_assert_eq(cli_exitcode_of(DLOCK_NO_QUORUM), 69);
    cr_assert_eq(cli_exitcode_of(DLOCK_NO_PLUGIN), 69);
    cr_assert_eq(cli_exitcode_of(DLOCK_PLUGIN_LOAD), 69);
    cr_assert_eq(cli_exitcode_of(DLOCK_PLUGIN_ABI), 69);
    cr_assert_eq(cli_exitcode_of(DLOCK_PROTOCOL), 76);
    cr_assert_eq(cli_exitcode_of(DLOCK_AUTH), 77);
    cr_assert_eq(cli_exitcode_of(DLOCK_CONFIG), 78);
    cr_assert_eq(cli_exitcode_of(DLOCK_UNSUPPORTED), 78);
    cr_assert_eq(cli_exitcode_of(DLOCK_NOMEM), 71);
}

Test(exitcode, no_failure_is_ever_zero)
{
    for (int status = 1; status < 200; status++)
        cr_assert_neq(cli_exitcode_of((enum dlock_status)status), 0, "%d", status);
}
