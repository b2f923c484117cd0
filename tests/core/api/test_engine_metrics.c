/* SPDX-License-Identifier: MIT */
/* Tests: core/api/metrics.c core/client/stats.c core/sys/host.c */
/* Does a client count each acquire, renewal, unlock, loss and hand-off once, with its time, however
 * the call was made; and is the text as metrics.h says? Virtual time. */
#include "engine.h"
#include "notices.h"

#include <criterion/criterion.h>
#include <dlock/metrics.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct dlt_engine engine;

static void open_with(const char *options)
{
    dlt_engine_open(&engine, "metrics", &(struct dlt_setup){.options = options});
}

static struct dlock_stats stats_of(void)
{
    struct dlock_stats stats = {.struct_size = sizeof stats};

    cr_assert_eq(dlock_client_stats(engine.client, &stats, NULL), DLOCK_OK);
    return stats;
}

static struct dlock_handle *lock_of(const char *name)
{
    return dlt_engine_lock(&engine, name, NULL);
}

static void lock_free(struct dlock_handle *lock)
{
    cr_assert_eq(dlt_do(&engine, DLT_FREE, lock, 0), DLOCK_OK);
}

/* The bucket for ms. */
static uint64_t bucket(const struct dlock_histogram *histogram, int64_t ms)
{
    unsigned i = 0;

    while (i + 1 < DLOCK_HISTOGRAM_BUCKETS && (INT64_C(16) << i) < ms * 1000)
        i++;
    return histogram->buckets[i];
}

Test(metrics, an_acquire_and_its_hold_count_once_with_their_times)
{
    struct dlock_stats stats;
    struct dlock_handle *lock;

    open_with(NULL);
    lock = lock_of("job:1");
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(stats_of().held, 1);
    cr_assert_eq(stats_of().holds.count, 0);
    dlt_engine_advance(&engine, 500);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    stats = stats_of();
    cr_assert_eq(stats.struct_size, sizeof stats);
    cr_assert_eq(stats.acquisitions[DLOCK_OK], 1);
    cr_assert_eq(stats.unlocks[DLOCK_OK], 1);
    cr_assert_eq(stats.waits.count, 1);
    cr_assert_eq(stats.waits.buckets[0], 1);
    cr_assert_eq(stats.holds.count, 1);
    cr_assert_eq(stats.holds.sum_us, 500000);
    cr_assert_eq(bucket(&stats.holds, 500), 1);
    cr_assert_eq(stats.held, 0);
    cr_assert_eq(stats.waiting, 0);
    cr_assert_eq(stats.classes, 1);
    cr_assert_eq(stats.sessions_opened, 1);
    lock_free(lock);
    dlt_engine_close(&engine);
}

Test(metrics, CNT_1_connections_inside_a_session_count_as_sessions)
{
    const struct dlock_host *host = NULL;
    struct dlock_stats stats;

    open_with(NULL);
    host = &engine.client->host.table;
    host->connection(host->ctx, DLOCK_CONNECTION_BROKEN);
    host->connection(host->ctx, DLOCK_CONNECTION_FAILED);
    host->connection(host->ctx, DLOCK_CONNECTION_FAILED);
    host->connection(host->ctx, DLOCK_CONNECTION_MADE);
    stats = stats_of();
    cr_assert_eq(stats.sessions_opened, 2, "and that of open");
    cr_assert_eq(stats.sessions_failed, 2);
    cr_assert_eq(stats.sessions_broken, 1);
    dlt_engine_close(&engine);
}

