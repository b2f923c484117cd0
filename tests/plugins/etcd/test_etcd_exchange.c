/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/exchange.c plugins/etcd/endpoints.c */
/* What is sent again, and what never; which member is asked. Channels are made up: the test says
 * how each call ends. The clock stands still. */
#include "exchange.h"
#include "fake_host.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* ---- channels that do what the test says ---- */

struct etcd_channel {
    bool dead, freed;
};

/* How one call ends, in the order of sending. */
struct script {
    enum etcd_method method; /* that is expected */
    enum etcd_end end;
    int grpc_status;
    const char *text;
    bool message; /* an answer comes, too */
};

static struct etcd_channel channels[32];
static size_t made; /* channels */
static const struct script *script;
static size_t sent;                              /* calls */
static size_t exchanges_seen[8], exchange_count; /* calls of each */
static enum dlock_status refusals[32];           /* of connection attempts; OK: connected */
static int refusal_code;
static size_t attempts, asked[32]; /* members */
static int64_t due_ns[32];         /* deadlines of attempts */
static int64_t takes_ns;           /* how long a refused attempt takes; -1: all it has */
static struct dlt_host host;
static struct etcd_config config;
static struct etcd_endpoints endpoints;
static struct dlock_error err;

enum dlock_status etcd_connect(struct etcd_cluster *of, size_t index, int64_t deadline_ns,
                               struct etcd_channel **out, struct etcd_member *member,
                               struct dlock_error *failure)
{
    size_t attempt = attempts++;

    (void)of;
    asked[attempt] = index;
    due_ns[attempt] = deadline_ns - dlt_host_now(&host);
    (void)snprintf(member->endpoint, sizeof member->endpoint, "m%zu", index);
    member->cluster_id = 1;
    if (refusals[attempt] == DLOCK_OK) {
        *out = &channels[made++];
        return DLOCK_OK;
    }
    host.now_ns += takes_ns >= 0 ? takes_ns : due_ns[attempt];
    return dlock_fail(failure, "etcd", refusals[attempt], refusal_code, "m%zu: refused %zu", index,
                      attempt);
}

void etcd_channel_free(struct etcd_channel *channel)
{
    cr_assert(!channel->freed);
    channel->freed = true;
}

void etcd_channel_after_fork(struct etcd_channel *channel)
{
    channel->dead = true;
}

bool etcd_channel_dead(const struct etcd_channel *channel)
{
    return channel->dead;
}

void etcd_channel_retire(struct etcd_channel *channel)
{
    channel->dead = true;
}

static unsigned char txn_term = 3; /* of the leader that answers transactions */

/* A lease of 7 s in term 3, and a transaction that did nothing, at revision 5. */
static void answer(struct etcd_call *call, enum etcd_method method)
{
    static const unsigned char kept[] = {0x0a, 4, 0x18, 5, 0x20, 3, 0x10, 1, 0x18, 7};
    const unsigned char done[] = {0x0a, 4, 0x18, 5, 0x20, txn_term};

    if (method == ETCD_LEASE_KEEP_ALIVE)
        cr_assert(call->on_message(call, kept, sizeof kept));
    else
        cr_assert(call->on_message(call, done, sizeof done));
}

void etcd_channel_run(struct etcd_channel *channel, struct etcd_call *const *calls, size_t n,
                      int64_t deadline_ns)
{
    cr_assert(!channel->freed && !channel->dead);
    cr_assert_gt(deadline_ns, dlt_host_now(&host));
    exchanges_seen[exchange_count++] = n;
    for (size_t i = 0; i < n; i++) {
        const struct script *at = &script[sent++];
        struct etcd_rpc *rpc = (struct etcd_rpc *)(void *)calls[i];

        cr_assert_eq(rpc->method, at->method, "call %zu", sent - 1);
        cr_assert_eq(calls[i]->end, ETCD_OPEN);
        cr_assert_eq(rpc->count, 0);
        if (at->message)
            answer(calls[i], at->method);
        calls[i]->end = at->end;
        calls[i]->grpc_status = at->grpc_status;
        (void)snprintf(calls[i]->text, sizeof calls[i]->text, "%s",
                       at->text != NULL ? at->text : "");
        if (at->end == ETCD_UNSENT || at->end == ETCD_CUT)
            channel->dead = true;
    }
}

