/* SPDX-License-Identifier: MIT */
/* Tests: cli/process.c */
/* Does a label tell the right process, and what is known of it? */
#include "process.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char host[PROCESS_HOST_SIZE];
static struct process process;

static const char *label_of(long pid, const char *text)
{
    static char label[256];
    char space[DL_PID_SPACE_SIZE];

    (void)gethostname(host, sizeof host - 1);
    dl_pid_space_read(space);
    (void)snprintf(label, sizeof label, "%s:%ld@%s%s", host, pid, space, text);
    return label;
}

static enum process_state state_of(const char *label)
{
    process_read(&process, label, -1);
    return process.state;
}

Test(process, labels_that_name_none)
{
    static const char *const labels[] = {"",
                                         "web1",
                                         "web1:",
                                         "web1:x",
                                         ":5",
                                         "web1:-5",
                                         "web1:0",
                                         "web1:5x",
                                         "web1:+5",
                                         "web1: 5",
                                         "web1:5@",
                                         "web1:5@0123456",
                                         "web1:5@0123456g",
                                         "web1:5@012345678",
                                         "web1:5@01234567x",
                                         "web1:999999999999999999999"};

    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        cr_assert_eq(state_of(labels[i]), PROCESS_UNKNOWN, "%s", labels[i]);
        cr_assert_eq(process.pid, 0);
        cr_assert_str_eq(process.host, "");
    }
}

Test(process, of_another_host)
{
    cr_assert_eq(state_of("no.such.host:1:nightly"), PROCESS_ELSEWHERE);
    cr_assert_eq(process.pid, 1);
    cr_assert_str_eq(process.host, "no.such.host");
}

/* Its number may be another process's here, or nobody's. */
Test(process, of_another_pid_namespace)
{
    char label[256];

    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(label, sizeof label, "%s:%ld@00000000:nightly", host, (long)getpid());
    cr_assert_eq(state_of(label), PROCESS_ELSEWHERE);
    cr_assert_eq(process.pid, getpid());
    cr_assert_str_eq(process.program, "");
    cr_assert_not(process_is_here(&process));
    (void)snprintf(label, sizeof label, "%s:%ld:nightly", host, (long)getpid());
    cr_assert_eq(state_of(label), PROCESS_UNKNOWN, "of an earlier release");
    cr_assert_eq(process.pid, getpid());
    cr_assert_not(process_is_here(&process));
}

Test(process, that_runs_here)
{
    cr_assert_eq(state_of(label_of(getpid(), ":a:b")), PROCESS_RUNS);
    cr_assert_str_neq(process.program, "");
    cr_assert(process_is_here(&process));
}

/* The lease was taken before this process began: the number was another process's then. */
Test(process, that_is_younger_than_its_lease)
{
    process_read(&process, label_of(getpid(), ""), 100 * INT64_C(86400000));
    cr_assert_eq(process.state, PROCESS_ENDED);
    process_read(&process, label_of(getpid(), ""), 0);
    cr_assert_eq(process.state, PROCESS_RUNS);
}

Test(process, that_is_stopped_and_that_has_ended)
{
    pid_t child = fork();

    if (child == 0) {
        (void)raise(SIGSTOP);
        _exit(0);
    }
    cr_assert_eq(waitpid(child, NULL, WUNTRACED), child);
    cr_assert_eq(state_of(label_of(child, "")), PROCESS_STOPPED);
    cr_assert_eq(kill(child, SIGKILL), 0);
    cr_assert_eq(waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    cr_assert_eq(state_of(label_of(child, "")), PROCESS_ENDED, "a zombie");
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert_eq(state_of(label_of(child, "")), PROCESS_ENDED);
}

Test(process, parents)
{
    struct process own, parent;
    long parents[PROCESS_PARENTS_MOST];
    size_t count = 0;

    process_read(&own, label_of(getpid(), ""), -1);
    process_read(&parent, label_of(getppid(), ""), -1);
    count = process_parents(&own, parents);
    cr_assert_gt(count, 0);
    cr_assert_eq(parents[0], getppid());
    for (size_t i = 0; i < count; i++)
        cr_assert_neq(parents[i], getpid());
    cr_assert_eq(parents[count - 1], 1, "the first process of a container may hold a lock");
    cr_assert(process_is_parent(&parent));
    process_read(&own, label_of(getpid(), ""), -1);
    cr_assert_not(process_is_parent(&own));
    process_read(&own, "no.such.host:1", -1);
    cr_assert_eq(process_parents(&own, parents), 0);
    cr_assert_not(process_is_parent(&own));
}

Test(process, the_same)
{
    struct process a, b;

    process_read(&a, "web1:5@0000000a:x", -1);
    process_read(&b, "web1:5@0000000a:y", -1);
    cr_assert(process_is_same(&a, &b));
    process_read(&b, "web2:5@0000000a:x", -1);
    cr_assert_not(process_is_same(&a, &b));
    process_read(&b, "web1:5@0000000b:x", -1);
    cr_assert_not(process_is_same(&a, &b), "two containers with one host name");
    process_read(&a, "web1:5:x", -1);
    process_read(&b, "web1:5:x", -1);
    cr_assert_not(process_is_same(&a, &b), "not known");
    process_read(&a, "", -1);
    process_read(&b, "", -1);
    cr_assert_not(process_is_same(&a, &b), "unknown ones");
}

static void *sleep_on(void *arg)
{
    (void)arg;
    (void)pause();
    return NULL;
}

static bool leader_has_ended(pid_t pid)
{
    struct proc_stat stat;

    return proc_stat_read(pid, &stat) && stat.state == 'Z';
}

Test(process, whose_main_thread_has_ended_lives)
{
    struct proc_stat stat;
    pid_t child = fork();

    if (child == 0) {
        pthread_t thread;

        (void)prctl(PR_SET_NAME, "a) Z 1 (b");
        if (pthread_create(&thread, NULL, sleep_on, NULL) == 0)
            pthread_exit(NULL);
        _exit(1);
    }
    while (!leader_has_ended(child) && waitpid(child, NULL, WNOHANG) == 0)
        (void)usleep(1000);
    cr_assert(proc_stat_read(child, &stat));
    cr_assert_str_eq(stat.program, "a) Z 1 (b");
    cr_assert_eq(stat.parent, getpid());
    cr_assert_eq(stat.group, getpgrp());
    cr_assert_eq(kill(child, SIGKILL), 0);
    cr_assert_eq(waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    cr_assert_not(proc_stat_read(child, &stat), "a zombie");
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert_not(proc_stat_read(child, &stat));
}
