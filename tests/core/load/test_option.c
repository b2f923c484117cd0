/* SPDX-License-Identifier: MIT */
/* Tests: core/load/option.c */
/* Is the text of an option taken for what it says, or refused with the reason? */
/* Tests: lib/text.c */
#include "load/option.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct dlock_option_spec rows[] = {
    {"ttl", "duration", "30s", "50ms..7d", "h"},
    {"wait", "duration", "forever", "forever|0..365d", "h"},
    {"any", "duration", NULL, NULL, "h"},
    {"count", "int", "16", "-4..64", "h"},
    {"limit", "size", "1M", "1..2G", "h"},
    {"on", "bool", "on", NULL, "h"},
    {"strategy", "enum", "row", "row|insert|session", "h"},
    {"label", "text", NULL, "1..5", "h"},
    {"free", "text", NULL, NULL, "h"},
    {"node", "list", NULL, "1..5", "h"},
    {0},
};

static void accepted(const char *name, const char *text, int64_t expected)
{
    char why[DL_OPTION_WHY] = "";
    int64_t number = -99;

    cr_expect(dl_option_parse(dl_option_find(rows, name), text, &number, why), "%s", why);
    cr_expect_eq(number, expected, "%s=%s is %lld", name, text, (long long)number);
}

static void refused(const char *name, const char *text, const char *reason)
{
    char why[DL_OPTION_WHY] = "";
    int64_t number = -99;

    cr_expect_not(dl_option_parse(dl_option_find(rows, name), text, &number, why), "%s=%s", name,
                  text);
    cr_expect_str_eq(why, reason);
}

Test(option, durations)
{
    accepted("ttl", "50ms", 50);
    accepted("ttl", "30s", 30000);
    accepted("ttl", "2m", 120000);
    accepted("ttl", "1h", 3600000);
    accepted("ttl", "7d", 604800000);
    accepted("ttl", "0050ms", 50);
    accepted("any", "0", 0);
    accepted("any", "0s", 0);
    accepted("wait", "forever", -1);
    accepted("wait", "0", 0);
    accepted("any", "9223372036854775807ms", INT64_MAX);
}

/* Issue: ttl 0, -1, 2^63 and a duration without a unit are a clear error each. */
Test(option, durations_refused)
{
    refused("ttl", "30", "ttl=30 has no unit (ms, s, m, h or d)");
    refused("ttl", "0", "ttl=0 is not in 50ms..7d");
    refused("ttl", "0s", "ttl=0s is not in 50ms..7d");
    refused("ttl", "-1", "ttl=-1 has a sign; a plain number is expected");
    refused("ttl", "+1s", "ttl=+1s has a sign; a plain number is expected");
    refused("ttl", "9223372036854775808", "ttl=9223372036854775808 is too large");
    refused("ttl", "9223372036854775807s", "ttl=9223372036854775807s is too large");
    refused("any", "99999999999999999999ms", "any=99999999999999999999ms is too large");
    refused("ttl", "1.5s", "ttl=1.5s is not a whole number; use a smaller unit (ms, s, m, h or d)");
    refused("ttl", "30sec", "ttl=30sec has an unknown unit (known: ms, s, m, h or d)");
    refused("ttl", "30S", "ttl=30S has an unknown unit (known: ms, s, m, h or d)");
    refused("ttl", "1m30s", "ttl=1m30s has an unknown unit (known: ms, s, m, h or d)");
    refused("ttl", "1e3s", "ttl=1e3s has an unknown unit (known: ms, s, m, h or d)");
    refused("ttl", "0x10s", "ttl=0x10s has an unknown unit (known: ms, s, m, h or d)");
    refused("ttl", " 30s", "ttl= 30s is not a decimal number");
    refused("ttl", "", "ttl= is not a decimal number");
    refused("ttl", "49ms", "ttl=49ms is not in 50ms..7d");
    refused("ttl", "8d", "ttl=8d is not in 50ms..7d");
    refused("ttl", "forever", "ttl=forever is not a decimal number");
    refused("wait", "Forever", "wait=Forever is not a decimal number");
    refused("any", "\x1b[2Js", "any=\\x1b[2Js is not a decimal number");
}

Test(option, numbers)
{
    accepted("count", "-4", -4);
    accepted("count", "64", 64);
    refused("count", "-9223372036854775808", "count=-9223372036854775808 is too large");
    refused("count", "65", "count=65 is not in -4..64");
    refused("count", "--4", "count=--4 is not a decimal number");
    refused("count", "4x", "count=4x is not a decimal number");
    refused("count", "-", "count=- is not a decimal number");
    refused("count", "-9223372036854775808", "count=-9223372036854775808 is too large");
    accepted("limit", "1", 1);
    accepted("limit", "4k", 4096);
    accepted("limit", "1G", 1073741824);
    refused("limit", "3G", "limit=3G is not in 1..2G");
    refused("limit", "1T", "limit=1T has an unknown unit (known: none, k, M or G)");
    refused("limit", "9223372036854775807G", "limit=9223372036854775807G is too large");
}

