/* SPDX-License-Identifier: MIT */
/*
 * Do eight who want the same name all get on, however often they split the votes? Real servers;
 * what is counted is turns, not time (C1, C13).
 */
#include "redlock_kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { CONTENDERS = 8, TURNS = 50, GAP_MOST = 10 * CONTENDERS, ROUNDS = 30 };

static struct dlt_nodes nodes;

static void set_up(void)
{
    dlt_nodes_start(&nodes, 5, false);
}

static void tear_down(void)
{
    dlt_nodes_stop(&nodes);
}

TestSuite(redlock_contend, .init = set_up, .fini = tear_down, .timeout = 200);

/* Seen by all threads, each of which is a client of its own. */
struct crowd {
    pthread_barrier_t gate;
    _Atomic unsigned inside, met, served;
    _Atomic unsigned failed; /* the first status that was not expected */
};

struct contender {
    pthread_t thread;
    struct crowd *crowd;
    struct dlock_client *client;
    struct dlock_handle *lock;
    unsigned gap;  /* the most turns of others between two of its own */
    unsigned wins; /* of rounds */
};

static void expect(struct contender *c, enum dlock_status status)
{
    unsigned none = 0;

    if (status != DLOCK_OK)
        (void)atomic_compare_exchange_strong(&c->crowd->failed, &none, (unsigned)status);
}

static void inside(struct crowd *crowd)
{
    crowd->met += crowd->inside++ > 0;
    (void)usleep(500);
    crowd->inside--;
}

static void *take_turns(void *arg)
{
    struct contender *c = arg;
    unsigned last = 0;

    (void)pthread_barrier_wait(&c->crowd->gate);
    for (unsigned turn = 0; turn < TURNS && c->crowd->failed == 0; turn++) {
        enum dlock_status status = dlock_timedlock(c->lock, 60000, NULL);
        unsigned number = 0;

        expect(c, status);
        if (status != DLOCK_OK)
            break;
        number = c->crowd->served++;
        if (number - last > c->gap)
            c->gap = number - last;
        last = number;
        inside(c->crowd);
        expect(c, dlock_unlock(c->lock, NULL));
    }
    return NULL;
}

/* All at once, and nobody waits for who has it. */
static void *try_together(void *arg)
{
    struct contender *c = arg;

    for (unsigned round = 0; round < ROUNDS; round++) {
        enum dlock_status status = DLOCK_INTERNAL;

        (void)pthread_barrier_wait(&c->crowd->gate);
        status = dlock_trylock(c->lock, NULL);
        if (status == DLOCK_OK) {
            c->wins++;
            inside(c->crowd);
        } else if (status != DLOCK_BUSY) {
            expect(c, status);
        }
        (void)pthread_barrier_wait(&c->crowd->gate);
        if (status == DLOCK_OK)
            expect(c, dlock_unlock(c->lock, NULL));
    }
    return NULL;
}

static void crowd_run(struct crowd *crowd, struct contender *contenders, void *(*run)(void *))
{
    cr_assert_eq(pthread_barrier_init(&crowd->gate, NULL, CONTENDERS), 0);
    for (unsigned i = 0; i < CONTENDERS; i++) {
        struct dlock_options options = {
            .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = 30000};
        struct contender *c = &contenders[i];

        *c = (struct contender){
            .crowd = crowd,
            .client = dlt_nodes_client(&nodes, "node_timeout=2s&op_timeout=10s", false)};
        OK(dlock_new(c->client, "x", 1, &options, &c->lock, &dlt_err));
    }
    for (unsigned i = 0; i < CONTENDERS; i++)
        cr_assert_eq(pthread_create(&contenders[i].thread, NULL, run, &contenders[i]), 0);
    for (unsigned i = 0; i < CONTENDERS; i++)
        (void)pthread_join(contenders[i].thread, NULL);
    for (unsigned i = 0; i < CONTENDERS; i++) {
        dlock_free(contenders[i].lock);
        dlock_client_close(contenders[i].client);
    }
    (void)pthread_barrier_destroy(&crowd->gate);
    cr_expect_eq(crowd->failed, 0u, "%s", dlock_status_name((int)crowd->failed));
    cr_expect_eq(crowd->met, 0u, "C1: %u were inside with another", crowd->met);
}

/* Who waits gets it after a bounded number of others' turns. */
Test(redlock_contend, C13_everybody_gets_a_turn)
{
    struct crowd crowd = {.inside = 0};
    struct contender contenders[CONTENDERS];

    crowd_run(&crowd, contenders, take_turns);
    cr_expect_eq(crowd.served, CONTENDERS * TURNS);
    for (unsigned i = 0; i < CONTENDERS; i++)
        cr_log_info("contender %u waited for %u turns of others at most", i, contenders[i].gap);
    for (unsigned i = 0; i < CONTENDERS; i++)
        cr_expect_leq(contenders[i].gap, GAP_MOST, "contender %u waited for %u turns of others", i,
                      contenders[i].gap);
}

/* A free name that eight ask for at the same moment is had by one of them, as a rule. */
Test(redlock_contend, TRY_1_split_votes_do_not_last)
{
    struct crowd crowd = {.inside = 0};
    struct contender contenders[CONTENDERS];
    unsigned wins = 0;

    crowd_run(&crowd, contenders, try_together);
    for (unsigned i = 0; i < CONTENDERS; i++)
        wins += contenders[i].wins;
    cr_log_info("somebody had it in %u of %u rounds", wins, ROUNDS);
    cr_expect_leq(wins, ROUNDS);
    cr_expect_geq(wins, ROUNDS / 2, "%u of %u", wins, ROUNDS);
}