Test(metrics, outcomes_are_told_apart_and_refusals_do_not_count)
{
    struct dlock_client *rival;
    struct dlock_handle *held, *lock, *unlocked;
    struct dlock_stats stats;
    struct dlt_call call;

    open_with("poll_max=10ms&queue=off");
    rival = dlt_engine_rival(&engine);
    held = dlt_rival_hold(rival, "job:1", DLOCK_EXCLUSIVE);
    lock = lock_of("job:1");
    unlocked = lock_of("job:2");
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_BUSY);
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, lock, 300);
    cr_assert_eq(stats_of().waiting, 1);
    cr_assert_eq(dlt_call_finish(&call, 1000), DLOCK_TIMEOUT);
    dlt_call_start(&call, &engine, DLT_LOCK, lock, 0);
    dlock_cancel(lock);
    cr_assert_eq(dlt_call_finish(&call, 1000), DLOCK_CANCELED);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, unlocked, 0), DLOCK_NOT_HELD);
    stats = stats_of();
    cr_assert_eq(stats.acquisitions[DLOCK_OK], 0);
    cr_assert_eq(stats.acquisitions[DLOCK_BUSY], 1);
    cr_assert_eq(stats.acquisitions[DLOCK_TIMEOUT], 1);
    cr_assert_eq(stats.acquisitions[DLOCK_CANCELED], 1);
    cr_assert_eq(stats.unlocks[DLOCK_NOT_HELD], 0);
    cr_assert_eq(stats.waits.count, 0, "a wait for nothing is none");
    cr_assert_eq(stats.waiting, 0);
    lock_free(lock);
    lock_free(unlocked);
    dlock_free(held);
    dlock_client_close(rival);
    dlt_engine_close(&engine);
}

Test(metrics, a_hand_off_counts_as_one_for_the_thread_that_gets_the_lock)
{
    struct dlock_handle *giver, *receiver;
    struct dlock_stats stats;
    struct dlt_call call;

    open_with(NULL);
    giver = lock_of("job:1");
    receiver = lock_of("job:1");
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, giver, 0), DLOCK_OK);
    dlt_call_start(&call, &engine, DLT_LOCK, receiver, 0);
    dlt_engine_run(&engine, 3);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, giver, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&call, 100), DLOCK_OK);
    stats = stats_of();
    cr_assert_eq(stats.handoffs, 1);
    cr_assert_eq(stats.acquisitions[DLOCK_OK], 2);
    cr_assert_eq(stats.unlocks[DLOCK_OK], 1);
    cr_assert_eq(stats.holds.count, 1);
    cr_assert_eq(stats.holds.sum_us, 3000);
    cr_assert_eq(stats.waits.sum_us, 3000);
    cr_assert_eq(stats.held, 1);
    lock_free(receiver);
    lock_free(giver);
    cr_assert_eq(stats_of().held, 0);
    dlt_engine_close(&engine);
}

Test(metrics, an_operation_counts_as_a_call_does)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};
    struct dlock_stats stats;
    struct dlock_handle *lock;

    open_with(NULL);
    lock = lock_of("job:1");
    cr_assert_eq(dlock_op_start(lock, DLOCK_OP_LOCK, DLOCK_FOREVER, NULL), DLOCK_OK);
    dlt_settle();
    cr_assert_eq(dlt_notice_take(engine.client, &notice, NULL), 1);
    cr_assert_eq(notice.status, DLOCK_OK);
    dlt_engine_advance(&engine, 20);
    cr_assert_eq(dlock_op_start(lock, DLOCK_OP_UNLOCK, 0, NULL), DLOCK_OK);
    dlt_settle();
    cr_assert_eq(dlt_notice_take(engine.client, &notice, NULL), 1);
    stats = stats_of();
    cr_assert_eq(stats.acquisitions[DLOCK_OK], 1);
    cr_assert_eq(stats.waits.count, 1);
    cr_assert_eq(stats.unlocks[DLOCK_OK], 1);
    cr_assert_eq(stats.holds.sum_us, 20000);
    cr_assert_eq(stats.waiting + stats.held, 0);
    lock_free(lock);
    dlt_engine_close(&engine);
}

