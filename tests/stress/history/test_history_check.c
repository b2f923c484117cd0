/* SPDX-License-Identifier: MIT */
/* Does dlock-history-check say by its exit what is in the files, and that they say nothing? */
#include "log.h"

#include <criterion/criterion.h>
#include <dlock/types.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define S INT64_C(1000000000)

static char dir[64], path[96];

static void setup(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/dlock-check-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/log", dir);
}

static void teardown(void)
{
    (void)unlink(path);
    (void)rmdir(dir);
}

TestSuite(history_check, .init = setup, .fini = teardown);

static int exit_of(void)
{
    char command[512];
    int status;

    (void)snprintf(command, sizeof command, "%s --complete --told --kept %s >/dev/null 2>&1",
                   PROGRAM, path);
    status = system(command);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void locks(struct dlt_log *log, uint64_t attempt, int64_t at_ns)
{
    dlt_log_write(
        log, &(struct dlt_record){.event = DLT_INV_LOCK, .attempt_id = attempt, .clock_ns = at_ns});
    dlt_log_write(log, &(struct dlt_record){.event = DLT_RET_LOCK,
                                            .attempt_id = attempt,
                                            .clock_ns = at_ns + 1,
                                            .status = DLOCK_OK,
                                            .until_ns = at_ns + 10 * S});
}

Test(history_check, ends_with_1_for_a_violation_and_with_0_for_none)
{
    struct dlt_log *log = dlt_log_open(path, 10);

    locks(log, 1, S);
    cr_expect_eq(exit_of(), 0);
    locks(log, 2, 2 * S);
    cr_expect_eq(exit_of(), 1);
    dlt_log_close(log);
}

Test(history_check, ends_with_2_for_what_it_cannot_read)
{
    cr_expect_eq(exit_of(), 2);
}

/* As when the names of files are those of the nemesis alone. */
Test(history_check, ends_with_3_where_nobody_called_lock)
{
    struct dlt_log *log = dlt_log_open(path, 10);

    cr_expect_eq(exit_of(), 3);
    dlt_log_write(log, &(struct dlt_record){.event = DLT_NEMESIS_FAULT, .name_id = DLT_ALL_NAMES});
    cr_expect_eq(exit_of(), 3);
    dlt_log_close(log);
}
