/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/guard/guard.c plugins/redis/guard/view.c */
/*
 * FO-1 to FO-12: does a failover, or a slot that moves, make no second holder in a cluster?
 * (guarantees, redis; docs/adr/0040-the-failover-guard-in-a-cluster.md) TAP.
 * usage: test_redis_cluster_guard [CASE...]: all, or these.
 */
#include "cluster_guard_kit.h"

#include <pthread.h>

/* ---- settings ---- */

/* All servers do it. */
static void needs_replicas(int count)
{
    for (unsigned i = 0; i < DLT_CLUSTER_COUNT; i++)
        (void)dlt_redis_ask(&cluster.redis[i], "CONFIG SET min-replicas-to-write %d", count);
}

/* The rights of README.md. */
static void least_rights(void)
{
    for (unsigned i = 0; i < DLT_CLUSTER_COUNT; i++)
        (void)dlt_redis_ask(&cluster.redis[i],
                            "ACL SETUSER %s +cluster|slots +cluster|nodes +asking",
                            DLT_REDIS_LEAST);
}

static void CONFIG_says_what_to_set(void)
{
    struct dlt_session t;

    needs_replicas(0);
    (void)dlt_ok(session_open(&t) == DLOCK_CONFIG &&
                     strstr(t.err.message, "min-replicas-to-write 1 (now 0) in all servers of") !=
                         NULL,
                 "CONFIG: too few replicas confirm: %s", t.err.message);
    dlt_session_option(&t, "failover", "unsafe");
    (void)dlt_ok(dlt_session_open(&t) == DLOCK_OK && (t.info.caps & DLOCK_CAP_FAILOVER_SAFE) == 0,
                 "failover=unsafe goes without");
    dlt_session_close(&t);
    needs_replicas(1);
    least_rights();
    session_begin(&t);
    t.target.user = t.target.password = DLT_REDIS_LEAST;
    (void)dlt_ok(dlt_session_open(&t) == DLOCK_CONFIG &&
                     strstr(t.err.message, "cluster-node-timeout") != NULL,
                 "CONFIG: a user who may not read D: %s", t.err.message);
    dlt_session_option(&t, "failover_guard", "4000");
    (void)dlt_ok(dlt_session_open(&t) == DLOCK_OK && (t.info.caps & DLOCK_CAP_FAILOVER_SAFE) == 0,
                 "failover_guard= says it, and promises nothing: %s", t.err.message);
    dlt_session_close(&t);
}

static void D_is_the_node_timeout_and_a_second(void)
{
    struct dlt_session t;
    struct dlt_request request;
    char name[16];
    enum dlock_status status = DLOCK_UNAVAILABLE;
    int64_t until = now_ms() + SLACK_MS;

    session_begin(&t);
    (void)dlt_ok(dlt_session_open(&t) == DLOCK_OK && (t.info.caps & DLOCK_CAP_FAILOVER_SAFE) != 0,
                 "FAILOVER_SAFE is announced: %s", t.err.message);
    for (unsigned node = 0; node < DLT_CLUSTER_MASTERS; node++) /* a master that no session asked */
        if (*dlt_redis_ask(&cluster.redis[node], "KEYS dl:!*") == '\0')
            name_at(node, 0, name);
    dlt_request(&t, &request, name, 'a', T_MS);
    while (status != DLOCK_BUSY && status != DLOCK_OK && now_ms() < until)
        status = dlt_try(&t, &request);
    (void)dlt_ok(status == DLOCK_BUSY && t.grant.holder_ms > T_MS + D_MS &&
                     t.grant.holder_ms <= T_MS + NODE_MS + 1000,
                 "D is the node timeout and a second: %d, %lld ms", (int)status,
                 (long long)t.grant.holder_ms);
    dlt_session_close(&t);
}

/* ---- a failover ---- */

