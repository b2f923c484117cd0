/* SPDX-License-Identifier: MIT */
/* Do processes that share a file exclude each other, whatever happens to one of them? */
#include "peer_kit.h"
#include "store_kit.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RACERS  8
#define SLOW_MS 3000 /* what a machine that is busy with other things may add */

static char directory[64], path[64];
static struct dlt_peer a, b;

static void set_up(void)
{
    dlt_store_directory(directory, path);
    dlt_peer_start(&a, NULL);
    dlt_peer_start(&b, NULL);
}

static void tear_down(void)
{
    dlt_peer_kill(&a);
    dlt_peer_kill(&b);
    dlt_store_remove(directory);
}

TestSuite(peers, .init = set_up, .fini = tear_down, .timeout = 60);

static int64_t now_ms(void)
{
    struct dlt_host host;

    dlt_host_init_running(&host);
    return dlt_host_now(&host) / DLT_NS_PER_MS;
}

static void both_open(void)
{
    struct dlt_answer answer = dlt_peer_ask(&a, "open %s normal", path);

    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    answer = dlt_peer_ask(&b, "open %s normal", path);
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
}

Test(peers, TRY_1_one_of_two_processes)
{
    struct dlt_answer answer;

    both_open();
    cr_assert_eq(dlt_peer_ask(&a, "try job a 60000 5000").status, DLOCK_OK);
    answer = dlt_peer_ask(&b, "try job b 60000 5000");
    cr_assert_eq(answer.status, DLOCK_BUSY);
    cr_assert_gt(answer.holder_ms, 50000);
    cr_assert_eq(dlt_peer_ask(&a, "unlock a").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&b, "try job b 60000 5000").status, DLOCK_OK);
}

/* count processes take turns with a file that counts without a lock of its own. */
static void race(int count, int turns)
{
    struct dlt_peer racers[RACERS];
    char file[128], text[64] = "";
    FILE *f = NULL;

    (void)snprintf(file, sizeof file, "%s/count", directory);
    f = fopen(file, "w");
    cr_assert_not_null(f);
    (void)fputs("0 0\n", f);
    (void)fclose(f);
    for (int i = 0; i < count; i++) {
        dlt_peer_start(&racers[i], NULL);
        dlt_peer_say(&racers[i], "open %s normal", path);
        dlt_peer_say(&racers[i], "race %s job %d", file, turns);
    }
    for (int i = 0; i < count; i++) {
        struct dlt_answer answer = dlt_peer_hear(&racers[i]);

        cr_assert_eq(answer.status, DLOCK_OK, "open: %s", answer.message);
        answer = dlt_peer_hear(&racers[i]);
        cr_assert_eq(answer.status, DLOCK_OK, "race: %s", answer.message);
        dlt_peer_kill(&racers[i]);
    }
    f = fopen(file, "r");
    cr_assert_not_null(fgets(text, sizeof text, f));
    (void)fclose(f);
    cr_assert_eq(strtol(text, NULL, 10), count * turns);
}

Test(peers, C1_C6_a_race_loses_no_update_and_fences_rise)
{
    race(RACERS, 200);
}

/* A link in its place, which is neither followed nor replaced. */
static void without_wake_file(void)
{
    char wake_file[128];

    (void)snprintf(wake_file, sizeof wake_file, "%s-wake", path);
    both_open();
    cr_assert_eq(unlink(wake_file), 0);
    cr_assert_eq(symlink("/nowhere", wake_file), 0);
    both_open();
}

Test(peers, C1_C6_a_race_without_a_wake_file)
{
    without_wake_file();
    race(4, 50);
}

Test(peers, first_opens_at_once_never_fail)
{
    struct dlt_peer openers[RACERS];

    for (int i = 0; i < RACERS; i++)
        dlt_peer_start(&openers[i], NULL);
    for (int i = 0; i < RACERS; i++)
        dlt_peer_say(&openers[i], "opens %s 100", path);
    for (int i = 0; i < RACERS; i++) {
        struct dlt_answer answer = dlt_peer_hear(&openers[i]);

        cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
        dlt_peer_kill(&openers[i]);
    }
}

Test(peers, TRY_2_the_lease_of_a_killed_holder_lasts_and_ends)
{
    int64_t before = 0;
    struct dlt_answer answer;

    both_open();
    before = now_ms();
    cr_assert_eq(dlt_peer_ask(&a, "try job a 1000 1000 t").status, DLOCK_OK);
    dlt_peer_kill(&a);
    answer = dlt_peer_ask(&b, "try job b 60000 5000");
    cr_assert_eq(answer.status, DLOCK_BUSY);
    while (answer.status == DLOCK_BUSY) {
        dlt_sleep_ms(answer.holder_ms);
        answer = dlt_peer_ask(&b, "try job b 60000 5000");
    }
    cr_assert_eq(answer.status, DLOCK_OK);
    cr_assert_geq(now_ms() - before, 1000);
    cr_assert(dlt_took_within(now_ms() - before, 1000 + SLOW_MS), "%s", dlt_within_text());
}

