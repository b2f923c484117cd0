/* SPDX-License-Identifier: MIT */
/* Does a line become the words and bytes that its writer meant? */
#include "escape.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const char *split(const char *text, struct dlt_words *words)
{
    static char line[256];

    (void)snprintf(line, sizeof line, "%s", text);
    return dlt_words_split(line, words);
}

Test(escape, words)
{
    struct dlt_words words;

    cr_assert_null(split("  one \"two  2\" three\\sx # four", &words));
    cr_assert_eq(words.count, 3);
    cr_assert_str_eq(words.at[0], "one");
    cr_assert_str_eq(words.at[1], "two  2");
    cr_assert_str_eq(words.at[2], "three x");
    cr_assert(words.quoted[1] && !words.quoted[2]);
    cr_assert_null(split("", &words));
    cr_assert_eq(words.count, 0);
}

Test(escape, bytes)
{
    struct dlt_words words;

    cr_assert_null(split("\"a\\x00\\xff\\r\\n\\t\\0\\\\\\\"#\"", &words));
    cr_assert_eq(words.count, 1);
    cr_assert_eq(words.len[0], 10);
    cr_assert_arr_eq(words.at[0], "a\0\xff\r\n\t\0\\\"#", 10);
}

Test(escape, what_is_wrong_is_told)
{
    struct dlt_words words;

    cr_assert_str_eq(split("\"open", &words), "a quote is open");
    cr_assert_str_eq(split("a\\q", &words), "unknown escape");
    cr_assert_str_eq(split("\\xg0", &words), "unknown escape");
    cr_assert_str_eq(split("a\\", &words), "unknown escape");
    cr_assert_str_eq(split("\"a\"b", &words), "text behind a closing quote");
}

Test(escape, numbers)
{
    uint64_t n = 0;

    cr_assert(dlt_number_parse("18446744073709551615", UINT64_MAX, &n) && n == UINT64_MAX);
    cr_assert_not(dlt_number_parse("18446744073709551616", UINT64_MAX, &n));
    cr_assert(dlt_number_parse("65535", 65535, &n) && n == 65535);
    cr_assert_not(dlt_number_parse("65536", 65535, &n));
    cr_assert_not(dlt_number_parse("9", 5, &n));
    cr_assert_not(dlt_number_parse("", 5, &n));
    cr_assert_not(dlt_number_parse("-1", 5, &n));
    cr_assert_not(dlt_number_parse("1 ", 5, &n));
}

Test(escape, printed_bytes_are_read_back)
{
    struct dlt_words words;
    unsigned char all[256];
    char text[2048], small[16];

    for (int i = 0; i < 256; i++)
        all[i] = (unsigned char)i;
    text[0] = '"';
    dlt_escape(all, sizeof all, text + 1, sizeof text - 2);
    memcpy(text + strlen(text), "\"", 2);
    cr_assert_null(dlt_words_split(text, &words));
    cr_assert_eq(words.len[0], 256);
    cr_assert_arr_eq(words.at[0], all, 256);
    dlt_escape(all, sizeof all, small, sizeof small);
    cr_assert_str_eq(small, "\\x00\\x01\\x02...");
}
