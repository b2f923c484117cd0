/* SPDX-License-Identifier: MIT */
/* Readers: together, never with a writer, each for himself. */
#include "child.h"
#include "conformance.h"

#include <inttypes.h>
#include <stdatomic.h>

static void count_holders(struct dlock_client *client, const struct dlt_name *name, unsigned want)
{
    struct dlt_holder holder = dlt_inspect(client, name);

    DLT_CHECK(holder.count == want, "inspect shows %u holders, want %u", holder.count, want);
    DLT_CHECK(holder.info.mode == DLOCK_SHARED, "inspect shows mode %d, want SHARED (1)",
              (int)holder.info.mode);
}

void dlt_case_shared_excludes_exclusive(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *readers[2] = {dlt_lock(run, client, "x", 0),
                                       dlt_lock(run, client, "x", 0)};
    struct dlock_handle *writer = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlt_child far;

    dlt_party_start(&far, run, NULL);
    dlt_child_want(&far, "OK", "new 0 %sx 30000 1", run->prefix);
    for (int i = 0; i < 2; i++) {
        DLT_OK(dlock_tryrdlock(readers[0], &dlt_err));
        DLT_OK(dlock_timedrdlock(readers[1], 10000, &dlt_err));
        dlt_child_want(&far, "OK", "tryrd 0");
        count_holders(client, &name, 3);
        DLT_STATUS(dlock_trylock(writer, &dlt_err), DLOCK_BUSY);
        DLT_OK(dlock_unlock(readers[0], &dlt_err));
        DLT_OK(dlock_unlock(readers[1], &dlt_err));
        DLT_STATUS(dlock_trylock(writer, &dlt_err), DLOCK_BUSY);
        dlt_child_want(&far, "OK", "unlock 0");

        DLT_OK(dlock_trylock(writer, &dlt_err));
        DLT_STATUS(dlock_tryrdlock(readers[0], &dlt_err), DLOCK_BUSY);
        dlt_child_want(&far, "BUSY", "tryrd 0");
        dlt_child_want(&far, "BUSY", "try 0");
        DLT_OK(dlock_unlock(writer, &dlt_err));

        dlt_child_want(&far, "OK", "try 0");
        DLT_STATUS(dlock_tryrdlock(readers[0], &dlt_err), DLOCK_BUSY);
        DLT_STATUS(dlock_trylock(writer, &dlt_err), DLOCK_BUSY);
        dlt_child_want(&far, "OK", "unlock 0");
    }
    dlt_child_stop(&far);
    dlock_free(readers[0]);
    dlock_free(readers[1]);
    dlock_free(writer);
    dlock_client_close(client);
}

#define MANY 12

/* The writer gets in when the last of them has gone, and not before. */
void dlt_case_shared_by_many(struct dlt_run *run)
{
    struct dlock_client *clients[3];
    struct dlock_handle *readers[MANY], *writer = NULL;
    struct dlt_name name = dlt_name(run, "x");

    for (int i = 0; i < 3; i++)
        clients[i] = dlt_client(run, NULL);
    for (int i = 0; i < MANY; i++) {
        readers[i] = dlt_lock(run, clients[i % 3], "x", 0);
        DLT_OK(dlock_tryrdlock(readers[i], &dlt_err));
    }
    count_holders(clients[0], &name, MANY);
    writer = dlt_lock(run, clients[0], "x", 0);
    for (int i = 0; i < MANY; i++) {
        DLT_STATE(readers[i], DLOCK_STATE_HELD, "reader %d", i);
        DLT_STATUS(dlock_trylock(writer, &dlt_err), DLOCK_BUSY);
        DLT_OK(dlock_unlock(readers[i], &dlt_err));
    }
    DLT_OK(dlock_trylock(writer, &dlt_err));
    for (int i = 0; i < MANY; i++)
        dlock_free(readers[i]);
    dlock_free(writer);
    for (int i = 0; i < 3; i++)
        dlock_client_close(clients[i]);
}

static void holders_await(struct dlock_client *client, const struct dlt_name *name, unsigned count,
                          int64_t most_ms)
{
    int64_t start_ns = dlt_now_ns();
    unsigned seen = dlt_inspect(client, name).count;

    while (seen > count && dlt_ms_since(start_ns) < (double)most_ms) {
        dlt_sleep_ms(5);
        seen = dlt_inspect(client, name).count;
    }
    DLT_CHECK(seen == count, "inspect shows %u holders, want %u", seen, count);
}