static void set_up(void)
{
    memset(channels, 0, sizeof channels);
    memset(refusals, 0, sizeof refusals);
    memset(&endpoints, 0, sizeof endpoints);
    made = sent = exchange_count = attempts = 0;
    refusal_code = 0;
    takes_ns = 0;
    config = (struct etcd_config){.count = 1};
    dlt_host_init(&host);
    cr_assert(etcd_endpoints_init(&endpoints, &config, &host.table, NULL));
}

static void tear_down(void)
{
    etcd_endpoints_fini(&endpoints);
    for (size_t i = 0; i < made; i++)
        cr_assert(channels[i].freed, "channel %zu", i);
}

TestSuite(exchange, .init = set_up, .fini = tear_down);

#define CALLS_MAX 3

static enum dlock_status each[CALLS_MAX];

/* A exchange of calls of these methods. */
static enum dlock_status fly(const struct script *with, size_t n, const enum etcd_method *methods,
                             bool writes)
{
    struct etcd_rpc rpcs[CALLS_MAX];
    struct etcd_rpc *pointers[CALLS_MAX];
    Pb__Empty request = PB__EMPTY__INIT;
    enum dlock_status status = DLOCK_INTERNAL;

    script = with;
    for (size_t i = 0; i < n; i++) {
        etcd_rpc_init(&rpcs[i], methods[i], 1);
        cr_assert(etcd_rpc_add(&rpcs[i], &request.base));
        pointers[i] = &rpcs[i];
    }
    err = (struct dlock_error)DLOCK_ERROR_INIT;
    status = etcd_exchange(&endpoints, pointers, n, writes, dlt_host_in(&host, 900), each, &err);
    cr_assert(status == DLOCK_OK || (err.status == status && err.message[0] != '\0'));
    for (size_t i = 0; i < n; i++)
        etcd_rpc_fini(&rpcs[i]);
    return status;
}

static const enum etcd_method txn[] = {ETCD_TXN};
static const enum etcd_method kept_txn[] = {ETCD_LEASE_KEEP_ALIVE, ETCD_TXN};

Test(exchange, one_connection_serves_all)
{
    static const struct script good[] = {{ETCD_TXN, ETCD_ANSWERED, 0, "", true},
                                         {ETCD_LEASE_KEEP_ALIVE, ETCD_ANSWERED, 0, "", true},
                                         {ETCD_TXN, ETCD_ANSWERED, 0, "", true}};

    cr_assert_eq(fly(good, 1, txn, true), DLOCK_OK, "%s", err.message);
    cr_assert_eq(fly(good, 2, kept_txn, true), DLOCK_OK, "%s", err.message);
    cr_assert_eq(attempts, 1);
    cr_assert_eq(exchange_count, 2);
    cr_assert_eq(exchanges_seen[1], 2);
    cr_assert_eq(endpoints.cluster.revision, 5);
    cr_assert_eq(fly(NULL, 0, txn, true), DLOCK_OK);
}

/* The former leader keeps a lease alive that the present one ends. */
Test(exchange, TRY_2_a_KeepAlive_of_an_earlier_term_counts_for_nothing)
{
    static const struct script stale[] = {{ETCD_LEASE_KEEP_ALIVE, ETCD_ANSWERED, 0, "", true},
                                          {ETCD_TXN, ETCD_ANSWERED, 0, "", true}};

    txn_term = 4;
    cr_assert_eq(fly(stale, 2, kept_txn, true), DLOCK_UNAVAILABLE);
    cr_assert_eq(each[0], DLOCK_UNAVAILABLE);
    cr_assert_eq(each[1], DLOCK_OK);
    cr_assert_not_null(strstr(err.message, "the leader changed"), "%s", err.message);
}

Test(exchange, TRY_4_a_call_that_was_not_sent_is_sent_on_another_connection)
{
    static const struct script unsent[] = {{ETCD_TXN, ETCD_UNSENT, 0, "gone", false},
                                           {ETCD_TXN, ETCD_ANSWERED, 0, "", true}};
    static const struct script twice[] = {{ETCD_TXN, ETCD_UNSENT, 0, "gone", false},
                                          {ETCD_TXN, ETCD_UNSENT, 0, "gone again", false}};

    cr_assert_eq(fly(unsent, 1, txn, true), DLOCK_OK, "%s", err.message);
    cr_assert_eq(made, 2);
    cr_assert(channels[0].freed);
    sent = 0;
    cr_assert_eq(fly(twice, 1, txn, true), DLOCK_UNAVAILABLE);
    cr_assert_str_eq(err.message, "m0: gone again");
    cr_assert_eq(sent, 2);
}

