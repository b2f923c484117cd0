/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/life.c */
/* Label, data and mark in one column: what is read, also of what was cut (C24, DAT-1)? */
#include "life.h"

#include <criterion/criterion.h>
#include <string.h>

static char text[SQ_LABEL_SIZE];
static unsigned char data[DLOCK_DATA_MAX];

static void make(const char *label, const void *bytes, uint32_t len)
{
    struct dlock_request req = {
        .struct_size = sizeof req, .label = label, .data = bytes, .data_len = len};

    sqlite_life_label(text, &req, NULL);
}

Test(label, without_data_it_is_the_label)
{
    make("host:1:word", NULL, 0);
    cr_expect_str_eq(text, "host:1:word");
    cr_expect_eq(sqlite_life_label_len(text), 11);
    cr_expect_eq(sqlite_life_label_data(data, text), 0);
    make(NULL, NULL, 0);
    cr_expect_str_eq(text, "");
}

Test(label, DAT_1_data_come_back_beside_a_mark)
{
    make("host:1", "\0\xff", 2);
    cr_expect_str_eq(text, "host:1\x1e"
                           "00ff\x1e");
    memcpy(text + strlen(text),
           "\x1f"
           "0123456789abcdef",
           18);
    cr_expect_eq(sqlite_life_label_len(text), 6);
    cr_expect_eq(sqlite_life_label_data(data, text), 2);
    cr_expect_arr_eq(data, "\0\xff", 2);
}

Test(label, the_longest_leave_room_for_the_mark)
{
    static char label[400];
    static unsigned char most[DLOCK_DATA_MAX];

    memset(label, 'l', sizeof label - 1);
    memset(most, 0xa5, sizeof most);
    make(label, most, sizeof most);
    cr_expect_leq(strlen(text) + 18, SQ_LABEL_SIZE);
    cr_expect_eq(sqlite_life_label_len(text), SQ_LABEL_MAX);
    cr_expect_eq(sqlite_life_label_data(data, text), sizeof most);
    cr_expect_arr_eq(data, most, sizeof most);
}

Test(label, what_was_cut_or_is_no_hex_counts_as_none)
{
    cr_expect_eq(sqlite_life_label_data(data, "host:1\x1e"
                                              "abc\x1e"),
                 0);
    make("host:1234", data, 200); /* as an older program cuts it: at a whole byte */
    text[255] = '\0';
    cr_expect_eq(sqlite_life_label_data(data, text), 0);
    cr_expect_eq(sqlite_life_label_data(data, "host:1\x1e"
                                              "xy\x1e"),
                 0);
    memset(text, '0', sizeof text);
    text[0] = '\x1e';
    text[2 * DLOCK_DATA_MAX + 3] = '\0';
    cr_expect_eq(sqlite_life_label_data(data, text), 0);
}