Test(peers, a_process_killed_inside_a_transaction_stops_nobody)
{
    both_open();
    cr_assert_eq(dlt_peer_ask(&b, "try job b 60000 5000").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&a, "enter").status, DLOCK_OK);
    dlt_peer_kill(&a);
    cr_assert_eq(dlt_peer_ask(&b, "renew b").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&b, "try other c 60000 5000").status, DLOCK_OK);
}

Test(peers, C8_a_process_stopped_inside_a_transaction_is_waited_for_until_the_deadline)
{
    struct dlt_answer answer;
    int64_t start = 0;

    both_open();
    cr_assert_eq(dlt_peer_ask(&a, "enter").status, DLOCK_OK);
    cr_assert_eq(kill(a.pid, SIGSTOP), 0);
    for (int i = 0; i < 2; i++) {
        start = now_ms();
        answer = dlt_peer_ask(&b, "try job b 60000 300");
        cr_assert_eq(answer.status, DLOCK_UNAVAILABLE, "%s", dlock_status_name((int)answer.status));
        cr_assert_geq(now_ms() - start, 299);
        cr_assert(dlt_took_within(now_ms() - start, 300 + SLOW_MS), "%s", dlt_within_text());
    }
    cr_assert_eq(kill(a.pid, SIGCONT), 0);
    cr_assert_eq(dlt_peer_ask(&a, "leave").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&b, "try job b 60000 5000").status, DLOCK_OK);
}

Test(peers, a_waiter_that_looks_again_needs_no_write_lock)
{
    both_open();
    cr_assert_eq(dlt_peer_ask(&a, "try job a 60000 5000").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&b, "try job b 60000 5000").status, DLOCK_BUSY);
    cr_assert_eq(dlt_peer_ask(&a, "enter").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&b, "try job b 60000 5000").status, DLOCK_BUSY);
    cr_assert_eq(dlt_peer_ask(&a, "leave").status, DLOCK_OK);
}

Test(peers, without_a_wake_file_the_busy_handler_waits_and_ends_in_time)
{
    int64_t start = 0;

    without_wake_file();
    cr_assert_eq(dlt_peer_ask(&a, "try job a 60000 5000").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&b, "try job b 60000 5000").status, DLOCK_BUSY);
    cr_assert_eq(dlt_peer_ask(&b, "watch b 10000").status, DLOCK_BUSY);
    cr_assert_eq(dlt_peer_ask(&a, "enter").status, DLOCK_OK);
    start = now_ms();
    cr_assert_eq(dlt_peer_ask(&b, "try other c 60000 200").status, DLOCK_UNAVAILABLE);
    cr_assert_geq(now_ms() - start, 199);
    cr_assert(dlt_took_within(now_ms() - start, 200 + SLOW_MS), "%s", dlt_within_text());
    dlt_peer_say(&b, "try other c 60000 5000");
    dlt_sleep_ms(50);
    cr_assert_eq(dlt_peer_ask(&a, "leave").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_hear(&b).status, DLOCK_OK);
}

Test(peers, WAT_1_a_release_in_one_process_wakes_another)
{
    both_open();
    cr_assert_eq(dlt_peer_ask(&a, "try job a 60000 5000").status, DLOCK_OK);
    for (int i = 0; i < 3; i++) {
        struct dlt_answer answer;

        cr_assert_eq(dlt_peer_ask(&b, "try job b 60000 5000").status, DLOCK_BUSY);
        dlt_peer_say(&b, "watch b 30000");
        cr_assert_not(dlt_peer_answers(&b, 50), "nothing happened yet");
        answer = i == 1 ? dlt_peer_ask(&a, "break job") : dlt_peer_ask(&a, "unlock a");
        cr_assert_eq(answer.status, DLOCK_OK);
        cr_assert(dlt_peer_answers(&b, 5000), "nobody woke it");
        cr_assert_eq(dlt_peer_hear(&b).status, DLOCK_BUSY);
        cr_assert_eq(dlt_peer_ask(&a, "try job a 60000 5000").status, DLOCK_OK);
    }
}

