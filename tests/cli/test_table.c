/* SPDX-License-Identifier: MIT */
/* Tests: cli/table.c */
/* Does the table fit each width, and keep what has to be read? */
#include "table.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct info_list list;
static char *text;

static void tear_down(void)
{
    info_list_fini(&list);
    free(text);
}

TestSuite(table, .fini = tear_down);

static struct dlock_holder holder_of(const char *name, const char *label)
{
    return (struct dlock_holder){
        .struct_size = sizeof(struct dlock_holder),
        .name = name,
        .name_len = (uint32_t)strlen(name),
        .owner = "00112233445566778899aabbccddeeff",
        .label = label,
        .fence = UINT64_C(1764110000000000),
        .remaining_ms = 29300,
        .held_ms = 7500000,
        .waiters = 3,
    };
}

static void add(struct dlock_holder holder)
{
    cr_assert_not(info_list_add(&list, &holder));
}

/* The table as text. */
static const char *print(size_t columns, size_t rows)
{
    static const char *plain[2] = {"", ""};
    size_t len = 0;
    FILE *out = NULL;

    free(text);
    out = open_memstream(&text, &len);
    table_print(out, &list, columns, rows, plain, "\n");
    cr_assert_eq(fclose(out), 0);
    return text;
}

/* Each line: exactly so long. */
static void lines_are(size_t width)
{
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1)
        cr_assert_eq(strcspn(line, "\n"), width, "%zu, want %zu:\n%s", strcspn(line, "\n"), width,
                     text);
}

#define LONG_NAME  "a-name-that-is-much-longer-than-half-of-any-terminal-with-eighty-columns"
#define LONG_LABEL "web-server-17.region-2.example.net:4194304:nightly report of all branches"

Test(table, what_fits_is_not_cut)
{
    add(holder_of("job", "web1:42"));
    cr_assert_str_eq(print(80, 0), "NAME  HOLDER     AGE   LEFT  WAITERS             FENCE\n"
                                   "job   web1:42  2h05m  29.3s        3  1764110000000000\n");
    cr_assert_str_eq(print(160, 0),
                     "NAME  HOLDER   MODE         AGE   LEFT  WAITERS             FENCE\n"
                     "job   web1:42  exclusive  2h05m  29.3s        3  1764110000000000\n");
}

Test(table, long_texts_share_the_room)
{
    add(holder_of(LONG_NAME, LONG_LABEL));
    for (size_t columns = TABLE_LEAST; columns < 150; columns++) {
        (void)print(columns, 0);
        lines_are(columns);
        cr_assert_not_null(strstr(text, "~  web-"), "%s", text);
        cr_assert_not_null(strstr(text, "  1764110000000000\n"), "%s", text);
    }
    (void)print(TABLE_LEAST - 20, 0);
    lines_are(TABLE_LEAST);
}

Test(table, a_short_text_leaves_its_room_to_the_long_one)
{
    add(holder_of("job", LONG_LABEL));
    (void)print(80, 0);
    lines_are(80);
    cr_assert_not_null(strstr(text, "job   web-server-17.region-2.example.n~  "), "%s", text);
    info_list_fini(&list);
    add(holder_of(LONG_NAME, "web1:42"));
    (void)print(80, 0);
    lines_are(80);
    cr_assert_not_null(strstr(text, "~  web1:42  "), "%s", text);
}

Test(table, no_width_cuts_nothing)
{
    add(holder_of(LONG_NAME, LONG_LABEL));
    (void)print(0, 0);
    cr_assert_not_null(strstr(text, LONG_NAME "  " LONG_LABEL "  exclusive  "), "%s", text);
}

/* No name can control a terminal. */
Test(table, names_are_escaped)
{
    add(holder_of("\033[2J", "\r\n"));
    cr_assert_not_null(strstr(print(80, 0), "\\x1b[2J  \\x0d\\x0a  "), "%s", text);
}