Test(option, words)
{
    static const char *const yes[] = {"on", "true", "yes", "1"};
    static const char *const no[] = {"off", "false", "no", "0"};

    for (size_t i = 0; i < 4; i++) {
        accepted("on", yes[i], 1);
        accepted("on", no[i], 0);
    }
    refused("on", "ture", "on=ture is neither on nor off");
    refused("on", "", "on= is neither on nor off");
    accepted("strategy", "insert", 0);
    refused("strategy", "Insert", "strategy=Insert is not one of row|insert|session");
    refused("strategy", "row|insert", "strategy=row|insert is not one of row|insert|session");
    refused("strategy", "", "strategy= is not one of row|insert|session");
}

/* C17: a free text may be a secret. */
Test(option, texts_are_not_quoted)
{
    accepted("label", "12345", 0);
    accepted("free", "", 0);
    refused("label", "123456", "the value of 'label' is not 1..5 bytes long");
    refused("node", "123456", "the value of 'node' is not 1..5 bytes long");
    refused("label", "", "the value of 'label' is not 1..5 bytes long");
}

static const char *nearest(const char *name)
{
    const char *best = NULL;

    dl_option_nearest(rows, name, &best);
    return best != NULL ? best : "none";
}

Test(option, nearest_known_name)
{
    cr_expect_str_eq(nearest("tttl"), "ttl");
    cr_expect_str_eq(nearest("tll"), "ttl");
    cr_expect_str_eq(nearest("stratgy"), "strategy");
    cr_expect_str_eq(nearest("startegy"), "strategy");
    cr_expect_str_eq(nearest("lable"), "label");
    cr_expect_str_eq(nearest("wiat"), "wait");
    cr_expect_str_eq(nearest("zzz"), "none");
    cr_expect_str_eq(nearest("completely"), "none");
    cr_expect_str_eq(nearest("x"), "none");
}

/* The nearer of two tables wins, in either order. */
Test(option, nearest_of_two_tables)
{
    static const struct dlock_option_spec other[] = {{"strategic", "text", NULL, NULL, "h"}, {0}};
    const char *best = NULL;

    dl_option_nearest(other, "stratgy", &best);
    cr_expect_str_eq(best, "strategic");
    dl_option_nearest(rows, "stratgy", &best);
    cr_expect_str_eq(best, "strategy");
    dl_option_nearest(other, "stratgy", &best);
    cr_expect_str_eq(best, "strategy");
}

static void table_refused(struct dlock_option_spec row, const char *reason)
{
    struct dlock_option_spec table[] = {row, {0}};
    char why[DL_OPTION_WHY] = "";

    cr_expect_not(dl_option_table_valid(table, why), "%s", row.name);
    cr_expect(strstr(why, reason) != NULL, "\"%s\" is not in \"%s\"", reason, why);
}

Test(option, tables)
{
    static const struct dlock_option_spec twice[] = {
        {"a", "bool", NULL, NULL, "h"}, {"a", "int", NULL, NULL, "h"}, {0}};
    char why[DL_OPTION_WHY] = "";

    cr_assert(dl_option_table_valid(rows, why), "%s", why);
    cr_assert_not(dl_option_table_valid(twice, why));
    cr_assert_str_eq(why, "option 'a' is in the table twice");
    table_refused((struct dlock_option_spec){"A", "bool", NULL, NULL, "h"}, "expected a name");
    table_refused((struct dlock_option_spec){"", "bool", NULL, NULL, "h"}, "expected a name");
    table_refused((struct dlock_option_spec){"a", "float", NULL, NULL, "h"}, "expected a type");
    table_refused((struct dlock_option_spec){"a", NULL, NULL, NULL, "h"}, "expected a type");
    table_refused((struct dlock_option_spec){"a", "enum", NULL, NULL, "h"}, "words of the enum");
    table_refused((struct dlock_option_spec){"a", "int", NULL, "1", "h"}, "expected a range");
    table_refused((struct dlock_option_spec){"a", "int", NULL, "9..1", "h"}, "expected a range");
    table_refused((struct dlock_option_spec){"a", "int", NULL, "", "h"}, "expected a range");
    table_refused((struct dlock_option_spec){"a", "enum", NULL, "x|", "h"}, "expected a range");
    table_refused((struct dlock_option_spec){"a", "duration", NULL, "1..2", "h"}, "a range");
    table_refused((struct dlock_option_spec){"a", "bool", NULL, "0..1", "h"}, "expected a range");
    table_refused((struct dlock_option_spec){"a", "bool", NULL, NULL, NULL}, "a line of help");
    table_refused((struct dlock_option_spec){"a", "bool", "maybe", NULL, "h"}, "a=maybe");
    table_refused((struct dlock_option_spec){"a", "int", "70", "1..64", "h"}, "a=70 is not in");
}