/* Of the shard with this slot. Returns the new master. */
static unsigned fail_over(unsigned node, unsigned slot, const char *how)
{
    unsigned replica = (node + DLT_CLUSTER_MASTERS) % DLT_CLUSTER_COUNT;

    (void)dlt_ok(dlt_cluster_failover(&cluster, replica, how) &&
                     dlt_cluster_master_wait(&cluster, slot, (int)node) == (int)replica,
                 "the replica is the master now (%s)", how);
    return replica;
}

static void F1_F2_a_promoted_master_says_yours_after_D_and_S_and_grants_after_T_and_D(void)
{
    unsigned node = master_of("one");
    int64_t promoted = 0;
    uint64_t fence = 0;

    shard_begin(node);
    fence = s.grant.fence;
    (void)dlt_redis_ask(&cluster.redis[node], "WAIT 1 5000");
    promoted = now_ms();
    (void)fail_over(node, slot_of(held_name), "FORCE");
    (void)dlt_ok(dlt_try(&s, &fresh) != DLOCK_OK, "F1 nothing is granted at once");
    (void)dlt_ok(wait_for(DLOCK_OK, dlt_renew, &held, "a renewal") - promoted >= D_MS + S_MS,
                 "F2 yours after D + S: %s", s.err.message);
    (void)dlt_ok(wait_for(DLOCK_OK, dlt_try, &fresh, "a grant") - promoted >= T_MS + D_MS &&
                     s.grant.fence > fence,
                 "F1 a grant after T + D, F8 with a greater fence");
    (void)dlt_unlock(&s, &fresh);
    shard_end();
    (void)dlt_ok(dlt_cluster_whole_wait(&cluster), "the cluster is whole");
}

static void *renew_run(void *arg)
{
    *(enum dlock_status *)arg = dlt_renew(&s, &held);
    return NULL;
}

/* The request waits in the socket of the master while another one is promoted. */
static void F3_a_master_that_stood_still_executes_nothing_of_what_waited(void)
{
    unsigned node = master_of("two"), slot = slot_of("two");
    enum dlock_status status = DLOCK_INTERNAL;
    pthread_t thread;
    int64_t promoted = 0;

    shard_begin(node);
    s.call_ms = 30000;
    needs_replicas(0);  /* the server would allow it */
    dlt_sleep_ms(1100); /* then the next request looks */
    (void)wait_for(DLOCK_OK, dlt_renew, &held, "a renewal");
    dlt_redis_pause(&cluster.redis[node], true);
    if (pthread_create(&thread, NULL, renew_run, &status) != 0)
        abort();
    dlt_sleep_ms(200);
    promoted = now_ms();
    (void)fail_over(node, slot, "FORCE");
    while (now_ms() - promoted < D_MS + 1000)
        dlt_sleep_ms(50);
    dlt_redis_pause(&cluster.redis[node], false);
    (void)pthread_join(thread, NULL);
    (void)dlt_ok(status != DLOCK_OK, "F3 what waited is refused: %d: %s", (int)status,
                 s.err.message);
    s.call_ms = 5000;
    (void)dlt_ok(dlt_cluster_whole_wait(&cluster), "the cluster is whole");
    needs_replicas(1);
    shard_end();
}

/* ---- a slot that moves ---- */

static bool slot_moves(unsigned slot, unsigned from, unsigned to)
{
    bool moved = dlt_cluster_slot_open(&cluster, slot, from, to) &&
                 dlt_cluster_slot_keys(&cluster, slot, from, to) &&
                 dlt_cluster_slot_give(&cluster, slot, from, to);

    if (moved)
        (void)dlt_cluster_master_wait(&cluster, slot, (int)from);
    return dlt_ok(moved, "the slot %u moves from %u to %u %s", slot, from, to, cluster.why);
}