Test(exchange, TRY_4_a_write_without_an_answer_is_UNKNOWN_and_not_sent_again)
{
    static const struct script cut[] = {{ETCD_TXN, ETCD_CUT, 0, "no answer in time", false}};
    static const struct script stopped[] = {
        {ETCD_TXN, ETCD_ANSWERED, 14, "etcdserver: server stopped", false}};

    cr_assert_eq(fly(cut, 1, txn, true), DLOCK_UNKNOWN);
    cr_assert_eq(sent, 1);
    cr_assert_eq(each[0], DLOCK_UNKNOWN);
    sent = 0;
    cr_assert_eq(fly(stopped, 1, txn, true), DLOCK_UNKNOWN);
    cr_assert_eq(sent, 1);
    cr_assert_eq(err.code, 14);
    cr_assert(channels[1].dead, "the member stops");
}

Test(exchange, TRY_4_an_answer_that_makes_no_sense_is_not_asked_for_again)
{
    static const struct script foreign[] = {{ETCD_TXN, ETCD_FOREIGN, 0, "what?", false}};
    static const struct script empty[] = {{ETCD_TXN, ETCD_ANSWERED, 0, "", false}};

    cr_assert_eq(fly(foreign, 1, txn, true), DLOCK_PROTOCOL);
    cr_assert_eq(sent, 1);
    sent = 0;
    cr_assert_eq(fly(empty, 1, txn, true), DLOCK_PROTOCOL);
    cr_assert_eq(sent, 1);
}

Test(exchange, nothing_is_sent_again_while_a_write_of_the_exchange_is_in_doubt)
{
    static const struct script cut[] = {{ETCD_LEASE_KEEP_ALIVE, ETCD_UNSENT, 0, "", false},
                                        {ETCD_TXN, ETCD_CUT, 0, "cut", false}};

    cr_assert_eq(fly(cut, 2, kept_txn, true), DLOCK_UNKNOWN);
    cr_assert_eq(sent, 2);
    cr_assert_eq(each[0], DLOCK_UNAVAILABLE);
    cr_assert_eq(each[1], DLOCK_UNKNOWN);
    cr_assert_str_eq(err.message, "m0: cut");
}

Test(exchange, a_lost_KeepAlive_leaves_the_transaction_definite)
{
    static const struct script again[] = {{ETCD_LEASE_KEEP_ALIVE, ETCD_CUT, 0, "cut", false},
                                          {ETCD_TXN, ETCD_ANSWERED, 0, "", true},
                                          {ETCD_LEASE_KEEP_ALIVE, ETCD_ANSWERED, 0, "", true}};
    static const struct script lost[] = {{ETCD_LEASE_KEEP_ALIVE, ETCD_CUT, 0, "cut", false},
                                         {ETCD_TXN, ETCD_ANSWERED, 0, "", true},
                                         {ETCD_LEASE_KEEP_ALIVE, ETCD_CUT, 0, "cut", false}};

    cr_assert_eq(fly(again, 2, kept_txn, true), DLOCK_OK, "%s", err.message);
    cr_assert_eq(exchanges_seen[0], 2);
    cr_assert_eq(exchanges_seen[1], 1);
    sent = 0;
    cr_assert_eq(fly(lost, 2, kept_txn, true), DLOCK_UNAVAILABLE);
    cr_assert_eq(each[0], DLOCK_UNAVAILABLE);
    cr_assert_eq(each[1], DLOCK_OK);
}

Test(exchange, what_was_answered_is_not_sent_again)
{
    static const struct script refused[] = {{ETCD_LEASE_KEEP_ALIVE, ETCD_ANSWERED, 0, "", true},
                                            {ETCD_TXN, ETCD_UNSENT, 0, "refused stream", false},
                                            {ETCD_TXN, ETCD_ANSWERED, 0, "", true}};

    cr_assert_eq(fly(refused, 2, kept_txn, true), DLOCK_OK, "%s", err.message);
    cr_assert_eq(sent, 3);
}

