/* SPDX-License-Identifier: MIT */
/* Tests: lib/text.c */
#include "lib/text.h"

#include <criterion/criterion.h>

Test(printable, escape)
{
    char out[64], small[16];

    cr_expect_str_eq(dl_printable_escape(out, sizeof out, "a\0b\\\xff", 5), "a\\x00b\\x5c\\xff");
    cr_expect_str_eq(dl_printable_escape(out, sizeof out, "", 0), "");
    cr_expect_str_eq(dl_printable_escape(small, sizeof small, "0123456789abcdef", 16),
                     "012345678...");
}

Test(printable, mask)
{
    char out[5];

    dl_printable_mask(out, sizeof out, "a\n\xff", 3);
    cr_expect_str_eq(out, "a??");
    dl_printable_mask(out, sizeof out, "abcdef", 6);
    cr_expect_str_eq(out, "abcd");
}

Test(printable, quote)
{
    char out[64], small[16];

    cr_expect_str_eq(dl_printable_quote(out, sizeof out, "a\"b\\\n", 5), "a\\\"b\\\\x5c\\\\x0a");
    cr_expect_str_eq(dl_printable_quote(small, sizeof small, "012345\\\\", 8), "012345\\\\x5c...");
    cr_expect_str_eq(dl_printable_quote(small, sizeof small, "0123456789", 10), "01234567...");
}
