/* SPDX-License-Identifier: MIT */
/* Tests: lib/text.c */
#include "lib/text.h"

#include <criterion/criterion.h>
#include <string.h>

Test(hex, encode)
{
    char out[9];

    dl_hex_encode(out, "\x00\x0f\xa5\xff", 4);
    cr_expect_str_eq(out, "000fa5ff");
    dl_hex_encode(out, "", 0);
    cr_expect_str_eq(out, "");
}

Test(hex, byte)
{
    cr_expect_eq(dl_hex_byte("7f"), 0x7f);
    cr_expect_eq(dl_hex_byte("aB and more"), 0xab);
    cr_expect_eq(dl_hex_byte(""), -1);
    cr_expect_eq(dl_hex_byte("1"), -1);
    cr_expect_eq(dl_hex_byte("g1"), -1);
    cr_expect_eq(dl_hex_byte("1@"), -1);
    for (int c = 0; c < 256; c++)
        cr_expect_eq(dl_hex_digit((char)c) >= 0,
                     c != 0 && strchr("0123456789abcdefABCDEF", c) != NULL, "%d", c);
}

Test(hex, decode)
{
    unsigned char out[4];

    cr_expect(dl_hex_decode(out, 4, "000fa5ff"));
    cr_expect_arr_eq(out, "\x00\x0f\xa5\xff", 4);
    cr_expect(dl_hex_decode(out, 0, ""));
    cr_expect_not(dl_hex_decode(out, 4, "000fa5f"));
    cr_expect_not(dl_hex_decode(out, 4, "000fa5ff0"));
    cr_expect_not(dl_hex_decode(out, 4, "000fa5fF"), "capitals");
    cr_expect_not(dl_hex_decode(out, 4, "000fa5 f"));
}
