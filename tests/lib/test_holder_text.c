/* SPDX-License-Identifier: MIT */
/* Tests: lib/request.c */
/* Are label and data read as they were written, and old values as labels (C24, DAT-1)? */
#include "lib/request.h"

#include <criterion/criterion.h>
#include <string.h>

static char text[DL_HOLDER_TEXT_MAX + 1];
static struct dlock_request req = {.struct_size = sizeof req};
static struct dlock_holder holder;

static size_t round_trip(const char *label, const void *data, uint32_t data_len)
{
    size_t len;

    memset(text, 'x', sizeof text);
    req.label = label;
    req.data = data;
    req.data_len = data_len;
    len = dl_holder_text_make(text, &req);
    text[len] = '\0';
    dl_holder_text_read(&holder, text, len);
    return len;
}

Test(holder_text, DAT_1_label_and_data_come_back)
{
    cr_expect_eq(round_trip("host:1:word", "a\0b", 3), 11 + 1 + 3);
    cr_expect_str_eq(holder.label, "host:1:word");
    cr_expect_eq(holder.data_len, 3);
    cr_expect_arr_eq(holder.data, "a\0b", 3);
    (void)round_trip("", "\0", 1);
    cr_expect_str_eq(holder.label, "");
    cr_expect_eq(holder.data_len, 1);
    (void)round_trip(NULL, "z", 1);
    cr_expect_str_eq(holder.label, "");
    cr_expect_arr_eq(holder.data, "z", 1);
}

Test(holder_text, without_data_the_value_is_the_label)
{
    cr_expect_eq(round_trip("host:1", NULL, 0), 6);
    cr_expect_arr_eq(text, "host:1", 6);
    cr_expect_null(holder.data);
    cr_expect_eq(holder.data_len, 0);
    cr_expect_eq(round_trip(NULL, NULL, 0), 0);
    dl_holder_text_read(&holder, NULL, 0);
    cr_expect_str_eq(holder.label, "");
    dl_holder_text_read(&holder, "ab\0", 3);
    cr_expect_null(holder.data, "a NUL alone has no data behind it");
}

Test(holder_text, the_longest_fit)
{
    static char label[400], data[DLOCK_DATA_MAX];

    memset(label, 'l', sizeof label - 1);
    memset(data, 'd', sizeof data);
    cr_expect_eq(round_trip(label, data, sizeof data), DL_HOLDER_TEXT_MAX);
    cr_expect_eq(strlen(holder.label), DL_HOLDER_LABEL_MAX);
    cr_expect_eq(holder.data_len, sizeof data);
    cr_expect_arr_eq(holder.data, data, sizeof data);
}