Test(peers, WAT_2_a_release_between_try_and_watch_is_not_missed)
{
    both_open();
    cr_assert_eq(dlt_peer_ask(&a, "try job a 60000 5000").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&b, "try job b 60000 5000").status, DLOCK_BUSY);
    cr_assert_eq(dlt_peer_ask(&a, "unlock a").status, DLOCK_OK);
    dlt_peer_say(&b, "watch b 30000");
    cr_assert(dlt_peer_answers(&b, 5000), "it sleeps");
    cr_assert_eq(dlt_peer_hear(&b).status, DLOCK_BUSY);
}

Test(peers, a_killed_waiter_does_not_stop_the_wake_up_of_another)
{
    struct dlt_peer c;

    both_open();
    dlt_peer_start(&c, NULL);
    cr_assert_eq(dlt_peer_ask(&c, "open %s normal", path).status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&a, "try job a 60000 5000").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&b, "try job b 60000 5000").status, DLOCK_BUSY);
    cr_assert_eq(dlt_peer_ask(&c, "try job c 60000 5000").status, DLOCK_BUSY);
    dlt_peer_say(&b, "watch b 30000");
    dlt_peer_say(&c, "watch c 30000");
    dlt_sleep_ms(50);
    dlt_peer_kill(&c);
    cr_assert_eq(dlt_peer_ask(&a, "unlock a").status, DLOCK_OK);
    cr_assert(dlt_peer_answers(&b, 5000), "nobody woke it");
    cr_assert_eq(dlt_peer_hear(&b).status, DLOCK_BUSY);
}

Test(peers, time_namespaces_agree_on_when_a_lease_ends)
{
    struct dlt_peer far;
    struct dlt_answer answer;

    if (geteuid() != 0)
        cr_skip("a time namespace takes root");
    dlt_peer_start(&far, "unshare -T --boottime 1000000");
    both_open();
    answer = dlt_peer_ask(&far, "open %s normal", path);
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    cr_assert_eq(dlt_peer_ask(&a, "try job a 60000 5000").status, DLOCK_OK);
    answer = dlt_peer_ask(&far, "try job b 60000 5000");
    cr_assert_eq(answer.status, DLOCK_BUSY);
    cr_assert(answer.holder_ms > 50000 && answer.holder_ms <= 60000, "%lld", answer.holder_ms);
    cr_assert_eq(dlt_peer_ask(&far, "try other c 60000 5000").status, DLOCK_OK);
    answer = dlt_peer_ask(&a, "try other d 60000 5000");
    cr_assert_eq(answer.status, DLOCK_BUSY);
    cr_assert(answer.holder_ms > 50000 && answer.holder_ms <= 60000, "%lld", answer.holder_ms);
    dlt_peer_kill(&far);
}

struct trace {
    int db_writes, sleeps;
};

/* What a peer did after its first answer. */
static struct trace trace_read(const char *file)
{
    struct trace trace = {0};
    char line[2048];
    int opened = 0;
    FILE *f = fopen(file, "r");

    cr_assert_not_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        opened = opened || strstr(line, "write(1, \"OK") != NULL;
        if (!opened || strstr(line, "resumed") != NULL)
            continue;
        trace.db_writes += strstr(line, "pwrite64(") != NULL || strstr(line, "ftruncate(") != NULL;
        trace.sleeps += strstr(line, "FUTEX_WAIT") != NULL;
    }
    (void)fclose(f);
    cr_assert(opened, "strace shows the first answer");
    return trace;
}

Test(peers, a_waiter_writes_nothing_and_wakes_up_for_its_deadline_only)
{
    struct dlt_peer waiter;
    struct trace trace;
    char file[128], wrapper[256];

    both_open();
    (void)snprintf(file, sizeof file, "%s/trace", directory);
    (void)snprintf(wrapper, sizeof wrapper,
                   "strace -f -qq -e trace=pwrite64,ftruncate,write,futex -o %s", file);
    dlt_peer_start(&waiter, wrapper);
    cr_assert_eq(dlt_peer_ask(&a, "try job a 60000 5000").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_ask(&waiter, "open %s normal", path).status, DLOCK_OK);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(dlt_peer_ask(&waiter, "try job b 60000 5000").status, DLOCK_BUSY);
        cr_assert_eq(dlt_peer_ask(&waiter, "watch b 200").status, DLOCK_TIMEOUT);
    }
    dlt_peer_say(&waiter, "close");
    (void)dlt_peer_hear(&waiter);
    dlt_peer_kill(&waiter);
    trace = trace_read(file);
    cr_assert_eq(trace.db_writes, 0);
    cr_assert_eq(trace.sleeps, 4);
}