/* After a look at `to`, so that the next request there needs none. Its guard is over. */
static void look_at(unsigned to)
{
    struct dlt_request request;
    char name[16];

    name_at(to, 0, name);
    dlt_sleep_ms(1100);
    dlt_request(&s, &request, name, 'x', T_MS);
    (void)wait_for(DLOCK_OK, dlt_try, &request, "a lock at the other master");
    (void)dlt_unlock(&s, &request);
}

/* The next master granted long ago; the one before was promoted a moment ago. */
static void FO_12_a_slot_that_moves_has_a_guard_of_its_own(void)
{
    unsigned node = master_of("one"), to = master_of("three"), slot = 0;
    int64_t moved = 0;

    shard_begin(node);
    slot = slot_of(held_name);
    (void)dlt_redis_ask(&cluster.redis[node], "WAIT 1 5000");
    node = fail_over(node, slot, "FORCE");
    look_at(to);
    moved = now_ms();
    (void)slot_moves(slot, node, to);
    (void)dlt_ok(wait_for(DLOCK_OK, dlt_renew, &held, "a renewal") - moved >= D_MS + S_MS,
                 "FO-12 yours after D + S");
    (void)wait_for(DLOCK_OK, dlt_unlock, &held, "an unlock");
    (void)dlt_ok(wait_for(DLOCK_OK, dlt_try, &held, "a grant") - moved >= T_MS + D_MS,
                 "FO-12 a grant after T + D");
    (void)wait_for(DLOCK_OK, dlt_unlock, &held, "an unlock");
    (void)slot_moves(slot, to, node);
    (void)dlt_ok(dlt_cluster_whole_wait(&cluster), "the cluster is whole");
}

/* The look of a moment before has not seen it. */
static void FO_12_a_look_of_before_knows_nothing_of_the_slot(void)
{
    unsigned node = master_of("one"), to = master_of("three"), slot = 0;
    int64_t moved = 0, granted = 0;

    shard_begin(node);
    slot = slot_of(fresh_name);
    (void)slot_moves(slot, node, to);
    (void)wait_for(DLOCK_OK, dlt_try, &fresh, "a grant"); /* now the client knows the way */
    (void)wait_for(DLOCK_OK, dlt_unlock, &fresh, "an unlock");
    (void)slot_moves(slot, to, node);
    for (int i = 0; i < 3; i++) {
        look_at(to);
        moved = now_ms();
        (void)slot_moves(slot, i % 2 == 0 ? node : to, i % 2 == 0 ? to : node);
        granted = wait_for(DLOCK_OK, dlt_try, &fresh, "a grant");
        (void)dlt_ok(granted - moved >= T_MS + D_MS, "FO-12 a grant after T + D: %lld ms",
                     (long long)(granted - moved));
        (void)wait_for(DLOCK_OK, dlt_unlock, &fresh, "an unlock");
    }
    (void)slot_moves(slot, to, node);
    shard_end();
}

/* Keys of the slot are at two servers; the next one has not got it yet. */
static void FO_12_nothing_is_granted_while_the_slot_moves(void)
{
    unsigned node = master_of("one"), to = master_of("three"), slot = 0, granted = 0;
    int64_t opened = 0;

    shard_begin(node);
    slot = slot_of(fresh_name);
    look_at(to);
    opened = now_ms();
    (void)dlt_ok(dlt_cluster_slot_open(&cluster, slot, node, to), "a slot begins to move");
    while (now_ms() - opened < T_MS + D_MS + 1000) {
        granted += dlt_try(&s, &fresh) == DLOCK_OK;
        dlt_sleep_ms(50);
    }
    (void)dlt_ok(granted == 0, "FO-12 the next server grants nothing: %s", s.err.message);
    (void)dlt_cluster_slot_keys(&cluster, slot, node, to);
    (void)dlt_ok(dlt_cluster_slot_give(&cluster, slot, node, to), "the slot has moved");
    (void)wait_for(DLOCK_OK, dlt_try, &fresh, "a grant");
    (void)wait_for(DLOCK_OK, dlt_unlock, &fresh, "an unlock");
    (void)slot_moves(slot, to, node);
    shard_end();
}

