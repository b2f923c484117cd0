/* SPDX-License-Identifier: MIT */
/*
 * dlock-soak: does a process that does the same again and again use more and more? Takes and
 * releases, opens and closes, and loses its connections, on a store of its own; once it is used to
 * it, none of them may use more. Prints TAP. Exit: 0 it does not, 1 it does, 2 wrong
 * arguments, 3 nothing could be tried.
 */
#include "../../kit/drop.h"
#include "store.h"
#include "usage.h"

#include <dlock/dlock.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP 100 /* rounds before those that are measured */

/* Heap that may be there in addition: the parts of one connection that was just lost (2,432 bytes
 * seen), and less than the smallest block a round. */
#define HEAP_SLACK   4096
#define HEAP_A_ROUND 4

#define HEAP_A_CONNECTION 24576 /* 20 KB seen */
/* Of pages not much can be said: blocks move. */
#define RESIDENT_SLACK   1048576
#define RESIDENT_A_ROUND 8

struct soak {
    const struct backend *backend;
    struct store store;
    char directory[DLT_DIRECTORY_SIZE];
    char uri[256];
    long pairs, opens, reconnects;
    size_t plant; /* bytes that each round leaks, to see whether that is seen */
    unsigned tests, failed;
};

/* One round; false: it cannot go on, and said why. */
typedef bool round_fn(struct soak *soak, struct dlock_client *client, struct dlock_handle *lock);

static bool complain(const char *what, const struct dlock_error *err)
{
    printf("# %s: %s\n", what, err->message);
    return false;
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct dlock_client *client_open(const struct soak *soak)
{
    struct dlock_client_options options = {.struct_size = sizeof options, .defaults = "ttl=20s"};
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;

    if (dlock_client_open(soak->uri, &options, &client, &err) != DLOCK_OK)
        (void)complain(soak->uri, &err);
    return client;
}

static struct dlock_handle *lock_new(struct dlock_client *client)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *lock = NULL;

    if (client != NULL && dlock_new(client, "soak", 4, NULL, &lock, &err) != DLOCK_OK)
        (void)complain("a handle", &err);
    return lock;
}

static bool pair(struct soak *soak, struct dlock_client *client, struct dlock_handle *lock)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    (void)soak;
    (void)client;
    if (dlock_timedlock(lock, 20000, &err) != DLOCK_OK)
        return complain("lock", &err);
    return dlock_unlock(lock, &err) == DLOCK_OK || complain("unlock", &err);
}

static bool open_and_close(struct soak *soak, struct dlock_client *client,
                           struct dlock_handle *lock)
{
    struct dlock_client *own = client_open(soak);
    struct dlock_handle *own_lock = lock_new(own);
    bool right = own_lock != NULL && pair(soak, own, own_lock);

    (void)client;
    (void)lock;
    dlock_free(own_lock);
    dlock_client_close(own);
    return right;
}

/* Whatever is lost, one of a few next attempts gets the lock. */
static bool reconnect(struct soak *soak, struct dlock_client *client, struct dlock_handle *lock)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    unsigned kicked = 0;

    (void)client;
    for (unsigned node = 0; node < soak->backend->nodes; node++)
        kicked += store_kick(&soak->store, node);
    if (kicked == 0)
        return complain("no connection was there to end", &err);
    for (int i = 0; i < 10; i++)
        if (dlock_timedlock(lock, 5000, &err) == DLOCK_OK) {
            dlt_drop(dlock_unlock(lock, &err));
            return true;
        }
    return complain("lock", &err);
}

static bool flat(const struct soak *soak, const char *what, long count, struct usage before,
                 struct usage after, double took_s)
{
    /* A majority keeps one or more connections to each node, as they were wanted at once. */
    int64_t spare = soak->backend->majority ? soak->backend->nodes : 0;
    bool right =
        after.heap - before.heap <= HEAP_SLACK + HEAP_A_ROUND * count + spare * HEAP_A_CONNECTION &&
        after.resident - before.resident <= RESIDENT_SLACK + RESIDENT_A_ROUND * count &&
        after.descriptors <= before.descriptors + spare && after.threads <= before.threads;

