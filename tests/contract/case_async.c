/* SPDX-License-Identifier: MIT */
/* Does dlock_op_start keep C19: one DONE for each operation, and a lock that is held with it? */
#include "../kit/notices.h"
#include "conformance.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/* Long enough for a slow machine. */
#define LONG_MS 30000

static struct dlock_notice done_of(struct dlock_client *client, const struct dlock_handle *lock,
                                   enum dlock_op op)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};

    DLT_CHECK(dlt_event_await(client, &notice, LONG_MS), "no notice came, want DONE");
    DLT_CHECK(notice.kind == DLOCK_NOTICE_DONE, "a notice of kind %d, want DONE", notice.kind);
    DLT_CHECK(notice.op == op, "DONE is of operation %d, want %d", notice.op, op);
    DLT_CHECK(notice.lock == lock, "DONE is of another handle");
    return notice;
}

#define DONE(client, lock, op, want) DLT_STATUS(done_of(client, lock, op).status, want)

static void nothing_queued(struct dlock_client *client)
{
    struct pollfd fd = {.fd = dlock_client_fd(client), .events = POLLIN};
    struct dlock_notice notice = {.struct_size = sizeof notice};

    DLT_CHECK(poll(&fd, 1, 0) == 0, "the descriptor is readable and nothing should be queued");
    DLT_CHECK(dlt_notice_take(client, &notice, NULL) == 0, "a notice too many");
}

static void start(struct dlock_handle *lock, enum dlock_op op, int64_t timeout_ms)
{
    DLT_OK(dlock_op_start(lock, op, timeout_ms, &dlt_err));
}

void dlt_case_async_lock_and_unlock(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0),
                        *rival = dlt_lock(run, other, "x", 0);
    struct pollfd fd = {.fd = dlock_client_fd(client), .events = POLLIN};
    struct dlock_notice notice;

    for (int i = 0; i < 3; i++) {
        start(lock, DLOCK_OP_LOCK, LONG_MS);
        DLT_CHECK(poll(&fd, 1, LONG_MS) == 1, "the descriptor is not readable");
        DLT_CHECK(poll(&fd, 1, 0) == 1, "the descriptor is level-triggered");
        notice = done_of(client, lock, DLOCK_OP_LOCK);
        DLT_STATUS(notice.status, DLOCK_OK);
        DLT_STATE(lock, DLOCK_STATE_HELD, "after DONE with OK");
        DLT_CHECK(notice.fence == dlock_fence(lock), "DONE has fence %" PRIu64, notice.fence);
        DLT_STATUS(dlock_trylock(rival, &dlt_err), DLOCK_BUSY);
        start(lock, DLOCK_OP_RENEW, 0);
        DONE(client, lock, DLOCK_OP_RENEW, DLOCK_OK);
        start(lock, DLOCK_OP_UNLOCK, 0);
        DONE(client, lock, DLOCK_OP_UNLOCK, DLOCK_OK);
        DLT_STATE(lock, DLOCK_STATE_FREE, "after the unlock");
        DLT_TAKE(rival);
        DLT_OK(dlock_unlock(rival, &dlt_err));
    }
    start(lock, DLOCK_OP_UNLOCK, 0);
    DONE(client, lock, DLOCK_OP_UNLOCK, DLOCK_NOT_HELD);
    nothing_queued(client);
    dlock_free(lock);
    dlock_free(rival);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* On a busy machine the last answer before the deadline may come too late. */
static void times_out(struct dlock_client *client, struct dlock_handle *lock)
{
    enum dlock_status status = DLOCK_UNKNOWN;

    for (int i = 0; i < 8 && status != DLOCK_TIMEOUT; i++) {
        start(lock, DLOCK_OP_LOCK, 200 << i);
        status = done_of(client, lock, DLOCK_OP_LOCK).status;
        DLT_CHECK(status == DLOCK_TIMEOUT || dlock_status_class((int)status) == DLOCK_CLASS_BACKEND,
                  "status %s", dlock_status_name((int)status));
    }
    DLT_STATUS(status, DLOCK_TIMEOUT);
}

