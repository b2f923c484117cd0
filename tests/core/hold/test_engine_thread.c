/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/renewer.c core/sys/own_thread.c */
/* C14: has the renewer the priority and the processors of the process, whoever takes the first
 * lock?
 */
#include "engine.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct dlt_engine engine;
static cpu_set_t whole;
static pid_t taker;
static bool nice_was_given_back; /* the system lets a thread take that back */

static void pin_to_one_processor(void)
{
    cpu_set_t one;
    size_t cpu = 0;

    while (!CPU_ISSET(cpu, &whole))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof one, &one);
}

/* Pins itself to one processor, ranks itself lower than all, and takes the first lock. */
static void *take_as_a_lowly_thread(void *arg)
{
    struct sched_param none = {0};

    taker = gettid();
    pin_to_one_processor();
    (void)sched_setscheduler(0, SCHED_BATCH, &none);
    (void)setpriority(PRIO_PROCESS, (id_t)taker, 5);
    nice_was_given_back = setpriority(PRIO_PROCESS, (id_t)taker, 0) == 0;
    (void)setpriority(PRIO_PROCESS, (id_t)taker, 5);
    cr_assert_eq(dlock_trylock(arg, NULL), DLOCK_OK);
    return NULL;
}

/* The thread that is neither the first of the process nor of this test; 0: there is none. */
static pid_t renewer_of(const pid_t *before, size_t count)
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    pid_t renewer = 0;

    cr_assert_not_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        bool known = tid == 0 || tid == taker;

        for (size_t i = 0; i < count; i++)
            known = known || before[i] == tid;
        if (!known)
            renewer = tid;
    }
    (void)closedir(dir);
    return renewer;
}

static size_t threads_list(pid_t *tids, size_t most)
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    size_t count = 0;

    cr_assert_not_null(dir);
    while ((entry = readdir(dir)) != NULL && count < most)
        if (entry->d_name[0] != '.')
            tids[count++] = (pid_t)strtol(entry->d_name, NULL, 10);
    (void)closedir(dir);
    return count;
}

/* `take` takes the first lock, in a thread of its own. The renewer that this has started, on all
 * processors of the process. */
static pid_t renewer_start(void *(*take)(void *), struct dlock_handle **lock)
{
    pid_t before[64], renewer;
    size_t count;
    pthread_t thread;
    cpu_set_t processors;

    dlt_engine_open(&engine, "thread", &(struct dlt_setup){.runs = 1});
    *lock = dlt_engine_lock(&engine, "job", NULL);
    cr_assert_eq(sched_getaffinity(getpid(), sizeof whole, &whole), 0);
    count = threads_list(before, sizeof before / sizeof before[0]);
    cr_assert_eq(pthread_create(&thread, NULL, take, *lock), 0);
    (void)pthread_join(thread, NULL);
    renewer = renewer_of(before, count);
    cr_assert_neq(renewer, 0);
    dlt_settle(); /* it has begun */
    cr_assert_eq(sched_getaffinity(renewer, sizeof processors, &processors), 0);
    cr_assert(CPU_EQUAL(&processors, &whole), "it is pinned to one processor");
    return renewer;
}

static void renewer_stop(struct dlock_handle *lock)
{
    dlock_free(lock);
    dlt_engine_close(&engine);
}

Test(thread, C14_the_renewer_has_nothing_of_the_thread_that_locked_first)
{
    struct dlock_handle *lock;
    pid_t renewer = renewer_start(take_as_a_lowly_thread, &lock);

    cr_assert_eq(sched_getscheduler(renewer), SCHED_OTHER);
    if (nice_was_given_back)
        cr_assert_eq(getpriority(PRIO_PROCESS, (id_t)renewer),
                     getpriority(PRIO_PROCESS, (id_t)getpid()));
    renewer_stop(lock);
}

/* ---- started by a SCHED_IDLE thread ---- */

/*
 * Linux (since 2.6.39) lets a thread leave SCHED_IDLE if the process has CAP_SYS_NICE, or if its
 * RLIMIT_NICE permits the nice value of the thread, 0 here: 20 does, and 0, the default, does not.
 * Where a thread may leave, the renewer is SCHED_OTHER. Where it may not, no renewer can be
 * anything else, and it starts all the same, on all processors.
 */

