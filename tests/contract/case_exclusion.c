/* SPDX-License-Identifier: MIT */
/* Is it a lock? */
#include "child.h"
#include "conformance.h"
#include "tempdir.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void dlt_case_exclusion_handles(struct dlt_run *run)
{
    struct dlock_client *one = dlt_client(run, NULL), *two = dlt_client(run, NULL);
    struct dlock_handle *a = dlt_lock(run, one, "x", 0);
    struct dlock_handle *locks[2] = {dlt_lock(run, one, "x", 0), dlt_lock(run, two, "x", 0)};

    for (int i = 0; i < 2; i++) {
        DLT_OK(dlock_trylock(a, &dlt_err));
        DLT_STATUS(dlock_trylock(locks[i], &dlt_err), DLOCK_BUSY);
        DLT_OK(dlock_unlock(a, &dlt_err));
        DLT_OK(dlock_trylock(locks[i], &dlt_err));
        DLT_STATUS(dlock_trylock(a, &dlt_err), DLOCK_BUSY);
        DLT_OK(dlock_unlock(locks[i], &dlt_err));
        dlock_free(locks[i]);
    }
    dlock_free(a);
    dlock_client_close(one);
    dlock_client_close(two);
}

#define THREADS 8
#define TURNS   40

struct crowd {
    const struct dlt_run *run;
    struct dlock_client *clients[2];
    _Atomic int inside;
    _Atomic int number; /* read and written apart: an overlap loses updates */
    _Atomic int next;
};

static void *crowd_member(void *arg)
{
    struct crowd *crowd = arg;
    int me = atomic_fetch_add(&crowd->next, 1);
    struct dlock_handle *lock = dlt_lock(crowd->run, crowd->clients[me % 2], "crowd", 0);

    for (int turn = 0; turn < TURNS; turn++) {
        int seen = 0;

        DLT_OK(dlock_timedlock(lock, 60000, &dlt_err));
        DLT_CHECK(atomic_fetch_add(&crowd->inside, 1) == 0, "two threads hold the lock at once");
        seen = atomic_load(&crowd->number);
        (void)sched_yield();
        atomic_store(&crowd->number, seen + 1);
        atomic_fetch_sub(&crowd->inside, 1);
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    dlock_free(lock);
    return NULL;
}

void dlt_case_exclusion_threads(struct dlt_run *run)
{
    struct crowd crowd = {.run = run, .clients = {dlt_client(run, NULL), dlt_client(run, NULL)}};
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        threads[i] = dlt_thread(crowd_member, &crowd);
    for (int i = 0; i < THREADS; i++)
        (void)dlt_join(threads[i]);
    DLT_CHECK(crowd.number == THREADS * TURNS, "the number is %d after %d additions under the lock",
              crowd.number, THREADS * TURNS);
    dlock_client_close(crowd.clients[0]);
    dlock_client_close(crowd.clients[1]);
}

/* The claim of the first has to be over, by its own account, when the second one's begins. */
void dlt_case_exclusion_expiry(struct dlt_run *run)
{
    struct dlock_client *one = dlt_client(run, NULL), *two = dlt_client(run, NULL);
    struct dlock_handle *a = dlt_lease(run, one, "x", 250), *b = dlt_lease(run, two, "x", 250);
    int rounds = dlt_ttl(one, 250) < 1000 ? 6 : 3;

    DLT_TAKE(a);
    for (int i = 0; i < rounds; i++) {
        struct dlock_handle *holder = i % 2 == 0 ? a : b, *next = i % 2 == 0 ? b : a;

        DLT_OK(dlock_timedlock(next, 10000, &dlt_err));
        DLT_CHECK(dlock_state(holder) == DLOCK_STATE_LOST && dlock_remaining_ms(holder) == 0,
                  "round %d: the first handle is still HELD when the second one acquired", i);
        DLT_STATUS(dlock_unlock(holder, &dlt_err), DLOCK_LOST);
    }
    dlock_free(a);
    dlock_free(b);
    dlock_client_close(one);
    dlock_client_close(two);
}

#define PROCESSES     4
#define PROCESS_TURNS 30

static void fences_check(const char *path, int rising)
{
    FILE *file = fopen(path, "re");
    char line[32];
    uint64_t last = 0;
    int count = 0;

    DLT_CHECK(file != NULL, "no %s", path);
    for (; fgets(line, sizeof line, file) != NULL; count++) {
        uint64_t fence = strtoull(line, NULL, 10);

        DLT_CHECK(!rising || fence > last,
                  "fence %" PRIu64 " came after %" PRIu64 ", want a greater one", fence, last);
        last = fence;
    }
    DLT_CHECK(count == PROCESSES * PROCESS_TURNS, "%d fences were noted, want one for each turn",
              count);
    (void)fclose(file);
}

void dlt_case_exclusion_processes(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlt_child children[PROCESSES];
    char dir[256], path[300], fences[320], text[32] = "";
    FILE *number = NULL;

    DLT_CHECK(dlt_tempdir_make(dir, sizeof dir) == 0, "no directory");
    (void)snprintf(path, sizeof path, "%s/number", dir);
    (void)snprintf(fences, sizeof fences, "%s.fences", path);
    for (int i = 0; i < PROCESSES; i++) {
        dlt_child_start(&children[i], run, NULL);
        dlt_child_want(&children[i], "OK", "new 0 %scount 30000 1", run->prefix);
    }
    for (int i = 0; i < PROCESSES; i++)
        dlt_child_tell(&children[i], "count 0 %d %s", PROCESS_TURNS, path);
    for (int i = 0; i < PROCESSES; i++) {
        DLT_CHECK(strcmp(dlt_child_hear(&children[i]), "OK") == 0, "%s", children[i].reply);
        dlt_child_stop(&children[i]);
    }
    number = fopen(path, "re");
    DLT_CHECK(number != NULL && fgets(text, sizeof text, number) != NULL,
              "the file of the number is empty");
    (void)fclose(number);
    DLT_CHECK(strtol(text, NULL, 10) == PROCESSES * PROCESS_TURNS,
              "the number is %s after %d additions under the lock", text,
              PROCESSES * PROCESS_TURNS);
    fences_check(fences, (dlock_client_caps(client) & DLOCK_CAP_FENCE) != 0);
    dlt_tempdir_remove(dir);
    dlock_client_close(client);
}
