/* SPDX-License-Identifier: MIT */
/* Does the library say its version, and which headers it serves? */
/* Tests: core/sys/error.c */
#include <criterion/criterion.h>
#include <dlock/dlock.h>
#include <stdio.h>

Test(version, is_that_of_the_headers)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%d.%d.%d", DLOCK_VERSION_MAJOR, DLOCK_VERSION_MINOR,
                   DLOCK_VERSION_PATCH);
    cr_expect_str_eq(dlock_version(), text);
}

Test(version, serves_headers_of_its_series_that_are_not_newer)
{
    cr_expect(DLOCK_VERSION_CHECK());
    cr_expect_not(dlock_version_serves(DLOCK_VERSION_NUMBER + 1), "a newer patch version");
    cr_expect_not(dlock_version_serves(DLOCK_VERSION_NUMBER + 1000), "a newer minor version");
    cr_expect_not(dlock_version_serves(DLOCK_VERSION_NUMBER + 1000000), "another major version");
    cr_expect_not(dlock_version_serves(DLOCK_VERSION_NUMBER % 1000), "another series of 0");
    cr_expect_not(dlock_version_serves(-1));
}