Test(metrics, losses_count_once_by_their_reason_and_end_the_hold)
{
    struct dlock_stats stats;
    struct dlock_handle *taken, *expired, *acknowledged;

    open_with("renew=off");
    taken = lock_of("job:1");
    expired = lock_of("job:2");
    acknowledged = lock_of("job:3");
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, taken, 0), DLOCK_OK);
    cr_assert_eq(dlock_client_break(engine.client, "job:1", 5, NULL, NULL), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, taken, 0), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, taken, 0), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, taken, 0), DLOCK_LOST);
    stats = stats_of();
    cr_assert_eq(stats.losses[DLOCK_REASON_TAKEN], 1);
    cr_assert_eq(stats.renewals[DLOCK_LOST], 1);
    cr_assert_eq(stats.unlocks[DLOCK_LOST], 1);
    cr_assert_eq(stats.held, 0);

    /* Found by the unlock alone: the store says that the lock is not ours. */
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, taken, 0), DLOCK_OK);
    cr_assert_eq(dlock_client_break(engine.client, "job:1", 5, NULL, NULL), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, taken, 0), DLOCK_LOST);
    cr_assert_eq(stats_of().losses[DLOCK_REASON_TAKEN], 2);

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, expired, 0), DLOCK_OK);
    dlt_engine_advance(&engine, 40000);
    stats = stats_of();
    cr_assert_eq(stats.losses[DLOCK_REASON_EXPIRED], 1);
    cr_assert_eq(stats.held, 0);
    cr_assert_eq(stats.holds.count, 3);
    cr_assert_gt(stats.holds.sum_us, 26000000);
    cr_assert_lt(stats.holds.sum_us, 27200000, "the hold ends with the lease");
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, expired, 0), DLOCK_LOST);
    cr_assert_eq(stats_of().losses[DLOCK_REASON_EXPIRED], 1);
    lock_free(taken);
    lock_free(expired);
    lock_free(acknowledged);
    dlt_engine_close(&engine);
}

Test(metrics, unknown_outcomes_and_renewals_count)
{
    struct dlock_stats stats;
    struct dlock_handle *lock;

    open_with("op_timeout=1s");
    lock = lock_of("job:1");
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LOST_REPLY, (struct memory_fault){.times = 1});
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(stats_of().unknowns, 1);
    cr_assert_eq(stats_of().acquisitions[DLOCK_OK], 1);
    dlt_engine_run(&engine, 11000);
    stats = stats_of();
    cr_assert_eq(stats.renewals[DLOCK_OK], 1);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LOST_REPLY, (struct memory_fault){.times = 1});
    cr_assert_neq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_OK);
    stats = stats_of();
    cr_assert_eq(stats.renewals[DLOCK_UNKNOWN], 1);
    cr_assert_eq(stats.unknowns, 2);
    lock_free(lock);
    dlt_engine_close(&engine);
}

struct written {
    char text[200000];
    size_t len;
};

static bool written_add(void *arg, const char *text, size_t len)
{
    struct written *written = arg;

    cr_assert_lt(written->len + len, sizeof written->text);
    cr_assert_eq(text[len - 1], '\n', "whole lines only");
    memcpy(written->text + written->len, text, len);
    written->len += len;
    return false;
}

static struct written written;

static bool has(const char *line)
{
    return strstr(written.text, line) != NULL;
}

static enum dlock_status write_with(const char *const *labels)
{
    written = (struct written){.len = 0};
    return dlock_client_metrics(engine.client, labels, written_add, &written, NULL);
}