/* A release, and the grant that it makes possible: the two notices come in either order. */
static void handed_on(struct dlock_client *client, struct dlock_handle *from,
                      struct dlock_handle *to)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};
    bool released = false, granted = false;

    start(from, DLOCK_OP_UNLOCK, 0);
    while (!released || !granted) {
        DLT_CHECK(dlt_event_await(client, &notice, LONG_MS), "no notice came, want DONE");
        DLT_CHECK(notice.kind == DLOCK_NOTICE_DONE, "a notice of kind %d, want DONE", notice.kind);
        DLT_STATUS(notice.status, DLOCK_OK);
        DLT_CHECK(notice.lock == from ? !released && notice.op == DLOCK_OP_UNLOCK
                                      : !granted && notice.op == DLOCK_OP_LOCK && notice.lock == to,
                  "DONE of operation %d twice, or of another handle", notice.op);
        *(notice.lock == from ? &released : &granted) = true;
    }
}

void dlt_case_async_waits(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0),
                        *rival = dlt_lock(run, other, "x", 0);
    struct dlock_handle *third = dlt_lock(run, client, "x", 0);

    DLT_TAKE(rival);
    start(lock, DLOCK_OP_LOCK, 0);
    DONE(client, lock, DLOCK_OP_LOCK, DLOCK_BUSY);
    times_out(client, lock);
    start(lock, DLOCK_OP_LOCK, DLOCK_FOREVER);
    dlt_sleep_ms(50);
    nothing_queued(client);
    start(third, DLOCK_OP_LOCK, DLOCK_FOREVER); /* behind it, in the same client */
    DLT_OK(dlock_unlock(rival, &dlt_err));
    DONE(client, lock, DLOCK_OP_LOCK, DLOCK_OK);
    dlt_sleep_ms(20);
    nothing_queued(client);
    DLT_STATUS(dlock_trylock(rival, &dlt_err), DLOCK_BUSY);
    handed_on(client, lock, third);
    DLT_STATE(third, DLOCK_STATE_HELD, "after DONE");
    dlock_free(third); /* unlocks */
    DLT_TAKE(rival);
    dlock_free(rival);
    dlock_free(lock);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_async_cancel(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0),
                        *rival = dlt_lock(run, other, "x", 0);

    DLT_TAKE(rival);
    for (int i = 0; i < 3; i++) {
        start(lock, DLOCK_OP_LOCK, DLOCK_FOREVER);
        dlt_sleep_ms(20 * i);
        dlock_cancel(lock);
        DONE(client, lock, DLOCK_OP_LOCK, DLOCK_CANCELED);
    }
    DLT_OK(dlock_unlock(rival, &dlt_err));
    /* The cancel came before, and belongs to no later operation. */
    start(lock, DLOCK_OP_LOCK, LONG_MS);
    DONE(client, lock, DLOCK_OP_LOCK, DLOCK_OK);
    start(lock, DLOCK_OP_UNLOCK, 0);
    DONE(client, lock, DLOCK_OP_UNLOCK, DLOCK_OK);
    /* Early: it ends the next operation; or the grant was first. */
    dlock_cancel(lock);
    start(lock, DLOCK_OP_LOCK, LONG_MS);
    DONE(client, lock, DLOCK_OP_LOCK, DLOCK_CANCELED);
    nothing_queued(client);
    dlock_free(lock);
    dlock_free(rival);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_async_one_at_a_time(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0),
                        *rival = dlt_lock(run, other, "x", 0);

    DLT_TAKE(rival);
    start(lock, DLOCK_OP_LOCK, DLOCK_FOREVER);
    DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_ALREADY);
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_ALREADY);
    DLT_STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_ALREADY);
    DLT_STATUS(dlock_op_start(lock, DLOCK_OP_LOCK, 0, &dlt_err), DLOCK_ALREADY);
    DLT_STATUS(dlock_op_start(lock, DLOCK_OP_UNLOCK, 0, &dlt_err), DLOCK_ALREADY);
    DLT_OK(dlock_unlock(rival, &dlt_err));
    while (dlock_state(lock) != DLOCK_STATE_HELD)
        dlt_sleep_ms(5);
    /* Its DONE was not taken yet. */
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_ALREADY);
    DONE(client, lock, DLOCK_OP_LOCK, DLOCK_OK);
    DLT_STATUS(dlock_op_start(lock, DLOCK_OP_LOCK, 0, &dlt_err), DLOCK_ALREADY);
    DLT_OK(dlock_renew(lock, 0, &dlt_err));
    DLT_OK(dlock_unlock(lock, &dlt_err));
    nothing_queued(client);
    DLT_STATUS(dlock_op_start(NULL, DLOCK_OP_LOCK, 0, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_op_start(lock, (enum dlock_op)99, 0, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_op_start(lock, DLOCK_OP_LOCK, -9, &dlt_err), DLOCK_INVALID);
    dlock_free(lock);
    dlock_free(rival);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* The loop is slow: the lease has ended before it looks. */
void dlt_case_async_loss_after_done(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lease(run, client, "x", 400);
    struct dlock_notice notice = {.struct_size = sizeof notice};
    int64_t deadline_ns = dlt_now_ns() + LONG_MS * DLT_NS_PER_MS;

    start(lock, DLOCK_OP_LOCK, LONG_MS);
    while (dlock_state(lock) != DLOCK_STATE_LOST && dlt_now_ns() < deadline_ns)
        dlt_sleep_ms(20);
    DLT_STATE(lock, DLOCK_STATE_LOST, "after its ttl");
    DONE(client, lock, DLOCK_OP_LOCK, DLOCK_OK);
    DLT_CHECK(dlt_event_await(client, &notice, LONG_MS), "no second notice, want LOST");
    DLT_CHECK(notice.kind == DLOCK_NOTICE_LOST && notice.lock == lock, "want LOST after DONE");
    DLT_STATUS(dlock_op_start(lock, DLOCK_OP_LOCK, 0, &dlt_err), DLOCK_LOST);
    start(lock, DLOCK_OP_UNLOCK, 0);
    DONE(client, lock, DLOCK_OP_UNLOCK, DLOCK_LOST);
    nothing_queued(client);
    dlock_free(lock);
    dlock_client_close(client);
}

static void refuse_loss(void *arg, const struct dlock_notice *notice)
{
    (void)arg;
    (void)notice;
}

void dlt_case_async_needs_notices(struct dlt_run *run)
{
    struct dlock_client_options options = {.struct_size = sizeof options, .on_lost = refuse_loss};
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;

    DLT_OK(dlock_client_open(run->uri, &options, &client, &dlt_err));
    lock = dlt_lock(run, client, "x", 0);
    DLT_STATUS(dlock_op_start(lock, DLOCK_OP_LOCK, 0, &dlt_err), DLOCK_INVALID);
    dlock_free(lock);
    dlock_client_close(client);
}

/* Handles are freed in each state of an operation, and the client is closed amid others. */
void dlt_case_async_free_and_close(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *rival = dlt_lock(run, other, "x", 0),
                        *waits = dlt_lock(run, client, "x", 0),
                        *behind = dlt_lock(run, client, "x", 0),
                        *fresh = dlt_lock(run, client, "y", 0);
    struct dlock_handle *left[2];

    DLT_TAKE(rival);
    start(waits, DLOCK_OP_LOCK, DLOCK_FOREVER);
    start(behind, DLOCK_OP_LOCK, DLOCK_FOREVER);
    dlock_free(waits);
    dlock_free(behind);
    for (int i = 0; i < 2; i++) { /* just begun; ended, and its DONE not taken */
        start(fresh, DLOCK_OP_LOCK, LONG_MS);
        while (i == 1 && dlock_state(fresh) != DLOCK_STATE_HELD)
            dlt_sleep_ms(5);
        dlock_free(fresh);
        nothing_queued(client);
        fresh = dlt_lock(run, client, "y", 0);
        DLT_TAKE(fresh); /* the one before was unlocked */
        DLT_OK(dlock_unlock(fresh, &dlt_err));
    }
    dlock_free(fresh);
    for (int i = 0; i < 2; i++) {
        left[i] = dlt_lock(run, client, i == 0 ? "x" : "z", 0);
        start(left[i], DLOCK_OP_LOCK, DLOCK_FOREVER);
    }
    DONE(client, left[1], DLOCK_OP_LOCK, DLOCK_OK);
    dlock_client_shutdown(client);
    DONE(client, left[0], DLOCK_OP_LOCK, DLOCK_CLOSED);
    DLT_STATUS(dlock_op_start(left[0], DLOCK_OP_LOCK, 0, &dlt_err), DLOCK_CLOSED);
    start(left[1], DLOCK_OP_UNLOCK, 0); /* may be done, or not, when the client is closed */
    dlock_client_close(client);
    DLT_STATUS(dlock_op_start(left[1], DLOCK_OP_UNLOCK, 0, &dlt_err), DLOCK_CLOSED);
    dlock_free(left[0]);
    dlock_free(left[1]);
    DLT_OK(dlock_unlock(rival, &dlt_err));
    dlock_free(rival);
    rival = dlt_lock(run, other, "z", 0);
    DLT_TAKE(rival);
    dlock_free(rival);
    dlock_client_close(other);
}

/* A child with an operation under way, and one whose DONE is queued. */
void dlt_case_async_fork(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0),
                        *waits = dlt_lock(run, client, "x", 0);
    struct dlock_notice notice = {.struct_size = sizeof notice};
    int status = 0;
    pid_t pid;

    start(lock, DLOCK_OP_LOCK, LONG_MS);
    while (dlock_state(lock) != DLOCK_STATE_HELD)
        dlt_sleep_ms(5);
    start(waits, DLOCK_OP_LOCK, DLOCK_FOREVER);
    (void)fflush(NULL);
    pid = fork();
    DLT_CHECK(pid >= 0, "fork");
    if (pid == 0) {
        int wrong = dlock_op_start(lock, DLOCK_OP_UNLOCK, 0, NULL) != DLOCK_FORKED;

        wrong += dlock_client_fd(client) != -1;
        wrong += dlt_notice_take(client, &notice, NULL) != -1;
        dlock_free(lock);
        dlock_free(waits);
        dlock_client_close(client);
        _exit(wrong);
    }
    while (waitpid(pid, &status, 0) < 0)
        DLT_CHECK(errno == EINTR, "waitpid");
    DLT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: status %d", status);
    DONE(client, lock, DLOCK_OP_LOCK, DLOCK_OK);
    DLT_STATE(lock, DLOCK_STATE_HELD, "after the fork");
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DONE(client, waits, DLOCK_OP_LOCK, DLOCK_OK);
    dlock_free(waits);
    dlock_free(lock);
    dlock_client_close(client);
}

/* What threads and the loop add under the lock. */
struct adder {
    struct dlt_run *run;
    struct dlock_client *client;
    int64_t *sum;
    int rounds;
};

static void *adder_run(void *arg)
{
    struct adder *adder = arg;
    struct dlock_handle *lock = dlt_lock(adder->run, adder->client, "sum", 0);

    for (int i = 0; i < adder->rounds; i++) {
        DLT_OK(dlock_timedlock(lock, 4 * LONG_MS, &dlt_err));
        ++*adder->sum;
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    dlock_free(lock);
    return NULL;
}

#define ADDERS 4

/* Handles of one loop, threads of its client and of another client exclude each other. */
void dlt_case_async_excludes(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    int64_t sum = 0;
    struct adder here = {run, client, &sum, 10}, there = {run, other, &sum, 10};
    pthread_t threads[2] = {dlt_thread(adder_run, &here), dlt_thread(adder_run, &there)};
    struct dlock_handle *locks[ADDERS];
    int left = ADDERS * 10, rounds[ADDERS] = {0};

    for (int i = 0; i < ADDERS; i++) {
        locks[i] = dlt_lock(run, client, "sum", 0);
        start(locks[i], DLOCK_OP_LOCK, 4 * LONG_MS);
    }
    while (left > 0) {
        struct dlock_notice notice = {.struct_size = sizeof notice};
        int at = 0;

        DLT_CHECK(dlt_event_await(client, &notice, 4 * LONG_MS), "no notice, want DONE");
        DLT_CHECK(notice.kind == DLOCK_NOTICE_DONE, "a notice of kind %d", notice.kind);
        DLT_STATUS(notice.status, DLOCK_OK);
        while (locks[at] != notice.lock)
            at++;
        if (notice.op == DLOCK_OP_LOCK) {
            sum++;
            start(notice.lock, DLOCK_OP_UNLOCK, 0);
        } else {
            left--;
            if (++rounds[at] < 10)
                start(notice.lock, DLOCK_OP_LOCK, 4 * LONG_MS);
        }
    }
    for (int i = 0; i < 2; i++)
        (void)dlt_join(threads[i]);
    DLT_CHECK(sum == ADDERS * 10 + 20, "%" PRId64 " additions, want %d", sum, ADDERS * 10 + 20);
    nothing_queued(client);
    for (int i = 0; i < ADDERS; i++)
        dlock_free(locks[i]);
    dlock_client_close(client);
    dlock_client_close(other);
}

#define MANY 120

/* Many under way at once; some are cancelled. */
void dlt_case_async_many(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *locks[MANY];
    int done[MANY] = {0}, held = 0;

    for (int i = 0; i < MANY; i++) {
        struct dlock_options options = {
            .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .user = &done[i]};
        char suffix[16];

        (void)snprintf(suffix, sizeof suffix, "%d", i / 2); /* two handles for a name */
        locks[i] = dlt_lock_with(run, client, suffix, &options);
        start(locks[i], DLOCK_OP_LOCK, 4 * LONG_MS);
        if (i % 10 == 5)
            dlock_cancel(locks[i]);
    }
    for (int i = 0; i < MANY; i++) {
        struct dlock_notice notice = {.struct_size = sizeof notice};

        DLT_CHECK(dlt_event_await(client, &notice, 4 * LONG_MS), "%d of %d notices came", i, MANY);
        DLT_CHECK(notice.kind == DLOCK_NOTICE_DONE, "a notice of kind %d", notice.kind);
        DLT_CHECK(notice.status == DLOCK_OK || notice.status == DLOCK_CANCELED, "status %s",
                  dlock_status_name((int)notice.status));
        DLT_CHECK(++*(int *)notice.user == 1, "a second DONE for one operation");
        held += notice.status == DLOCK_OK;
        if (notice.status == DLOCK_OK)
            DLT_OK(dlock_unlock(notice.lock, &dlt_err));
    }
    DLT_CHECK(held >= MANY - MANY / 10, "%d were granted", held);
    nothing_queued(client);
    for (int i = 0; i < MANY; i++)
        dlock_free(locks[i]);
    dlock_client_close(client);
}

static void opens(struct dlt_run *run, struct dlock_client **client)
{
    DLT_OK(dlock_client_open_start(run->uri, NULL, client, &dlt_err));
    DLT_CHECK(dlock_client_fd(*client) >= 0, "the client has no descriptor");
}

/* An operation begins before the client is opened; its DONE may come first. */
static void opened_and_locked(struct dlock_client *client, struct dlock_handle *lock)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};
    int opened = 0, locked = 0;

    start(lock, DLOCK_OP_LOCK, LONG_MS);
    while (opened + locked < 2) {
        DLT_CHECK(dlt_event_await(client, &notice, LONG_MS), "no notice: %d OPENED, %d DONE",
                  opened, locked);
        DLT_STATUS(notice.status, DLOCK_OK);
        DLT_CHECK(notice.kind == DLOCK_NOTICE_OPENED ? notice.lock == NULL : notice.lock == lock,
                  "a notice of kind %d has the wrong handle", notice.kind);
        opened += notice.kind == DLOCK_NOTICE_OPENED;
        locked += notice.kind == DLOCK_NOTICE_DONE;
    }
    DLT_CHECK(opened == 1 && locked == 1, "%d OPENED and %d DONE", opened, locked);
    DLT_CHECK(dlock_client_server(client)[0] != '\0', "no server after OPENED");
}

void dlt_case_async_open(struct dlt_run *run)
{
    struct dlock_client_options options = {.struct_size = sizeof options, .on_lost = refuse_loss};
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;

    DLT_STATUS(dlock_client_open_start(run->uri, &options, &client, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_client_open_start("no-such-scheme://x", NULL, &client, &dlt_err),
               DLOCK_INVALID);
    DLT_STATUS(dlock_client_open_start(run->uri, NULL, NULL, &dlt_err), DLOCK_INVALID);
    DLT_CHECK(client == NULL, "a client with an error");
    opens(run, &client); /* closed amid the opening */
    dlock_client_close(client);
    opens(run, &client);
    lock = dlt_lock(run, client, "x", 0);
    opened_and_locked(client, lock);
    DLT_OK(dlock_unlock(lock, &dlt_err));
    start(lock, DLOCK_OP_LOCK, LONG_MS);
    DONE(client, lock, DLOCK_OP_LOCK, DLOCK_OK);
    nothing_queued(client);
    dlock_free(lock);
    dlock_client_close(client);
}