    printf("# %ld %s in %.1f s; heap %+" PRId64 " bytes, resident %+" PRId64
           ", descriptors %+" PRId64 ", threads %+" PRId64 "\n",
           count, what, took_s, after.heap - before.heap, after.resident - before.resident,
           after.descriptors - before.descriptors, after.threads - before.threads);
    return right;
}

/* Reachable for ever, as what a library forgets to give back in a list of its own. */
static void plant(size_t bytes)
{
    static void **last;
    void **block = bytes >= sizeof *block ? malloc(bytes) : NULL;

    if (block == NULL)
        return;
    *block = (void *)last;
    last = block;
}

static void soak_in(struct soak *soak, const char *what, long count, round_fn *fn)
{
    struct dlock_client *client = client_open(soak);
    struct dlock_handle *lock = lock_new(client);
    struct usage before = {0};
    double start_s = 0;
    bool right = lock != NULL;

    for (long i = 0; right && i < WARM_UP + count; i++) {
        if (i == WARM_UP) {
            before = usage_now();
            start_s = now_s();
        }
        right = fn(soak, client, lock);
        plant(soak->plant);
    }
    right = right && flat(soak, what, count, before, usage_now(), now_s() - start_s);
    dlock_free(lock);
    dlock_client_close(client);
    soak->failed += !right;
    printf("%sok %u - %s leave nothing behind\n", right ? "" : "not ", ++soak->tests, what);
}

static bool arguments_read(struct soak *soak, int argc, char **argv)
{
    static const struct option options[] = {
        {"backend", required_argument, NULL, 'b'}, {"pairs", required_argument, NULL, 'p'},
        {"opens", required_argument, NULL, 'o'},   {"reconnects", required_argument, NULL, 'r'},
        {"plant", required_argument, NULL, 'l'},   {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'b')
            soak->backend = backend_find(optarg);
        else if (option == 'p')
            soak->pairs = strtol(optarg, NULL, 10);
        else if (option == 'o')
            soak->opens = strtol(optarg, NULL, 10);
        else if (option == 'r')
            soak->reconnects = strtol(optarg, NULL, 10);
        else if (option == 'l')
            soak->plant = strtoul(optarg, NULL, 10);
        else
            return false;
    }
    return soak->backend != NULL && optind == argc && soak->pairs > 1 && soak->opens > 1 &&
           soak->reconnects > 1;
}

/* What the allocator keeps for each thread is in the figures, and comes and goes. */
static void tune(char **argv)
{
    if (getenv("GLIBC_TUNABLES") == NULL &&
        setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1) == 0)
        (void)execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    static struct soak soak = {.pairs = 10000, .opens = 200, .reconnects = 100};

    bool remote;

    tune(argv);
    if (!arguments_read(&soak, argc, argv) || soak.backend == NULL) {
        (void)fprintf(stderr,
                      "usage: dlock-soak --backend %s [--pairs N] [--opens N] "
                      "[--reconnects N] [--plant BYTES]\n",
                      backend_names());
        return 2;
    }
    remote = soak.backend->nodes > 0;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)mallopt(M_ARENA_MAX, 1); /* the others are not in the figures */
    if (!dlt_directory_make(soak.directory, "soak") ||
        !store_start(&soak.store, &(struct store_options){.backend = soak.backend,
                                                          .directory = soak.directory,
                                                          .clients = 1,
                                                          .forgets = true})) {
        (void)fprintf(stderr, "dlock-soak: %s\n", soak.store.why);
        store_stop(&soak.store);
        return 3;
    }
    store_uri(&soak.store, 0, soak.uri, sizeof soak.uri);
    soak_in(&soak, "pairs of lock and unlock", soak.pairs, pair);
    soak_in(&soak, "openings and closings", soak.opens, open_and_close);
    if (remote)
        soak_in(&soak, "lost connections", soak.reconnects, reconnect);
    printf("1..%u\n", soak.tests);
    store_stop(&soak.store);
    dlt_directory_remove(soak.directory);
    return soak.failed == 0 ? 0 : 1;
}
