/* SPDX-License-Identifier: MIT */
/* Does the call that was named fail, as it was said, in the process that was meant, and no other?
 */
#include "child.h"
#include "fault.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char file[] = "/tmp/dlock-fault.XXXXXX";
static struct dlt_fault fault;
static pid_t child;
static int child_fd;

static void setup(void)
{
    char *argv[] = {(char[]){FAULT_CHILD}, NULL};
    char line[64];
    int fd = mkstemp(file);

    cr_assert_geq(fd, 0);
    (void)close(fd);
    cr_assert(dlt_fault_open(&fault, file));
    cr_assert(dlt_fault_preload(file));
    child = dlt_tool_start(argv, &child_fd);
    cr_assert_gt(child, 0);
    cr_assert_eq(unsetenv("LD_PRELOAD"), 0);
    cr_assert(dlt_line_read(child_fd, line, sizeof line));
}

static void teardown(void)
{
    int status = -1;

    dlt_fault_pause(&fault);
    (void)close(child_fd);
    (void)waitpid(child, &status, 0);
    dlt_fault_close(&fault);
    (void)unlink(file);
    cr_assert_eq(status, 0);
}

TestSuite(fault, .init = setup, .fini = teardown, .timeout = 30);

/* The child calls the function: its result and errno. */
static long child_calls(const char *function, int *error)
{
    char line[64];
    long result = -2;

    (void)snprintf(line, sizeof line, "%s\n", function);
    cr_assert(dlt_write_all(child_fd, line, strlen(line)));
    cr_assert(dlt_line_read(child_fd, line, sizeof line));
    cr_assert_eq(sscanf(line, "%ld %d", &result, error), 2);
    cr_assert_neq(result, -2, "%s is not known", function);
    return result;
}

static void arm(uint64_t kinds, uint64_t nth, int error)
{
    dlt_fault_arm(
        &fault, &(struct dlt_fault_plan){.pid = child, .kinds = kinds, .nth = nth, .error = error});
}

static const struct {
    const char *name;
    enum dlt_fault_kind kind;
    long good;         /* the result when nothing is wrong */
    bool returns_code; /* the error is the result */
    bool is_short;     /* can transfer less */
} calls[] = {
    {"malloc", DLT_FAULT_MALLOC, 0, false, false},
    {"calloc", DLT_FAULT_CALLOC, 0, false, false},
    {"realloc", DLT_FAULT_REALLOC, 0, false, false},
    {"reallocarray", DLT_FAULT_REALLOC, 0, false, false},
    {"open", DLT_FAULT_OPEN, 0, false, false},
    {"openat", DLT_FAULT_OPEN, 0, false, false},
    {"read", DLT_FAULT_READ, 8, false, true},
    {"write", DLT_FAULT_WRITE, 8, false, true},
    {"pread", DLT_FAULT_PREAD, 8, false, true},
    {"pwrite", DLT_FAULT_PWRITE, 8, false, true},
    {"fsync", DLT_FAULT_FSYNC, 0, false, false},
    {"fdatasync", DLT_FAULT_FDATASYNC, 0, false, false},
    {"ftruncate", DLT_FAULT_FTRUNCATE, 0, false, false},
    {"posix_fallocate", DLT_FAULT_FALLOCATE, 0, true, false},
    {"fcntl", DLT_FAULT_LOCK, 0, false, false},
    {"mmap", DLT_FAULT_MMAP, 0, false, false},
    {"getrandom", DLT_FAULT_GETRANDOM, 8, false, true},
    {"socket", DLT_FAULT_SOCKET, 0, false, false},
    {"send", DLT_FAULT_SEND, 8, false, true},
    {"sendmsg", DLT_FAULT_SEND, 8, false, true},
    {"poll", DLT_FAULT_POLL, 1, false, false},
    {"ppoll", DLT_FAULT_POLL, 1, false, false},
    {"eventfd", DLT_FAULT_EVENTFD, 0, false, false},
    {"timerfd_create", DLT_FAULT_TIMERFD, 0, false, false},
    {"pthread_create", DLT_FAULT_PTHREAD, 0, true, false},
};

#define CALLS (sizeof calls / sizeof calls[0])

Test(fault, each_function_fails_with_the_errno_chosen_at_the_nth_call)
{
    for (size_t i = 0; i < CALLS; i++) {
        int error = 0;
        long result;

        arm(UINT64_C(1) << calls[i].kind, 2, EOWNERDEAD);
        cr_assert_eq(child_calls(calls[i].name, &error), calls[i].good, "%s", calls[i].name);
        result = child_calls(calls[i].name, &error);
        cr_assert_eq(result, calls[i].returns_code ? EOWNERDEAD : -1, "%s: %ld", calls[i].name,
                     result);
        if (!calls[i].returns_code)
            cr_assert_eq(error, EOWNERDEAD, "%s: errno %d", calls[i].name, error);
        cr_assert_eq(child_calls(calls[i].name, &error), calls[i].good, "%s", calls[i].name);
        cr_assert_eq(dlt_fault_hits(&fault), 1);
    }
}