/* All keys of a held name are at the next server, also the readers and the queue, so that it could
 * execute the renewal. */
static void FO_12_nothing_is_renewed_while_the_slot_moves(void)
{
    unsigned node = master_of("one"), to = master_of("three"), slot = 0, renewed = 0;
    int64_t opened = 0;

    shard_begin(node);
    slot = slot_of(fresh_name);
    (void)wait_for(DLOCK_OK, dlt_try, &fresh, "a lock");
    (void)dlt_redis_ask(&cluster.redis[node], "PEXPIRE dl:{%s} 120000", fresh_name);
    (void)dlt_redis_ask(&cluster.redis[node], "ZADD dl:{%s}:r 1 reader", fresh_name);
    (void)dlt_redis_ask(&cluster.redis[node], "ZADD dl:{%s}:q 1 waiter", fresh_name);
    (void)dlt_redis_ask(&cluster.redis[node], "HSET dl:{%s}:w n 1", fresh_name);
    (void)dlt_ok(dlt_cluster_slot_open(&cluster, slot, node, to) &&
                     dlt_cluster_slot_keys(&cluster, slot, node, to),
                 "the keys are at the next server");
    look_at(to);
    opened = now_ms();
    while (now_ms() - opened < D_MS + S_MS + 1000) {
        renewed += dlt_renew(&s, &fresh) == DLOCK_OK;
        dlt_sleep_ms(50);
    }
    (void)dlt_ok(renewed == 0, "FO-12 the next server says \"yours\" to nobody: %s", s.err.message);
    (void)dlt_ok(dlt_cluster_slot_give(&cluster, slot, node, to), "the slot has moved");
    (void)wait_for(DLOCK_OK, dlt_renew, &fresh, "a renewal");
    (void)wait_for(DLOCK_OK, dlt_unlock, &fresh, "an unlock");
    (void)slot_moves(slot, to, node);
    shard_end();
}

/* Renews all in one call. Returns how many beside the first are renewed. */
static unsigned renew_all(struct dlt_request *const requests[3], enum dlock_status *first)
{
    struct dlock_lease_op ops[3], *all[3];
    struct dlock_error err = DLOCK_ERROR_INIT;

    for (int i = 0; i < 3; i++) {
        ops[i] = (struct dlock_lease_op){.req = dlt_due(&s, requests[i], 5000),
                                         .status = DLOCK_INTERNAL};
        all[i] = &ops[i];
    }
    (void)s.ops->renew(s.self, all, 3, dlt_due(&s, requests[0], 5000)->deadline_ns, &err);
    printf("# %d, %d, %d: %s\n", (int)ops[0].status, (int)ops[1].status, (int)ops[2].status,
           err.message);
    *first = ops[0].status;
    return (unsigned)(ops[1].status == DLOCK_OK) + (ops[2].status == DLOCK_OK);
}

/* Three names of one master, the first of which moves just now. */
static void C5_a_name_that_moves_delays_no_renewal_of_others(void)
{
    unsigned node = master_of("one"), to = master_of("three"), slot = 0, renewed = 0;
    struct dlt_request *const requests[] = {&fresh, &held, &other};
    enum dlock_status first = DLOCK_INTERNAL;

    shard_begin(node);
    slot = slot_of(fresh_name);
    (void)wait_for(DLOCK_OK, dlt_try, &fresh, "a lock");
    (void)wait_for(DLOCK_OK, dlt_try, &other, "a lock");
    (void)dlt_redis_ask(&cluster.redis[node], "PEXPIRE dl:{%s} 120000", other_name);
    (void)dlt_ok(dlt_cluster_slot_open(&cluster, slot, node, to) &&
                     dlt_cluster_slot_keys(&cluster, slot, node, to),
                 "the keys of the first name are at the other server");
    for (int i = 0; i < 20 && renewed < 2; i++) /* the replicas of a busy machine confirm late */
        renewed = renew_all(requests, &first);
    (void)dlt_ok(first == DLOCK_UNAVAILABLE && renewed == 2, "C5 the others are renewed");
    (void)dlt_ok(dlt_cluster_slot_give(&cluster, slot, node, to), "the slot has moved");
    (void)slot_moves(slot, to, node);
    (void)dlt_unlock(&s, &fresh);
    (void)dlt_unlock(&s, &other);
    shard_end();
}

