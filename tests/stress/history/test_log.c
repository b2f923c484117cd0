/* SPDX-License-Identifier: MIT */
/* Does the history of a process outlive it, and is a broken file refused? */
#include "log.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64], path[96];

static void setup(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/dlock-log-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/log", dir);
}

static void teardown(void)
{
    (void)unlink(path);
    (void)rmdir(dir);
}

TestSuite(log, .init = setup, .fini = teardown);

static void expect_read(size_t count)
{
    struct dlt_history history = {0};
    char why[256] = "";

    cr_assert_eq(dlt_log_read(path, &history, why, sizeof why), 0, "%s", why);
    cr_assert_eq(history.count, count);
    for (size_t i = 0; i < count; i++)
        cr_assert(history.records[i].seq == i + 1 && history.records[i].pid > 0 &&
                  history.records[i].clock_ns > 0);
    dlt_history_fini(&history);
}

static void expect_refused(const char *text)
{
    struct dlt_history history = {0};
    char why[256] = "";

    cr_assert_eq(dlt_log_read(path, &history, why, sizeof why), -1);
    cr_assert_not_null(strstr(why, text), "%s", why);
    dlt_history_fini(&history);
}

Test(log, outlives_SIGKILL)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        struct dlt_log *log = dlt_log_open(path, 100);

        for (int i = 0; i < 10; i++)
            dlt_log_write(log, &(struct dlt_record){.event = DLT_HELD_STAMP});
        (void)raise(SIGKILL);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status));
    expect_read(10);
}

static void *write_many(void *log)
{
    for (int i = 0; i < 1000; i++)
        dlt_log_write(log, &(struct dlt_record){.attempt_id = dlt_log_attempt(log)});
    return NULL;
}

Test(log, takes_records_of_many_threads)
{
    struct dlt_log *log = dlt_log_open(path, 4000);
    pthread_t threads[4];

    cr_assert_not_null(log);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, write_many, log), 0);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    dlt_log_close(log);
    expect_read(4000);
}

Test(log, that_was_too_small_is_refused)
{
    struct dlt_log *log = dlt_log_open(path, 2);

    for (int i = 0; i < 3; i++)
        dlt_log_write(log, &(struct dlt_record){.event = DLT_HELD_STAMP});
    dlt_log_close(log);
    expect_refused("too small");
}

Test(log, that_is_none_is_refused)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    cr_assert_eq(close(fd), 0);
    expect_refused("empty");
    cr_assert_eq(truncate(path, 4096), 0);
    expect_refused("not a log");
    cr_assert_eq(unlink(path), 0);
    expect_refused("No such file");
}

Test(log, that_was_cut_short_is_refused)
{
    struct dlt_log *log = dlt_log_open(path, 100);

    dlt_log_write(log, &(struct dlt_record){.event = DLT_HELD_STAMP});
    dlt_log_close(log);
    cr_assert_eq(truncate(path, 1000), 0);
    expect_refused("cut short");
}

/* Its writer was killed between the record and its number. */
Test(log, leaves_out_a_record_that_is_half_written)
{
    struct dlt_log *log = dlt_log_open(path, 10);
    struct dlt_history history = {0};
    const uint64_t none = 0;
    struct stat st;
    char why[256] = "";
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    for (uint64_t i = 1; i <= 3; i++)
        dlt_log_write(log, &(struct dlt_record){.event = DLT_HELD_STAMP, .attempt_id = i});
    dlt_log_close(log);
    cr_assert_eq(fstat(fd, &st), 0);
    cr_assert_eq(pwrite(fd, &none, sizeof none,
                        st.st_size - 9 * (off_t)sizeof(struct dlt_record) +
                            (off_t)offsetof(struct dlt_record, seq)),
                 (ssize_t)sizeof none);
    cr_assert_eq(close(fd), 0);
    cr_assert_eq(dlt_log_read(path, &history, why, sizeof why), 0, "%s", why);
    cr_assert_eq(history.count, 2);
    cr_assert(history.records[0].attempt_id == 1 && history.records[1].attempt_id == 3);
    dlt_history_fini(&history);
}

Test(log, calls_a_process_by_another_number)
{
    struct dlt_log *log = dlt_log_open(path, 10);
    struct dlt_history history = {0};
    char why[256] = "";

    dlt_log_call(log, 7);
    cr_assert_eq(dlt_log_attempt(log) >> 40, 7u);
    dlt_log_write(log, &(struct dlt_record){.event = DLT_HELD_STAMP});
    dlt_log_close(log);
    cr_assert_eq(dlt_log_read(path, &history, why, sizeof why), 0, "%s", why);
    cr_assert_eq(history.records[0].pid, 7);
    dlt_history_fini(&history);
}