static bool may_leave; /* what the system says */

static void *take_as_an_idle_thread(void *arg)
{
    struct sched_param none = {0};

    taker = gettid();
    pin_to_one_processor();
    cr_assert_eq(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    may_leave = sched_setscheduler(0, SCHED_OTHER, &none) == 0;
    cr_assert_eq(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    cr_assert_eq(dlock_trylock(arg, NULL), DLOCK_OK);
    return NULL;
}

static void idle_thread_locks_first(void)
{
    struct dlock_handle *lock;
    pid_t renewer = renewer_start(take_as_an_idle_thread, &lock);

    cr_assert_eq(sched_getscheduler(renewer), may_leave ? SCHED_OTHER : SCHED_IDLE);
    renewer_stop(lock);
}

/* RLIMIT_NICE is `most`, and what the process may do ends there. False: the system refuses. */
static bool rights_end_with(rlim_t most)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    struct rlimit limit = {.rlim_cur = most, .rlim_max = most};

    if (setrlimit(RLIMIT_NICE, &limit) != 0 || syscall(SYS_capget, &header, data) != 0)
        return false;
    data[CAP_TO_INDEX(CAP_SYS_NICE)].effective &= ~CAP_TO_MASK(CAP_SYS_NICE);
    data[CAP_TO_INDEX(CAP_SYS_NICE)].permitted &= ~CAP_TO_MASK(CAP_SYS_NICE);
    return syscall(SYS_capset, &header, data) == 0;
}

Test(thread, C14_an_idle_thread_locks_first_with_the_rights_of_this_user)
{
    idle_thread_locks_first();
}

Test(thread, C14_an_idle_thread_locks_first_where_RLIMIT_NICE_lets_it_leave)
{
    bool granted = rights_end_with(20); /* only root can raise its limit */

    idle_thread_locks_first();
    cr_assert(may_leave || !granted);
}

Test(thread, C14_an_idle_thread_locks_first_and_may_not_leave)
{
    cr_assert(rights_end_with(0));
    idle_thread_locks_first();
    cr_assert_not(may_leave);
}

/* ---- in a sandbox ---- */

#define UNLESS(call, action) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), BPF_STMT(BPF_RET | BPF_K, (action))

/* What changes priorities and processors ends in `action` from now on. false: no such filter. */
static bool forbid(uint32_t action)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        UNLESS(SYS_sched_setaffinity, action),
        UNLESS(SYS_sched_setscheduler, action),
        UNLESS(SYS_setpriority, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Sandboxes of services end a process for such a call. */
Test(thread, C14_the_renewer_changes_nothing_that_is_right_already)
{
    struct dlock_handle *lock;

    dlt_engine_open(&engine, "thread", &(struct dlt_setup){.runs = 1});
    lock = dlt_engine_lock(&engine, "job", NULL);
    if (!forbid(SECCOMP_RET_KILL_PROCESS))
        cr_skip("no filters of system calls here");
    cr_assert_eq(dlock_trylock(lock, NULL), DLOCK_OK);
    dlt_settle();
    dlock_free(lock);
    dlt_engine_close(&engine);
}

static enum dlock_status taken;

static void *take_where_nothing_can_be_changed(void *arg)
{
    struct sched_param none = {0};

    pin_to_one_processor();
    (void)sched_setscheduler(0, SCHED_BATCH, &none);
    if (forbid(SECCOMP_RET_ERRNO | EPERM))
        taken = dlock_trylock(arg, NULL);
    return NULL;
}

/* It renews all the same. */
Test(thread, C14_a_renewer_that_can_change_nothing_starts)
{
    struct dlock_handle *lock;
    pthread_t thread;

    dlt_engine_open(&engine, "thread", &(struct dlt_setup){.runs = 1});
    lock = dlt_engine_lock(&engine, "job", NULL);
    cr_assert_eq(sched_getaffinity(getpid(), sizeof whole, &whole), 0);
    cr_assert_eq(pthread_create(&thread, NULL, take_where_nothing_can_be_changed, lock), 0);
    (void)pthread_join(thread, NULL);
    cr_assert_eq(taken, DLOCK_OK);
    dlock_free(lock);
    dlt_engine_close(&engine);
}
