/* SPDX-License-Identifier: MIT */
/* The queue among processes: who came first is served first, the dead cost their lease and no more,
 * and nobody is woken for another one's turn. */
#include "peer_kit.h"
#include "store_kit.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define WAITERS    20
#define LEASE_MS   3000  /* of a waiter */
#define REFRESH_MS 1000  /* of those in peer.c */
#define SLOW_MS    20000 /* what a machine that is busy with other things may add */

static char directory[64], path[64], order[96];
static struct dlt_store s;
static struct dlt_request holder;
static struct dlt_peer peers[WAITERS];

static void set_up(void)
{
    dlt_store_directory(directory, path);
    (void)snprintf(order, sizeof order, "%s/order", directory);
    cr_assert_eq(dlt_store_start(&s, path), DLOCK_OK);
    dlt_store_request(&s, &holder, "job", 'h', 120000);
    cr_assert_eq(dlt_store_try(&s, &holder), DLOCK_OK);
}

static void tear_down(void)
{
    for (int i = 0; i < WAITERS; i++)
        dlt_peer_kill(&peers[i]);
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(line, .init = set_up, .fini = tear_down, .timeout = 120);

static void peer_open(struct dlt_peer *peer, const char *wrapper)
{
    struct dlt_answer answer;

    dlt_peer_start(peer, wrapper);
    answer = dlt_peer_ask(peer, "open %s normal", path);
    cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
}

static uint32_t waiters_now(void)
{
    struct dlt_holder now = {.waiters = 0};
    size_t count = 1;

    cr_assert_eq(dlt_store_inspect(&s, "job", &now, &count), DLOCK_OK, "%s", s.err.message);
    return now.waiters;
}

/* The next comes when this one is seen to wait. */
static void line_up(int count)
{
    for (int i = 0; i < count; i++) {
        peer_open(&peers[i], NULL);
        dlt_peer_say(&peers[i], "line %s job %c", order, 'a' + i);
        while (waiters_now() != (uint32_t)i + 1)
            dlt_sleep_ms(2);
    }
}

static void served_in_order(const char *expected)
{
    char text[WAITERS + 2] = "";
    FILE *f = fopen(order, "r");

    cr_assert_not_null(f);
    cr_assert_not_null(fgets(text, sizeof text, f));
    (void)fclose(f);
    cr_assert_str_eq(text, expected);
}

static void peer_done(struct dlt_peer *peer)
{
    struct dlt_answer answer = dlt_peer_hear(peer);

    cr_assert_eq(answer.status, DLOCK_OK, "%s %s", dlock_status_name((int)answer.status),
                 answer.message);
}

Test(line, C13_twenty_processes_are_served_in_the_order_of_arrival)
{
    line_up(WAITERS);
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    for (int i = 0; i < WAITERS; i++)
        peer_done(&peers[i]);
    served_in_order("abcdefghijklmnopqrst");
}

Test(line, C13_the_dead_cost_the_others_a_waiter_lease_each)
{
    static const int dead[] = {0, 4, 5};
    enum { COUNT = 9, DEAD = sizeof dead / sizeof dead[0] };
    int64_t start = 0;

    line_up(COUNT);
    for (int i = 0; i < DEAD; i++)
        dlt_peer_kill(&peers[dead[i]]);
    start = dlt_host_now(&s.host);
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    for (int i = 0; i < COUNT; i++)
        if (peers[i].pid > 0)
            peer_done(&peers[i]);
    served_in_order("bcdghi");
    cr_assert(dlt_host_within(&s.host, start, DEAD * (LEASE_MS + REFRESH_MS) + SLOW_MS), "%s",
              dlt_within_text());
}

Test(line, C13_a_dead_holder_costs_its_ttl)
{
    int64_t start = 0;

    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    peer_open(&peers[2], NULL);
    cr_assert_eq(dlt_peer_ask(&peers[2], "try job z 2000 1000 t").status, DLOCK_OK);
    start = dlt_host_now(&s.host);
    dlt_peer_kill(&peers[2]);
    line_up(2);
    peer_done(&peers[0]);
    peer_done(&peers[1]);
    served_in_order("ab");
    cr_assert(dlt_host_within(&s.host, start, 2000 + REFRESH_MS + SLOW_MS), "%s",
              dlt_within_text());
}

Test(line, DEQ_1_one_that_leaves_lets_the_next_go_first)
{
    for (int i = 0; i < 2; i++)
        peer_open(&peers[i], NULL);
    cr_assert_eq(dlt_peer_ask(&peers[0], "try job a 60000 1000 e").queued, 1);
    cr_assert_eq(dlt_peer_ask(&peers[1], "try job b 60000 1000 e").queued, 1);
    dlt_peer_say(&peers[1], "watch b 60000");
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    cr_assert_not(dlt_peer_answers(&peers[1], 50), "it is not its turn");
    cr_assert_eq(dlt_peer_ask(&peers[0], "quit a").status, DLOCK_OK);
    cr_assert_eq(dlt_peer_hear(&peers[1]).status, DLOCK_OK);
}

/* ---- exclusion ---- */

static void count_file(char *file, size_t size)
{
    FILE *f = NULL;

    (void)snprintf(file, size, "%s/count", directory);
    f = fopen(file, "w");
    cr_assert_not_null(f);
    (void)fputs("0 0\n", f);
    (void)fclose(f);
}

/* Two of them do not queue: they get in when nobody does. */
Test(line, C1_C6_a_race_through_the_queue_loses_no_update_and_fences_rise)
{
    enum { RACERS = 6, TURNS = 100 };
    char file[96], text[64] = "";
    FILE *f = NULL;

    count_file(file, sizeof file);
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    for (int i = 0; i < RACERS; i++)
        peer_open(&peers[i], NULL);
    for (int i = 0; i < RACERS; i++)
        dlt_peer_say(&peers[i], "race %s job %d %s", file, TURNS, i < 4 ? "e" : "-");
    for (int i = 0; i < RACERS; i++)
        peer_done(&peers[i]);
    f = fopen(file, "r");
    cr_assert_not_null(fgets(text, sizeof text, f));
    (void)fclose(f);
    cr_assert_eq(strtol(text, NULL, 10), RACERS * TURNS);
}

Test(line, C1_C12_readers_see_no_change_and_writers_are_alone)
{
    enum { READERS = 4, WRITERS = 2, TURNS = 60 };
    char file[96];

    count_file(file, sizeof file);
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    for (int i = 0; i < READERS + WRITERS; i++)
        peer_open(&peers[i], NULL);
    for (int i = 0; i < READERS; i++)
        dlt_peer_say(&peers[i], "peek %s job %d %s", file, TURNS, i == 0 ? "s" : "se");
    for (int i = READERS; i < READERS + WRITERS; i++)
        dlt_peer_say(&peers[i], "race %s job %d e", file, TURNS);
    for (int i = 0; i < READERS + WRITERS; i++)
        peer_done(&peers[i]);
}

/* ---- no herd ---- */

/* How often the process went to sleep at a futex after its first answer. */
static int sleeps_in(const char *file)
{
    char line[2048];
    int opened = 0, sleeps = 0;
    FILE *f = fopen(file, "r");

    cr_assert_not_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        opened = opened || strstr(line, "write(1, \"OK") != NULL;
        if (opened && strstr(line, "resumed") == NULL)
            sleeps += strstr(line, "FUTEX_WAIT") != NULL;
        /* A process that was stopped, and goes on, sleeps on by the same call. */
        sleeps -= opened && strstr(line, "ERESTARTSYS") != NULL;
    }
    (void)fclose(f);
    cr_assert(opened, "strace shows the first answer");
    return sleeps;
}

Test(line, a_waiter_sleeps_through_the_turns_of_others)
{
    char file[96], wrapper[256];

    (void)snprintf(file, sizeof file, "%s/trace", directory);
    (void)snprintf(wrapper, sizeof wrapper, "strace -f -qq -e trace=write,futex -o %s", file);
    for (int i = 0; i < 3; i++)
        peer_open(&peers[i], i == 2 ? wrapper : NULL);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(dlt_peer_ask(&peers[i], "try job %c 60000 1000 e", 'a' + i).queued, 1);
    dlt_peer_say(&peers[2], "watch c 60000");
    cr_assert_not(dlt_peer_answers(&peers[2], 100));
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dlt_peer_ask(&peers[i], "watch %c 10000", 'a' + i).status, DLOCK_OK);
        cr_assert_eq(dlt_peer_ask(&peers[i], "unlock %c", 'a' + i).status, DLOCK_OK);
    }
    cr_assert_eq(dlt_peer_hear(&peers[2]).status, DLOCK_OK);
    dlt_peer_kill(&peers[2]);
    cr_assert_eq(sleeps_in(file), 1);
}
