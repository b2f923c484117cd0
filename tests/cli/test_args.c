/* SPDX-License-Identifier: MIT */
/* Tests: cli/args.c cli/client.c */
/* Are options, durations, numbers and names read strictly, and passwords taken out of argv? */
#include "args.h"

#include "client/client.h"
#include "load/option.h"
#include "load/settings.h"
#include "output.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const struct cli_duration any = {0, INT64_MAX, "0..", false};

Test(args, durations_have_a_unit)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"0s", 0},       {"500ms", 500},
                {"30s", 30000},  {"5m", 300000},
                {"2h", 7200000}, {"7d", 604800000},
                {"0", 0},        {"00001s", 1000},
                {"0000ms", 0},   {"9223372036854775807ms", INT64_MAX}};
    static const char *const bad[] = {"",
                                      "s",
                                      "5",
                                      "-5s",
                                      "+5s",
                                      " 5s",
                                      "5 s",
                                      "5.s",
                                      "5S",
                                      "5sec",
                                      "5w",
                                      "0x5s",
                                      "5s ",
                                      "5ms5",
                                      "forever",
                                      "9223372036854775808ms",
                                      "9223372036854775807s"};
    char why[CLI_WHY];
    int64_t ms;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cr_assert(cli_args_duration(good[i].text, &any, &ms, why), "%s", good[i].text);
        cr_assert_eq(ms, good[i].ms, "%s", good[i].text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_not(cli_args_duration(bad[i], &any, &ms, why), "'%s'", bad[i]);
}

/* An option of the command takes what the option of a URI takes, and says the same of the rest. */
static void same_as_in_a_uri(const struct cli_duration *kind, const char *name)
{
    static const char *const texts[] = {"0",
                                        "0s",
                                        "1ms",
                                        "49ms",
                                        "50ms",
                                        "7d",
                                        "8d",
                                        "365d",
                                        "366d",
                                        "30",
                                        "5w",
                                        "-1s",
                                        "+1s",
                                        "1.5s",
                                        "1,5s",
                                        "soon",
                                        "",
                                        "s",
                                        " 1s",
                                        "forever",
                                        "for",
                                        "99999999999999999999s",
                                        "9223372036854775807d"};
    const struct dlock_option_spec *row = dl_option_find(dl_settings_options, name);

    cr_assert_not_null(row);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char ours[CLI_WHY], uris[DL_OPTION_WHY], whole[2 * CLI_WHY];
        int64_t ms = 0, number = 0;
        bool good = dl_option_parse(row, texts[i], &number, uris);

        cr_expect_eq(cli_args_duration(texts[i], kind, &ms, ours), good, "%s=%s", name, texts[i]);
        if (good) {
            cr_expect_eq(ms, number, "%s=%s", name, texts[i]);
            continue;
        }
        (void)snprintf(whole, sizeof whole, "%s=%s %s", name, texts[i], ours);
        cr_expect_str_eq(whole, uris);
    }
}

Test(args, durations_are_those_of_a_uri)
{
    same_as_in_a_uri(&cli_ttl, "ttl");
    same_as_in_a_uri(&cli_wait, "wait");
}

Test(args, numbers_are_in_range)
{
    long n;

    cr_assert(cli_args_number("0", 0, 255, &n) && n == 0);
    cr_assert(cli_args_number("255", 0, 255, &n) && n == 255);
    cr_assert_not(cli_args_number("256", 0, 255, &n));
    cr_assert_not(cli_args_number("-1", 0, 255, &n));
    cr_assert_not(cli_args_number("7x", 0, 255, &n));
    cr_assert_not(cli_args_number("", 0, 255, &n));
    cr_assert_not(cli_args_number("99999999999999999999", 0, LONG_MAX, &n));
}

Test(args, names_in_hex)
{
    struct cli_name name;
    char longest[2 * DLOCK_NAME_MAX + 5];

    cr_assert(cli_args_name("00fFa0", true, &name));
    cr_assert_eq(name.len, 3);
    cr_assert_arr_eq(name.bytes, "\x00\xff\xa0", 3);
    cr_assert_not(cli_args_name("0", true, &name));
    cr_assert_not(cli_args_name("0g", true, &name));
    cr_assert(cli_args_name("0g", false, &name));
    cr_assert_eq(name.len, 2);

    memset(longest, 'a', sizeof longest);
    longest[2 * DLOCK_NAME_MAX + 2] = '\0'; /* one byte too many: for the library to refuse */
    cr_assert(cli_args_name(longest, true, &name));
    longest[2 * DLOCK_NAME_MAX + 2] = 'a';
    longest[sizeof longest - 1] = '\0';
    cr_assert_not(cli_args_name(longest, true, &name));
}

Test(args, bytes_that_could_drive_a_terminal_are_escaped)
{
    char all[256];
    const char *shown;

    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    shown = cli_output_printable(all, sizeof all);
    for (; *shown != '\0'; shown++)
        cr_assert(*shown >= 0x20 && *shown < 0x7f);
    cr_assert_str_eq(cli_output_printable("a\\x\n\x7f\xff", 6), "a\\x5cx\\x0a\\x7f\\xff");
    memset(all, 0xff, sizeof all);
    cr_assert_eq(strlen(cli_output_printable(all, DLOCK_NAME_MAX)), 4 * DLOCK_NAME_MAX,
                 "no name is cut");
}

/* What is left in argv of `dlock -u uri list`. */
static const char *argv_after(const char *uri)
{
    static const struct option none[] = {{NULL, 0, NULL, 0}};
    static char text[128];
    static char words[3][8] = {"dlock", "-u", "list"};
    char *argv[] = {words[0], words[1], text, words[2], NULL};
    struct cli cli = {.quiet = true};
    int exit_code = 0;

    (void)snprintf(text, sizeof text, "%s", uri);
    optind = 0;
    cr_assert_eq(cli_args_next(&cli, 4, argv, none, true, &exit_code), -1);
    cr_assert_str_eq(cli.uri, uri, "the command itself has it whole");
    cli_args_fini(&cli);
    return text;
}

Test(args, a_password_is_taken_out_of_argv)
{
    static const char *const secret[] = {"redis://user:s3cr3t@h/0",
                                         "redis://s3cr3t@h",
                                         "redis://:s3cr3t@h",
                                         "redlock://h/?node=redis%3A%2F%2F%3As3cr3t%40h",
                                         "mysql://h/db?pass=s3cr3t",
                                         "mysql://h/db?x=1&password=s3cr3t",
                                         "redis://h?sentinel_pwd=s3cr3t",
                                         "redis:u:s3cr3t@h"};
    static const char *const open[] = {"sqlite:///var/lib/x.db?ttl=3s", "@/etc/dlock.uri",
                                       "redis://h?pass_file=/etc/s", "redis://h?pass_env=PW"};

    for (size_t i = 0; i < sizeof secret / sizeof secret[0]; i++)
        cr_assert_null(strstr(argv_after(secret[i]), "s3cr3t"), "%s", secret[i]);
    cr_assert_null(strstr(argv_after(secret[3]), "%40"));
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        cr_assert_str_eq(argv_after(open[i]), open[i]);
}