Test(exchange, calls_that_change_nothing_are_sent_again)
{
    static const enum etcd_method range[] = {ETCD_RANGE};
    static const struct script cut[] = {{ETCD_RANGE, ETCD_CUT, 0, "cut", false},
                                        {ETCD_RANGE, ETCD_ANSWERED, 0, "", true}};
    static const struct script timed_out[] = {
        {ETCD_TXN, ETCD_ANSWERED, 14, "etcdserver: request timed out", false},
        {ETCD_TXN, ETCD_CUT, 0, "cut", false}};

    cr_assert_eq(fly(cut, 1, range, true), DLOCK_OK, "%s", err.message);
    sent = 0;
    cr_assert_eq(fly(timed_out, 1, txn, false), DLOCK_UNAVAILABLE, "a transaction that reads");
    cr_assert_eq(sent, 2);
}

Test(exchange, a_member_without_a_leader_is_left)
{
    static const struct script no_leader[] = {
        {ETCD_TXN, ETCD_ANSWERED, 14, "etcdserver: no leader", false},
        {ETCD_TXN, ETCD_ANSWERED, 0, "", true}};

    config.count = 3;
    cr_assert_eq(fly(no_leader, 1, txn, true), DLOCK_OK, "%s", err.message);
    cr_assert_eq(asked[0], 0);
    cr_assert_eq(asked[1], 1);
}

Test(exchange, C14_an_old_token_is_replaced_if_there_is_a_user)
{
    static const struct script old[] = {
        {ETCD_TXN, ETCD_ANSWERED, 16, "etcdserver: invalid auth token", false},
        {ETCD_TXN, ETCD_ANSWERED, 0, "", true}};

    config.user = "u";
    cr_assert_eq(fly(old, 1, txn, true), DLOCK_OK, "%s", err.message);
    cr_assert_eq(made, 2);
    config.user = NULL;
    sent = 0;
    cr_assert_eq(fly(old, 1, txn, true), DLOCK_AUTH);
    cr_assert_eq(made, 2);
    cr_assert_eq(sent, 1);
    cr_assert(strstr(err.message, "want a login") != NULL, "%s", err.message);
}

Test(exchange, definite_refusals_leave_the_connection)
{
    static const struct script lost[] = {
        {ETCD_LEASE_KEEP_ALIVE, ETCD_ANSWERED, 0, "", true},
        {ETCD_TXN, ETCD_ANSWERED, 5, "etcdserver: requested lease not found", false}};
    static const struct script denied[] = {
        {ETCD_TXN, ETCD_ANSWERED, 7, "etcdserver: permission denied", false}};
    static const struct script memory[] = {{ETCD_TXN, ETCD_NO_MEMORY, 0, "no memory", false}};

    cr_assert_eq(fly(lost, 2, kept_txn, true), DLOCK_LOST);
    cr_assert_eq(each[0], DLOCK_OK);
    cr_assert_eq(each[1], DLOCK_LOST);
    sent = 0;
    cr_assert_eq(fly(denied, 1, txn, true), DLOCK_AUTH);
    sent = 0;
    cr_assert_eq(fly(memory, 1, txn, true), DLOCK_NOMEM);
    cr_assert_eq(made, 1);
}

/* ---- members ---- */

Test(exchange, no_member)
{
    static const struct script gone[] = {{ETCD_TXN, ETCD_UNSENT, 0, "gone", false}};

    refusals[0] = DLOCK_UNAVAILABLE;
    cr_assert_eq(fly(NULL, 1, txn, true), DLOCK_UNAVAILABLE);
    cr_assert_str_eq(err.message, "m0: refused 0");
    cr_assert_eq(each[0], DLOCK_UNAVAILABLE);
    refusals[2] = DLOCK_AUTH;
    cr_assert_eq(fly(gone, 1, txn, true), DLOCK_AUTH, "not executed, and refused then");
    cr_assert_eq(each[0], DLOCK_AUTH);
    cr_assert_eq(sent, 1);
}

Test(exchange, C8_each_member_has_an_equal_share_of_what_is_left)
{
    static const struct script good[] = {{ETCD_TXN, ETCD_ANSWERED, 0, "", true}};

    config.count = 3;
    takes_ns = -1;
    refusals[0] = refusals[1] = DLOCK_UNAVAILABLE;
    cr_assert_eq(fly(good, 1, txn, true), DLOCK_OK, "%s", err.message);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(asked[i], i);
        cr_assert_eq(due_ns[i], 300 * DLT_NS_PER_MS);
    }
}

