/* SPDX-License-Identifier: MIT */
/* Does the end come when it is asked for, and is nothing left afterwards? */
#include "conformance.h"

#include <dirent.h>
#include <time.h>

#define WAITERS 4

struct queue {
    struct dlock_client *client, *other;
    struct dlock_handle *holder, *foreign;
    struct dlt_waiter waiters[WAITERS]; /* half behind each of the two */
};

static void queue_start(struct queue *queue, const struct dlt_run *run)
{
    queue->client = dlt_client_patient(run);
    queue->other = dlt_client(run, NULL);
    queue->holder = dlt_lock(run, queue->client, "x", 0);
    queue->foreign = dlt_lock(run, queue->other, "y", 0);
    DLT_OK(dlock_trylock(queue->holder, &dlt_err));
    DLT_OK(dlock_trylock(queue->foreign, &dlt_err));
    for (int i = 0; i < WAITERS; i++)
        dlt_waiter_start(&queue->waiters[i],
                         dlt_lock(run, queue->client, i % 2 == 0 ? "x" : "y", 0), DLOCK_FOREVER);
}

static void queue_ends(struct queue *queue, int64_t start_ns)
{
    for (int i = 0; i < WAITERS; i++) {
        DLT_STATUS(dlt_waiter_join(&queue->waiters[i]), DLOCK_CLOSED);
        DLT_BETWEEN(start_ns, queue->waiters[i].done_ns, DLT_PATIENT_MS, "a waiter ended");
    }
}

void dlt_case_shutdown_ends_waits(struct dlt_run *run)
{
    struct queue queue;
    int64_t start_ns = 0;

    queue_start(&queue, run);
    start_ns = dlt_now_ns();
    dlock_client_shutdown(queue.client);
    queue_ends(&queue, start_ns);
    for (int i = 0; i < WAITERS; i++) {
        DLT_STATUS(dlock_trylock(queue.waiters[i].lock, &dlt_err), DLOCK_CLOSED);
        DLT_STATUS(dlock_lock(queue.waiters[i].lock, &dlt_err), DLOCK_CLOSED);
        dlock_free(queue.waiters[i].lock);
    }
    DLT_STATE(queue.holder, DLOCK_STATE_HELD, "shutdown ended a lock that is held");
    DLT_OK(dlock_unlock(queue.holder, &dlt_err));
    dlock_client_shutdown(queue.client);
    dlock_free(queue.holder);
    dlock_free(queue.foreign);
    dlock_client_close(queue.client);
    dlock_client_close(queue.other);
}

void dlt_case_close_ends_waits(struct dlt_run *run)
{
    struct dlock_handle *next = NULL;
    struct queue queue;
    int64_t start_ns = 0;

    queue_start(&queue, run);
    next = dlt_lock(run, queue.other, "x", 0);
    start_ns = dlt_now_ns();
    dlock_client_close(queue.client);
    queue_ends(&queue, start_ns);
    DLT_OK(dlock_trylock(next, &dlt_err)); /* close unlocked it */
    DLT_STATUS(dlock_trylock(queue.holder, &dlt_err), DLOCK_CLOSED);
    dlock_free(queue.holder);
    for (int i = 0; i < WAITERS; i++) {
        DLT_STATUS(dlock_trylock(queue.waiters[i].lock, &dlt_err), DLOCK_CLOSED);
        dlock_free(queue.waiters[i].lock);
    }
    dlock_free(next);
    dlock_free(queue.foreign);
    dlock_client_close(queue.other);
}

void dlt_case_free_ends_a_wait(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client_patient(run), *other = dlt_client(run, NULL);
    struct dlock_handle *holder = dlt_lock(run, other, "x", 0);
    struct dlt_waiter waiters[2];
    int64_t start_ns = 0;

    DLT_OK(dlock_trylock(holder, &dlt_err));
    for (int i = 0; i < 2; i++) {
        waiters[i].lock = dlt_lock(run, client, "x", 0);
        dlt_waiter_start(&waiters[i], waiters[i].lock, DLOCK_FOREVER);
    }
    start_ns = dlt_now_ns();
    dlock_free(waiters[0].lock);
    DLT_WITHIN(start_ns, DLT_PATIENT_MS, "dlock_free of a waiting handle");
    DLT_OK(dlock_unlock(holder, &dlt_err));
    DLT_OK(dlt_waiter_join(&waiters[1])); /* the other waiter is none the wiser */
    dlock_free(waiters[1].lock);
    dlock_free(holder);
    dlock_client_close(client);
    dlock_client_close(other);
    (void)dlt_join(waiters[0].thread);
    DLT_STATUS(waiters[0].status, DLOCK_CANCELED);
}

void dlt_case_free_unlocks(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0), *next = dlt_lock(run, other, "x", 0);

    DLT_OK(dlock_trylock(lock, &dlt_err));
    DLT_STATUS(dlock_trylock(next, &dlt_err), DLOCK_BUSY);
    dlock_free(lock);
    DLT_OK(dlock_trylock(next, &dlt_err));
    dlock_free(next);
    dlock_client_close(client);
    dlock_client_close(other);
}

static int entries(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;

    DLT_CHECK(dir != NULL, "no %s", path);
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

static void open_use_close(const struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0),
                        *second = dlt_lock(run, client, "x", 0);

    enum dlock_status status;

    /* What a slow round could not withdraw has to run out first. */
    DLT_OK(dlock_timedlock(lock, 20000, &dlt_err));
    status = dlock_timedlock(second, 5, &dlt_err); /* others than TIMEOUT: the machine is slow */
    DLT_CHECK(status == DLOCK_TIMEOUT || status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE,
              "%s: %s", dlock_status_name((int)status), dlt_err.message);
    dlock_free(second);
    dlock_free(lock);
    dlock_client_close(client);
}

/* The kernel shows a thread for a moment after it was joined, and a thread that outlives its client
 * may close a descriptor later: returns once `path` has `wanted`
 * entries, or after 5 s. */
static int entries_settled(const char *path, int wanted)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};

    for (int i = 0; i < 500 && entries(path) != wanted; i++)
        (void)nanosleep(&pause, NULL);
    return entries(path);
}

/* The first client lets libraries make what they keep; the later ones may leave nothing more. */
void dlt_case_close_leaves_nothing(struct dlt_run *run)
{
    int files = 0, threads = 0, left = 0;
    int before = entries("/proc/self/task");

    open_use_close(run);
    threads = entries_settled("/proc/self/task", before);
    files = entries("/proc/self/fd");
    for (int i = 0; i < 30; i++)
        open_use_close(run);
    left = entries_settled("/proc/self/fd", files);
    DLT_CHECK(left == files, "%d descriptors are open before and %d after 30 clients came and went",
              files, left);
    left = entries_settled("/proc/self/task", threads);
    DLT_CHECK(left == threads, "%d threads run before and %d after 30 clients came and went",
              threads, left);
}