/* The end of one reader neither comes with the renewals of another, nor takes it along. */
void dlt_case_shared_each_its_own_ttl(struct dlt_run *run)
{
    struct dlock_client *one = dlt_client(run, NULL), *two = dlt_client(run, NULL);
    struct dlock_handle *brief = dlt_lease(run, one, "x", 800),
                        *lasting = dlt_lock(run, two, "x", 30000);
    struct dlock_handle *writer = dlt_lock(run, one, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_notice event = {.struct_size = sizeof event};

    DLT_OK(dlock_timedrdlock(lasting, 10000, &dlt_err));
    DLT_OK(dlock_timedrdlock(brief, 10000, &dlt_err));
    DLT_OK(dlock_renew(lasting, 0, &dlt_err));
    DLT_CHECK(dlt_event_await(one, &event, dlt_ttl(one, 800) + 4200) && event.lock == brief,
              "no loss event came for the reader whose lease ran out");
    holders_await(one, &name, 1, 6000);
    DLT_OK(dlock_renew(lasting, 0, &dlt_err));
    DLT_STATE(lasting, DLOCK_STATE_HELD, "the reader that is renewed");
    DLT_STATUS(dlock_trylock(writer, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_unlock(lasting, &dlt_err));
    DLT_OK(dlock_trylock(writer, &dlt_err));
    DLT_STATUS(dlock_unlock(brief, &dlt_err), DLOCK_LOST);
    dlock_free(brief);
    dlock_free(lasting);
    dlock_free(writer);
    dlock_client_close(one);
    dlock_client_close(two);
}

void dlt_case_shared_with_the_dead(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *reader = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    int64_t ttl_ms = dlt_kept_ttl_ms(run);
    struct dlt_waiter writer;
    struct dlt_child dead;

    dlt_child_start(&dead, run, NULL);
    dlt_child_want(&dead, "OK", "new 0 %sx %" PRId64 " 1 ttl", run->prefix, ttl_ms);
    dlt_child_want(&dead, "OK", "rdlock 0 10000");
    DLT_OK(dlock_tryrdlock(reader, &dlt_err));
    dlt_waiter_start(&writer, dlt_lock(run, other, "x", 0), 30000);
    dlt_child_kill(&dead);
    DLT_OK(dlock_renew(reader, 0, &dlt_err));                 /* for itself alone */
    if ((dlock_client_caps(client) & DLOCK_CAP_SESSION) == 0) /* there it ends with the process */
        count_holders(client, &name, 2);
    holders_await(client, &name, 1,
                  dlt_death_ms(run, client, ttl_ms + 3000) + 1500 + run->slack_ms);
    DLT_OK(dlock_renew(reader, 0, &dlt_err));
    DLT_CHECK(!writer.done, "the writer was told %s beside a reader",
              dlock_status_name((int)writer.status));
    DLT_OK(dlock_unlock(reader, &dlt_err));
    DLT_OK(dlt_waiter_join_within(&writer, 5000));
    dlock_free(writer.lock);
    dlock_free(reader);
    dlock_client_close(client);
    dlock_client_close(other);
}

#define STREAM    4
#define PASSES    32768
#define PASSED_MS 20000 /* who is passed by all waits for longer */

/* Readers who come again and again, so that the name is never free. */
struct stream {
    const struct dlt_run *run;
    _Atomic int stop, pass_count;
    struct {
        int64_t called_ns, got_ns;
    } passes[PASSES];
};

static void *stream_member(void *arg)
{
    struct stream *stream = arg;
    struct dlock_client *client = dlt_client(stream->run, NULL);
    struct dlock_handle *lock = dlt_lock(stream->run, client, "x", 0);

    while (!stream->stop) {
        int64_t called_ns = dlt_now_ns();
        int pass = 0;

        DLT_OK(dlock_timedrdlock(lock, 2 * PASSED_MS, &dlt_err));
        pass = atomic_fetch_add(&stream->pass_count, 1);
        DLT_CHECK(pass < PASSES, "more than %d reads in one run of the case", PASSES);
        stream->passes[pass].got_ns = dlt_now_ns();
        stream->passes[pass].called_ns = called_ns;
        dlt_sleep_ms(15);
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    dlock_free(lock);
    dlock_client_close(client);
    return NULL;
}

/* A reader who called when the writer was known to stand in the queue comes after him. */
static void stream_check(const struct stream *stream, int64_t queued_ns, int64_t granted_ns)
{
    for (int i = 0; i < stream->pass_count; i++)
        DLT_CHECK(stream->passes[i].called_ns < queued_ns || stream->passes[i].got_ns > granted_ns,
                  "a reader came %.1f ms after the writer and went in %.1f ms before",
                  (double)(stream->passes[i].called_ns - queued_ns) / 1e6,
                  (double)(granted_ns - stream->passes[i].got_ns) / 1e6);
}

void dlt_case_shared_stream_and_a_writer(struct dlt_run *run)
{
    static struct stream stream;
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    int64_t queued_ns[3], granted_ns[3];
    pthread_t threads[STREAM];

    stream.run = run;
    for (int i = 0; i < STREAM; i++) {
        threads[i] = dlt_thread(stream_member, &stream);
        dlt_sleep_ms(4);
    }
    for (int i = 0; i < 3; i++) {
        struct dlt_waiter writer;

        while (dlt_inspect(client, &name).info.waiters > 0) /* readers behind the writer before */
            dlt_sleep_ms(1);
        dlt_waiter_go(&writer, lock, DLOCK_EXCLUSIVE, 20000, 0);
        while (!writer.done && dlt_inspect(client, &name).info.waiters == 0)
            dlt_sleep_ms(1);
        queued_ns[i] = dlt_now_ns();
        DLT_OK(dlt_waiter_join_within(&writer, PASSED_MS));
        granted_ns[i] = writer.done_ns;
    }
    stream.stop = 1;
    for (int i = 0; i < STREAM; i++)
        (void)dlt_join(threads[i]);
    for (int i = 0; i < 3; i++)
        stream_check(&stream, queued_ns[i], granted_ns[i]);
    dlock_free(lock);
    dlock_client_close(client);
}

static void *writers_member(void *arg)
{
    struct stream *stream = arg;
    struct dlock_client *client = dlt_client(stream->run, NULL);
    struct dlock_handle *lock = dlt_lock(stream->run, client, "x", 0);

    while (!stream->stop) {
        DLT_OK(dlock_timedlock(lock, 2 * PASSED_MS, &dlt_err));
        dlt_sleep_ms(2);
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    dlock_free(lock);
    dlock_client_close(client);
    return NULL;
}

/* Always at least one writer waits. */
void dlt_case_shared_among_writers(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct stream stream = {.run = run};
    pthread_t threads[3];

    for (int i = 0; i < 3; i++)
        threads[i] = dlt_thread(writers_member, &stream);
    for (int i = 0; i < 5; i++) {
        DLT_OK(dlock_timedrdlock(lock, PASSED_MS, &dlt_err));
        DLT_OK(dlock_unlock(lock, &dlt_err));
        dlt_sleep_ms(10);
    }
    stream.stop = 1;
    for (int i = 0; i < 3; i++)
        (void)dlt_join(threads[i]);
    dlock_free(lock);
    dlock_client_close(client);
}

/* Who will not wait does not pass a writer who does. */
void dlt_case_shared_try_behind_a_writer(struct dlt_run *run)
{
    struct dlock_client *one = dlt_client(run, NULL), *two = dlt_client(run, NULL);
    struct dlock_handle *reader = dlt_lock(run, one, "x", 0), *late = dlt_lock(run, one, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlt_waiter writer;
    struct dlt_child far;

    dlt_party_start(&far, run, NULL);
    dlt_child_want(&far, "OK", "new 0 %sx 30000 1", run->prefix);
    DLT_OK(dlock_tryrdlock(reader, &dlt_err));
    dlt_waiter_enter(&writer, dlt_lock(run, two, "x", 0), DLOCK_EXCLUSIVE, 20000, -1);
    dlt_waiters_await(one, &name, 1, 1);
    DLT_STATUS(dlock_tryrdlock(late, &dlt_err), DLOCK_BUSY);
    DLT_CHECK(dlt_ran_out(dlock_timedrdlock(late, 60, &dlt_err)), "a reader passed the writer");
    dlt_child_want(&far, "BUSY", "tryrd 0");
    dlock_cancel(writer.lock);
    DLT_STATUS(dlt_waiter_join(&writer), DLOCK_CANCELED);
    DLT_OK(dlock_timedrdlock(late, 10000, &dlt_err)); /* the writer may leave the queue late */
    dlt_child_want(&far, "OK", "rdlock 0 10000");
    dlt_child_stop(&far);
    dlock_free(writer.lock);
    dlock_free(late);
    dlock_free(reader);
    dlock_client_close(one);
    dlock_client_close(two);
}

/* The order inside a client needs no queue in the store: the writer, then both readers together. */
static void line_of_readers(struct dlt_run *run, const char *defaults)
{
    struct dlock_client *client = dlt_client(run, defaults);
    struct dlock_handle *first = dlt_lock(run, client, "x", 0),
                        *none = dlt_lock(run, client, "x", 0);
    struct dlt_waiter writer, readers[2];

    DLT_OK(dlock_timedrdlock(first, 10000, &dlt_err));
    dlt_waiter_enter(&writer, dlt_lock(run, client, "x", 0), DLOCK_EXCLUSIVE, 20000, 20);
    for (int i = 0; i < 2; i++)
        dlt_waiter_enter(&readers[i], dlt_lock(run, client, "x", 0), DLOCK_SHARED, 20000, -1);
    DLT_STATUS(dlock_tryrdlock(none, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_unlock(first, &dlt_err));
    DLT_OK(dlt_waiter_join(&writer));
    for (int i = 0; i < 2; i++) {
        DLT_OK(dlt_waiter_join(&readers[i]));
        DLT_CHECK(readers[i].done_ns > writer.done_ns, "reader %d passed the writer", i);
    }
    DLT_OK(dlock_tryrdlock(none, &dlt_err));
    for (int i = 0; i < 2; i++) {
        DLT_STATE(readers[i].lock, DLOCK_STATE_HELD, "reader %d", i);
        dlock_free(readers[i].lock);
    }
    dlock_free(writer.lock);
    dlock_free(first);
    dlock_free(none);
    dlock_client_close(client);
}

void dlt_case_shared_in_one_client(struct dlt_run *run)
{
    line_of_readers(run, NULL);
    line_of_readers(run, "queue=off");
}
