/* SPDX-License-Identifier: MIT */
/* Tests: core/sys/log.c */
/* Do lines that were written under the mutex come out once, in order, with their levels? */
#include "sys/log.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static char written[256];

static void sink(void *arg, enum dlock_log_level level, const char *message)
{
    size_t used = strlen(written);

    (void)arg;
    (void)snprintf(written + used, sizeof written - used, "%d %s\n", (int)level, message);
}

Test(log_lines, come_once_in_order)
{
    const struct dl_log log = {.fn = sink};
    struct dl_log_lines lines = {0};

    dl_log_lines_add_locked(&lines, &log, DLOCK_LOG_WARNING, "a %d", 1);
    dl_log_lines_add_locked(&lines, &log, DLOCK_LOG_INFO, "b %s", "%d");
    dl_log_lines_write(dl_log_lines_take_locked(&lines), &log);
    cr_assert_str_eq(written, "1 a 1\n2 b %d\n");
    cr_assert_null(lines.first);
    dl_log_lines_add_locked(&lines, &log, DLOCK_LOG_ERROR, "c");
    dl_log_lines_write(dl_log_lines_take_locked(&lines), &log);
    cr_assert_str_eq(written, "1 a 1\n2 b %d\n0 c\n");
}

Test(log_lines, without_a_sink_nothing_is_kept)
{
    const struct dl_log none = {.fn = NULL};
    struct dl_log_lines lines = {0};

    dl_log_lines_add_locked(&lines, &none, DLOCK_LOG_ERROR, "c");
    cr_assert_null(lines.first);
}

Test(log_lines, can_be_dropped)
{
    const struct dl_log log = {.fn = sink};
    struct dl_log_lines lines = {0};

    written[0] = '\0';
    dl_log_lines_add_locked(&lines, &log, DLOCK_LOG_ERROR, "c");
    dl_log_lines_write(lines, NULL);
    cr_assert_str_eq(written, "");
}