/* Three names of one master, the first of which is in a slot that has a guard of its own there. */
static void C5_a_slot_that_came_delays_no_renewal_of_others(void)
{
    unsigned node = master_of("one"), to = master_of("three"), slot = 0, renewed = 0;
    struct dlt_request came, *const requests[] = {&came, &held, &other};
    enum dlock_status first = DLOCK_INTERNAL;
    char name[16];

    name_at(node, 100000, name);
    slot = slot_of(name);
    dlt_request(&s, &came, name, 'd', T_MS);
    (void)wait_for(DLOCK_OK, dlt_try, &came, "a lock");
    (void)dlt_redis_ask(&cluster.redis[node], "PEXPIRE dl:{%s} 120000", name);
    shard_begin(to);
    (void)wait_for(DLOCK_OK, dlt_try, &other, "a lock");
    (void)dlt_redis_ask(&cluster.redis[to], "PEXPIRE dl:{%s} 120000", other_name);
    (void)slot_moves(slot, node, to);
    (void)dlt_ok(dlt_renew(&s, &came) == DLOCK_UNAVAILABLE, "the client knows the way: %s",
                 s.err.message);
    (void)wait_for(DLOCK_OK, dlt_renew, &held, "a renewal");
    renewed = renew_all(requests, &first);
    (void)dlt_ok(first == DLOCK_UNAVAILABLE && renewed == 2, "C5 the others are renewed");
    (void)wait_for(DLOCK_OK, dlt_renew, &came, "a renewal");
    (void)wait_for(DLOCK_OK, dlt_unlock, &came, "an unlock");
    (void)dlt_unlock(&s, &other);
    shard_end();
    (void)slot_moves(slot, to, node);
}

/* For longer than a look counts, so that the set of slots is the same in both looks. */
static void FO_12_a_slot_that_went_away_and_came_back_unseen(void)
{
    unsigned node = master_of("one"), to = master_of("three"), slot = 0;
    int64_t back = 0;

    shard_begin(node);
    slot = slot_of(fresh_name);
    shard_end();
    dlt_sleep_ms(D_MS / 2 + 300);
    (void)slot_moves(slot, node, to);
    back = now_ms();
    (void)slot_moves(slot, to, node);
    (void)dlt_ok(wait_for(DLOCK_OK, dlt_try, &fresh, "a grant") - back >= T_MS + D_MS,
                 "FO-12 a grant after T + D");
    (void)wait_for(DLOCK_OK, dlt_unlock, &fresh, "an unlock");
}

/* The keys were at a server that is gone: SETSLOT STABLE gives the slot back without them. */
static void FO_12_a_move_that_is_taken_back_has_lost_the_keys(void)
{
    unsigned node = master_of("one"), to = master_of("three"), slot = 0;
    int64_t back = 0;

    shard_begin(node);
    slot = slot_of(fresh_name);
    (void)wait_for(DLOCK_OK, dlt_try, &fresh, "a lock");
    (void)dlt_ok(dlt_cluster_slot_open(&cluster, slot, node, to) &&
                     dlt_cluster_slot_keys(&cluster, slot, node, to),
                 "the keys are at the next server");
    dlt_sleep_ms(1100); /* then the next request looks */
    (void)wait_for(DLOCK_OK, dlt_renew, &held, "a renewal of another name");
    back = now_ms();
    (void)dlt_ok(dlt_cluster_slot_stay(&cluster, slot, node, to), "the move is taken back");
    dlt_request(&s, &fresh, fresh_name, 'z', T_MS);
    (void)dlt_ok(wait_for(DLOCK_OK, dlt_try, &fresh, "a grant to another client") - back >=
                     T_MS + D_MS - 1000,
                 "FO-12 not before T + D after the last look at the slot that left");
    (void)wait_for(DLOCK_OK, dlt_unlock, &fresh, "an unlock");
    shard_end();
}