Test(exchange, C8_nothing_is_sent_without_time)
{
    takes_ns = -1;
    refusals[0] = DLOCK_UNAVAILABLE;
    cr_assert_eq(fly(NULL, 1, txn, true), DLOCK_UNAVAILABLE);
    cr_assert_eq(sent, 0);
}

Test(exchange, the_next_member_in_turn)
{
    static const struct script gone[] = {{ETCD_TXN, ETCD_UNSENT, 0, "gone", false},
                                         {ETCD_TXN, ETCD_UNSENT, 0, "gone", false}};
    static const size_t order[] = {0, 1, 2, 0, 1};

    config.count = 3;
    refusals[2] = DLOCK_UNAVAILABLE;
    for (int i = 0; i < 2; i++) {
        sent = 0;
        cr_assert_eq(fly(gone, 1, txn, true), DLOCK_UNAVAILABLE);
    }
    cr_assert_eq(attempts, 5);
    for (size_t i = 0; i < 5; i++)
        cr_assert_eq(asked[i], order[i], "%zu", i);
}

Test(exchange, C8_a_wrong_member_is_told_of_and_those_that_are_down_are_waited_for)
{
    config.count = 3;
    refusals[0] = refusals[2] = DLOCK_UNAVAILABLE;
    refusals[1] = DLOCK_CONFIG;
    cr_assert_eq(fly(NULL, 1, txn, true), DLOCK_UNAVAILABLE);
    cr_assert_str_eq(err.message, "m1: refused 1; m0: refused 0");
    refusals[3] = refusals[4] = DLOCK_PROTOCOL;
    refusals[5] = DLOCK_CONFIG;
    cr_assert_eq(fly(NULL, 1, txn, true), DLOCK_PROTOCOL, "nobody is down");
    refusals[6] = DLOCK_NOMEM;
    cr_assert_eq(fly(NULL, 1, txn, true), DLOCK_NOMEM);
    cr_assert_eq(attempts, 7, "memory is not the member's fault");
}

/* It may be one of another cluster. If nobody takes the login, no wait for those that are down. */
Test(exchange, C8_a_member_that_refuses_the_login_ends_nothing_if_another_one_takes_it)
{
    static const struct script good[] = {{ETCD_TXN, ETCD_ANSWERED, 0, "", true}};

    config.count = 3;
    refusal_code = 3; /* of gRPC */
    refusals[0] = refusals[2] = DLOCK_UNAVAILABLE;
    refusals[1] = refusals[3] = DLOCK_AUTH;
    cr_assert_eq(fly(NULL, 1, txn, true), DLOCK_AUTH);
    cr_assert_str_eq(err.message, "m1: refused 1");
    cr_assert_eq(fly(good, 1, txn, true), DLOCK_OK, "%s", err.message);
    cr_assert_eq(attempts, 5);
}

Test(exchange, a_dead_channel_lives_until_its_last_user)
{
    static const struct script good[] = {{ETCD_TXN, ETCD_ANSWERED, 0, "", true}};
    struct etcd_connection *connection = NULL;
    bool fresh = false;

    cr_assert_eq(
        etcd_endpoints_take(&endpoints, dlt_host_in(&host, 100), &connection, &fresh, &err),
        DLOCK_OK);
    cr_assert(fresh);
    etcd_channel_retire(connection->channel);
    cr_assert_eq(fly(good, 1, txn, true), DLOCK_OK, "%s", err.message);
    cr_assert_eq(made, 2);
    cr_assert(!channels[0].freed);
    etcd_endpoints_put(&endpoints, connection);
    cr_assert(channels[0].freed);
    cr_assert(!channels[1].freed);
}

Test(exchange, CLS_1_a_child_closes_all_channels_that_there_are)
{
    struct etcd_connection *first = NULL, *second = NULL;
    bool fresh = false;

    cr_assert_eq(etcd_endpoints_take(&endpoints, dlt_host_in(&host, 100), &first, &fresh, &err),
                 DLOCK_OK);
    etcd_channel_retire(first->channel);
    cr_assert_eq(etcd_endpoints_take(&endpoints, dlt_host_in(&host, 100), &second, &fresh, &err),
                 DLOCK_OK);
    channels[0].dead = channels[1].dead = false;
    etcd_endpoints_after_fork(&endpoints);
    cr_assert(channels[0].dead && channels[1].dead);
    etcd_endpoints_put(&endpoints, first);
    etcd_endpoints_put(&endpoints, second);
}