/* recv has to find bytes, and connect has nobody to find. */
Test(fault, recv_and_connect)
{
    static const char *const names[] = {"recv", "recvmsg", "connect"};

    for (size_t i = 0; i < 3; i++) {
        int error = 0;

        arm(DLT_FAULT_BIT(RECV) | DLT_FAULT_BIT(CONNECT), 1, EOWNERDEAD);
        cr_assert_eq(child_calls(names[i], &error), -1, "%s", names[i]);
        cr_assert_eq(error, EOWNERDEAD, "%s: errno %d", names[i], error);
    }
    dlt_fault_pause(&fault);
    for (size_t i = 0; i < 3; i++) {
        int error = 0;
        long result = child_calls(names[i], &error);

        cr_assert(i < 2 ? result == 8 : error == ECONNREFUSED, "%s", names[i]);
    }
}

Test(fault, short_counts)
{
    for (size_t i = 0; i < CALLS; i++) {
        int error = 0;

        dlt_fault_arm(&fault, &(struct dlt_fault_plan){
                                  .kinds = UINT64_C(1) << calls[i].kind, .nth = 1, .most = 3});
        cr_assert_eq(child_calls(calls[i].name, &error), calls[i].is_short ? 3 : calls[i].good,
                     "%s", calls[i].name);
        cr_assert_eq(child_calls(calls[i].name, &error), calls[i].good, "%s", calls[i].name);
    }
}

Test(fault, several_kinds_are_counted_together)
{
    int error = 0;

    arm(DLT_FAULT_BIT(READ) | DLT_FAULT_BIT(FSYNC), 3, EIO);
    cr_assert_eq(child_calls("fsync", &error), 0);
    cr_assert_eq(child_calls("poll", &error), 1);
    cr_assert_eq(child_calls("fsync", &error), 0);
    cr_assert_eq(child_calls("fsync", &error), -1);
    cr_assert_eq(dlt_fault_calls_of(&fault, DLT_FAULT_FSYNC), 3);
    cr_assert_eq(dlt_fault_calls_of(&fault, DLT_FAULT_POLL), 0);
    /* The child reads its orders. */
    cr_assert_geq(dlt_fault_calls(&fault), 3);
}

Test(fault, several_in_a_row_and_for_ever)
{
    int error = 0;

    dlt_fault_arm(&fault, &(struct dlt_fault_plan){
                              .kinds = DLT_FAULT_BIT(FSYNC), .nth = 2, .times = 2, .error = EIO});
    cr_assert_eq(child_calls("fsync", &error), 0);
    cr_assert_eq(child_calls("fsync", &error), -1);
    cr_assert_eq(child_calls("fsync", &error), -1);
    cr_assert_eq(child_calls("fsync", &error), 0);
    dlt_fault_arm(&fault,
                  &(struct dlt_fault_plan){
                      .kinds = DLT_FAULT_BIT(FSYNC), .nth = 1, .times = UINT64_MAX, .error = EIO});
    for (int i = 0; i < 5; i++)
        cr_assert_eq(child_calls("fsync", &error), -1);
}

Test(fault, pause_and_resume)
{
    int error = 0;

    arm(DLT_FAULT_BIT(FSYNC), 2, EIO);
    cr_assert_eq(child_calls("fsync", &error), 0);
    dlt_fault_pause(&fault);
    cr_assert_eq(child_calls("fsync", &error), 0);
    cr_assert_eq(child_calls("fsync", &error), 0);
    dlt_fault_resume(&fault);
    cr_assert_eq(child_calls("fsync", &error), -1);
    cr_assert_eq(dlt_fault_calls(&fault), 2);
}

Test(fault, only_in_the_process_that_is_meant)
{
    int error = 0;

    dlt_fault_arm(&fault,
                  &(struct dlt_fault_plan){
                      .pid = getpid(), .kinds = DLT_FAULT_BIT(FSYNC), .nth = 1, .error = EIO});
    cr_assert_eq(child_calls("fsync", &error), 0);
    cr_assert_eq(dlt_fault_calls(&fault), 0);
}

Test(fault, counts_without_failing)
{
    int error = 0;

    arm(DLT_FAULT_BIT(FSYNC), 0, EIO);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(child_calls("fsync", &error), 0);
    cr_assert_eq(dlt_fault_calls(&fault), 3);
    cr_assert_eq(dlt_fault_hits(&fault), 0);
}

Test(fault, fcntl_that_does_not_lock_is_left_alone)
{
    int error = 0;

    arm(DLT_FAULT_BIT(LOCK), 1, EIO);
    cr_assert_eq(child_calls("fcntl_getfd", &error), 0);
    cr_assert_eq(child_calls("fcntl", &error), -1);
}