/* The slot of the record goes to another server; the record begins anew in another slot. */
static void FO_5_a_record_whose_slot_moves_begins_anew(void)
{
    unsigned node = master_of("one"), to = master_of("three"), slot = 0;
    char key[64] = "";
    int64_t moved = 0;

    shard_begin(node);
    (void)snprintf(key, sizeof key, "%s", dlt_redis_ask(&cluster.redis[node], "KEYS dl:!*}"));
    key[strcspn(key, "\n")] = '\0';
    slot = dlt_cluster_slot(&cluster, key);
    (void)dlt_ok(dlt_cluster_master(&cluster, slot) == (int)node, "the record is at its server: %s",
                 key);
    moved = now_ms();
    (void)slot_moves(slot, node, to);
    dlt_sleep_ms(1100); /* then the next request looks */
    (void)dlt_ok(wait_for(DLOCK_OK, dlt_renew, &held, "a renewal") - moved >= D_MS + S_MS,
                 "FO-5 what is held is renewed again, after D + S");
    (void)dlt_ok(wait_for(DLOCK_OK, dlt_try, &fresh, "a grant") - moved >= T_MS + D_MS,
                 "FO-5 and locks are granted again, after T + D");
    (void)wait_for(DLOCK_OK, dlt_unlock, &fresh, "an unlock");
    (void)slot_moves(slot, to, node);
    shard_end();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
#define CASE(name)  \
    {               \
#name, name \
    }
    CASE(D_is_the_node_timeout_and_a_second),
    CASE(CONFIG_says_what_to_set),
    CASE(F1_F2_a_promoted_master_says_yours_after_D_and_S_and_grants_after_T_and_D),
    CASE(F3_a_master_that_stood_still_executes_nothing_of_what_waited),
    CASE(FO_12_a_slot_that_moves_has_a_guard_of_its_own),
    CASE(FO_12_a_look_of_before_knows_nothing_of_the_slot),
    CASE(FO_12_nothing_is_granted_while_the_slot_moves),
    CASE(FO_12_nothing_is_renewed_while_the_slot_moves),
    CASE(C5_a_name_that_moves_delays_no_renewal_of_others),
    CASE(C5_a_slot_that_came_delays_no_renewal_of_others),
    CASE(FO_12_a_slot_that_went_away_and_came_back_unseen),
    CASE(FO_12_a_move_that_is_taken_back_has_lost_the_keys),
    CASE(FO_5_a_record_whose_slot_moves_begins_anew),
};

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc == 1;
}

int main(int argc, char **argv)
{
    const char *const args[] = {"--cluster-node-timeout",
                                "5000",
                                "--min-replicas-to-write",
                                "1",
                                "--cluster-require-full-coverage",
                                "no",
                                NULL};

    if (!dlt_ok(dlt_cluster_start(&cluster, args), "a cluster: %s", cluster.why))
        return dlt_done();
    if (dlt_ok(session_open(&s) == DLOCK_OK && (s.info.caps & DLOCK_CAP_FAILOVER_SAFE) != 0,
               "a session with FAILOVER_SAFE: %s", s.err.message)) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            if (!is_wanted(cases[i].name, argc, argv))
                continue;
            printf("# %s\n", cases[i].name);
            cases[i].run();
        }
    }
    dlt_session_close(&s);
    dlt_cluster_stop(&cluster);
    return dlt_done();
}