Test(table, unknown_values_and_all_modes)
{
    struct dlock_holder unknown = holder_of("n", "");
    struct dlock_holder permit = holder_of("p", "w:1");
    struct dlock_holder kept = holder_of("k", "w:1");

    unknown.owner = "";
    unknown.waiters = UINT32_MAX;
    unknown.fence = 0;
    unknown.held_ms = unknown.remaining_ms = -1;
    unknown.mode = DLOCK_SHARED;
    permit.limit = 12;
    permit.permit = 3;
    kept.kept = 1;
    add(unknown);
    add(permit);
    add(kept);
    cr_assert_str_eq(print(120, 0),
                     "NAME  HOLDER  MODE       AGE   LEFT  WAITERS             FENCE\n"
                     "n     -       shared       -      -        -                 -\n"
                     "p     w:1     3 of 12  2h05m  29.3s        3  1764110000000000\n"
                     "k     w:1     kept      kept  29.3s        3  1764110000000000\n");
}

Test(table, a_last_line_says_what_the_rows_leave_out)
{
    for (int i = 0; i < 10; i++)
        add(holder_of("job", "w:1"));
    cr_assert_not_null(strstr(print(80, 11), "1764110000000000\n"));
    cr_assert_null(strstr(text, "more"), "all fit");
    cr_assert_not_null(strstr(print(80, 10), "\n... and 2 more\n"), "%s", text);
    cr_assert_not_null(strstr(print(80, 2), "\n... and 10 more\n"), "%s", text);
}

Test(table, most_waiters_come_first_then_the_oldest)
{
    static const char *const want[] = {"crowded", "older", "a", "b", "unknown"};
    struct dlock_holder holder = holder_of("unknown", "w:1");

    holder.waiters = UINT32_MAX;
    holder.held_ms = 1;
    add(holder);
    holder = holder_of("b", "w:1");
    holder.waiters = 0;
    holder.held_ms = 5;
    add(holder);
    holder.name = "a";
    add(holder);
    holder = holder_of("older", "w:1");
    holder.waiters = 0;
    holder.held_ms = 6;
    add(holder);
    holder = holder_of("crowded", "w:1");
    holder.held_ms = 0;
    add(holder);
    table_sort(&list);
    for (size_t i = 0; i < list.count; i++)
        cr_assert_eq(memcmp(list.items[i].name, want[i], strlen(want[i])), 0, "%zu", i);
}

/* Not each one where its age puts it. */
Test(table, holders_of_one_name_stand_together)
{
    static const char *const want[] = {"gpu", "gpu", "leader"};
    struct dlock_holder holder = holder_of("gpu", "w:1");

    holder.held_ms = 5;
    add(holder);
    holder.held_ms = 7;
    add(holder);
    holder = holder_of("leader", "w:1");
    holder.held_ms = 6;
    add(holder);
    table_sort(&list);
    cr_assert_eq(list.count, sizeof want / sizeof want[0]);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        cr_assert_eq(memcmp(list.items[i].name, want[i], strlen(want[i])), 0, "%zu", i);
    cr_assert_eq(list.items[0].held_ms, 7);
}

/* Bytes that are no ASCII are escapes of four characters: a part of one would look like a name. */
Test(table, no_escape_is_cut_in_two)
{
    static const char name[] =
        "\xe5\x90\x8d\xe5\x89\x8d\xe3\x83\xad\xe3\x83\x83\xe3\x82\xaf\xe5\x90\x8d";

    add(holder_of(name, LONG_LABEL));
    for (size_t columns = TABLE_LEAST; columns < TABLE_WIDE; columns++) {
        const char *cell = NULL;
        size_t len = 0;

        (void)print(columns, 0);
        lines_are(columns);
        cell = strchr(text, '\n') + 1;
        len = strcspn(cell, "~");
        cr_assert_eq(len % 4, 0, "%zu columns:\n%s", columns, text);
        cr_assert_geq(len, 4);
    }
}

/* The waiters of a name are those of each of its holders. */
Test(table, the_summary_counts_waiters_once)
{
    char summary[TABLE_SUMMARY_SIZE];
    struct dlock_holder holder = holder_of("s", "w:1");

    add(holder);
    add(holder);
    holder = holder_of("t", "w:1");
    holder.waiters = UINT32_MAX;
    holder.kept = 1;
    add(holder);
    holder = holder_of("u", "w:1");
    holder.waiters = 2;
    add(holder);
    info_list_sort(&list);
    table_summary(&list, summary);
    cr_assert_str_eq(summary, "3 held, 1 kept, 5 waiting");
}