Test(metrics, the_text_has_a_series_for_each_class_and_no_name)
{
    static const char *const labels[] = {"host", "a\"b\\\n", NULL};
    struct dlock_handle *lock, *odd;

    open_with(NULL);
    lock = lock_of("order:4711");
    odd = lock_of("a\"\xff:1");
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    dlt_engine_advance(&engine, 500);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(write_with(NULL), DLOCK_OK);
    cr_assert(has("# TYPE dlock_acquisitions counter\n"));
    cr_assert(has("\ndlock_acquisitions_total{class=\"order\",outcome=\"ok\"} 1\n"));
    cr_assert(has("\ndlock_acquisitions_total{class=\"order\",outcome=\"timeout\"} 0\n"));
    cr_assert_not(has("outcome=\"nomem\""), "a series that says nothing");
    cr_assert(has("\ndlock_losses_total{class=\"order\",reason=\"taken\"} 0\n"));
    cr_assert(has("\ndlock_unknown_exchanges_total{class=\"order\"} 0\n"));
    cr_assert(has("# UNIT dlock_hold_seconds seconds\n"));
    cr_assert(has("\ndlock_hold_seconds_bucket{class=\"order\",le=\"0.262144\"} 0\n"));
    cr_assert(has("\ndlock_hold_seconds_bucket{class=\"order\",le=\"0.524288\"} 1\n"));
    cr_assert(has("\ndlock_hold_seconds_bucket{class=\"order\",le=\"+Inf\"} 1\n"));
    cr_assert(has("\ndlock_hold_seconds_sum{class=\"order\"} 0.500000\n"));
    cr_assert(has("\ndlock_hold_seconds_count{class=\"order\"} 1\n"));
    cr_assert(has("\ndlock_sessions_total{event=\"opened\"} 1\n"));
    cr_assert(has("{class=\"a\\\"\\\\xff\""), "escaped");
    cr_assert_not(has("4711"));
    cr_assert_str_eq(written.text + written.len - 6, "# EOF\n");
    cr_assert_eq(write_with(labels), DLOCK_OK);
    cr_assert(has("\ndlock_held{host=\"a\\\"b\\\\x5c\\\\x0a\",class=\"order\"} 0\n"));
    cr_assert(has("\ndlock_sessions_total{host=\"a\\\"b\\\\x5c\\\\x0a\",event=\"opened\"} 1\n"));
    lock_free(lock);
    lock_free(odd);
    dlt_engine_close(&engine);
}

static bool ends_at_once(void *arg, const char *text, size_t len)
{
    (void)text;
    (void)len;
    ++*(int *)arg;
    return true;
}

Test(metrics, arguments_are_checked_and_the_callback_can_end_the_text)
{
    static const char *const bad[][7] = {{"class", "x", NULL},
                                         {"__x", "x", NULL},
                                         {"1x", "x", NULL},
                                         {"a-b", "x", NULL},
                                         {"", "x", NULL},
                                         {"x", NULL, NULL},
                                         {"x", "1", "y", "2", "x", "3", NULL}};
    int calls = 0;

    open_with(NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(write_with(bad[i]), DLOCK_INVALID, "%s", bad[i][0]);
    cr_assert_eq(written.len, 0);
    cr_assert_eq(dlock_client_metrics(engine.client, NULL, NULL, NULL, NULL), DLOCK_INVALID);
    cr_assert_eq(dlock_client_metrics(NULL, NULL, written_add, &written, NULL), DLOCK_INVALID);
    cr_assert_eq(dlock_client_stats(engine.client, NULL, NULL), DLOCK_INVALID);
    cr_assert_eq(dlock_client_metrics(engine.client, NULL, ends_at_once, &calls, NULL), DLOCK_OK);
    cr_assert_eq(calls, 1);
    dlt_engine_close(&engine);
}

/* C10 */
Test(metrics, C10_in_a_forked_child_nothing_is_counted_or_read)
{
    int status = 0;
    pid_t child;

    open_with(NULL);
    child = fork();
    if (child == 0) {
        struct dlock_stats stats = {.struct_size = sizeof stats};

        _exit(dlock_client_stats(engine.client, &stats, NULL) == DLOCK_FORKED &&
                      write_with(NULL) == DLOCK_FORKED && written.len == 0
                  ? 0
                  : 1);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    dlt_engine_close(&engine);
}
