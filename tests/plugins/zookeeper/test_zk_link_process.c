/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/link.c plugins/zookeeper/connection.c */
/* What a link may do to a process, and what it makes of several servers. */
#include "link_faults.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>

static void set_up_cluster(void)
{
    cr_assert(dlt_zk_start_cluster(&server, 3, NULL), "%s", server.why);
    watch_stderr();
}

TestSuite(process, .init = set_up, .fini = tear_down);
TestSuite(cluster, .init = set_up_cluster, .fini = tear_down);

/* ---- several servers ---- */

static unsigned present_member(void)
{
    const struct zk_session_state state = state_of(&rig);

    for (unsigned i = 0; i < server.count; i++) {
        if (strcmp(state.server, server.members[i].address) == 0)
            return i;
    }
    cr_assert_fail("connected to '%s'", state.server);
    return 0;
}

/* Connects to a server that does not lead. */
static unsigned open_at_follower(int64_t ttl_ms)
{
    for (;;) {
        unsigned at = 0;

        rig_config(&rig);
        rig.config.ttl_ms = ttl_ms;
        rig_greet(&rig);
        cr_assert_eq(rig_connect(&rig, 5000), DLOCK_OK, "%s", rig.err.message);
        at = present_member();
        if ((int)at != dlt_zk_leader_wait(&server))
            return at;
        close_rig();
    }
}

/* [FAI-2] A lease of 6 s outlives a server that stops: another one is asked in time. */
Test(cluster, a_stopped_server_is_left_before_the_leases_end, .timeout = 60)
{
    const int64_t ttl_ms = 6000;
    const unsigned at = open_at_follower(ttl_ms);
    const int64_t id = state_of(&rig).session_id, timeout_ms = state_of(&rig).timeout_ms;
    int64_t stopped = 0;

    make_base(&rig);
    want_rc(&rig, ZK_CREATE, BASE "/x", ZOO_EPHEMERAL, ZOK);
    dlt_zk_pause(&server, at, true);
    stopped = now_ms();
    cr_assert(await_connected(&rig, false, timeout_ms * 2 / 3), "after %ld ms",
              (long)(now_ms() - stopped));
    cr_assert(await_connected(&rig, true, 5000));
    cr_assert_neq(present_member(), at);
    cr_assert_eq(state_of(&rig).session_id, id);
    want_rc(&rig, ZK_EXISTS, BASE "/x", 0, ZOK);
    want_rc(&rig, ZK_CREATE, BASE "/y", ZOO_EPHEMERAL, ZOK); /* a change proves the connection */
    cr_assert_gt(state_of(&rig).until_ns - dlt_host_now(&rig.host), (ttl_ms - 500) * DLT_NS_PER_MS);
    dlt_zk_pause(&server, at, false);
    close_rig();
}

/* [liveness.h] Answers of a follower without its leader prove nothing. */
Test(cluster, until_ns_stands_still_while_the_leader_is_stopped, .timeout = 60)
{
    int leader = 0;
    int64_t until_ns = 0;

    (void)open_at_follower(3000);
    make_base(&rig);
    leader = dlt_zk_leader(&server);
    dlt_zk_pause(&server, (unsigned)leader, true);
    until_ns = state_of(&rig).until_ns;
    for (int i = 0; i < 5; i++) {
        struct zk_exchange *exchange = exchange_of(ZK_EXISTS, BASE);
        int64_t id = 0;

        (void)run_in(&rig, exchange, &id, 50);
        zk_exchange_free(exchange);
        dlt_sleep_ms(TICK_MS / 2);
    }
    cr_assert_leq(state_of(&rig).until_ns, until_ns + TICK_MS * DLT_NS_PER_MS);
    dlt_zk_pause(&server, (unsigned)leader, false);
    close_rig();
}

/* ---- the process ---- */

static unsigned files(const char *directory)
{
    DIR *dir = opendir(directory);
    unsigned count = 0;

    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

static long resident_kb(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long pages = 0;

    cr_assert_eq(fscanf(file, "%*d %ld", &pages), 1);
    (void)fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

Test(process, hundreds_of_links_leave_nothing, .timeout = 120)
{
    unsigned descriptors = 0, threads = 0;
    long memory = 0;

    for (int i = 0; i < 300; i++) { /* dlock-soak opens more of them */
        rig_open(&rig);
        if (i % 10 == 0)
            make_base(&rig);
        close_rig();
        if (i != 100)
            continue;
        descriptors = files("/proc/self/fd");
        threads = files("/proc/self/task");
        memory = resident_kb();
    }
    cr_assert_eq(files("/proc/self/fd"), descriptors);
    cr_assert_eq(files("/proc/self/task"), threads);
#ifndef __SANITIZE_ADDRESS__
    cr_assert_lt(resident_kb() - memory, 1024);
#else
    (void)memory;
#endif
}

static _Atomic bool done;

static void *open_and_close(void *arg)
{
    (void)arg;
    while (!done) {
        rig_open(&rig);
        rig_close(&rig);
    }
    return NULL;
}

static int descriptors_that_stay(void)
{
    int count = 0;

    for (int fd = 3; fd < 200; fd++) {
        const int flags = fcntl(fd, F_GETFD);
        struct stat about;

        if (flags >= 0 && (flags & FD_CLOEXEC) == 0 && fstat(fd, &about) == 0 &&
            (S_ISSOCK(about.st_mode) || S_ISCHR(about.st_mode)))
            count++;
    }
    return count;
}

/* [HST] A program that another thread starts at any moment gets no socket. */
Test(process, a_fork_in_another_thread_inherits_no_socket, .timeout = 60)
{
    pthread_t thread;
    int before = 0;

    rig_open(&rig);
    close_rig();
    before = descriptors_that_stay();
    cr_assert_eq(pthread_create(&thread, NULL, open_and_close, NULL), 0);
    for (int i = 0; i < 1500; i++) {
        int status = 0;
        const pid_t pid = fork();

        if (pid == 0)
            _exit(descriptors_that_stay() - before);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert_eq(status, 0, "%d sockets after fork %d", WEXITSTATUS(status), i);
    }
    done = true;
    (void)pthread_join(thread, NULL);
}

/* [CLS-1] */
Test(process, a_forked_child_closes_descriptors_and_no_session)
{
    unsigned before = 0;
    int status = 0;
    pid_t pid = 0;
    int64_t id = 0;

    (void)files("/proc/self/fd");
    before = files("/proc/self/fd");
    rig_open(&rig);
    id = state_of(&rig).session_id;
    cr_assert_gt(files("/proc/self/fd"), before);
    pid = fork();
    if (pid == 0) {
        zk_link_after_fork(rig.link);
        _exit(files("/proc/self/fd") == before ? 0 : 1);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    dlt_sleep_ms(TIMEOUT_MS);
    make_base(&rig);
    cr_assert_eq(state_of(&rig).session_id, id);
    close_rig();
}
