/* SPDX-License-Identifier: MIT */
/* Tests: core/async/driver.c core/async/acquire_async.c core/hold/operation.c */
/*
 * 10,000 operations of dlock_op_start under way on 10,000 names: how many threads, how much memory,
 * and does each get one DONE? (C19)
 */
#include "notices.h"
#include "tap.h"

#include <dirent.h>
#include <dlock/dlock.h>
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
#define OTHER_THREADS 1 /* the sanitizer's own */
#else
#define OTHER_THREADS 0
#endif

enum {
    MANY = 10000,
    CANCELED = 1000,
    LONG_MS = 120000,  /* until the next notice, on a busy machine */
    THREADS_MOST = 3,  /* of the library: two of the driver, and the renewer */
    BYTES_MOST = 1024, /* of a handle with its operation under way */
    BYTES_LEAST = 512  /* less is not counted right */
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_MEMORY 0 /* the sanitizer's malloc counts nothing */
#else
#define COUNTS_MEMORY 1
#endif

struct handle {
    struct dlock_handle *lock;
    int done; /* notices */
};

static struct handle handles[MANY];
static struct dlock_client *client;
static int threads_most;

static void want(enum dlock_status status, const char *what)
{
    if (status == DLOCK_OK)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, dlock_status_name((int)status));
    abort();
}

static struct dlock_handle *lock_new(struct dlock_client *of, int i, void *user)
{
    const struct dlock_options options = {.struct_size = sizeof options,
                                          .wait_ms = DLOCK_AS_OPTIONS,
                                          .ttl_ms = 3600000,
                                          .user = user};
    struct dlock_handle *lock = NULL;
    char name[16];

    (void)snprintf(name, sizeof name, "name-%d", i);
    want(dlock_new(of, name, strlen(name), &options, &lock, NULL), "new");
    return lock;
}

/* ---- the process that holds all names ---- */

static void holder_run(const char *uri, int said, int heard)
{
    static struct dlock_handle *held[MANY];
    struct dlock_client *own = NULL;
    char byte = 0;

    want(dlock_client_open(uri, NULL, &own, NULL), "open");
    for (int i = 0; i < MANY; i++) {
        held[i] = lock_new(own, i, NULL);
        want(dlock_trylock(held[i], NULL), "trylock");
    }
    if (write(said, "h", 1) != 1 || read(heard, &byte, 1) != 1)
        _exit(1);
    for (int i = 0; i < MANY; i++)
        dlock_free(held[i]); /* unlocks */
    dlock_client_close(own);
    _exit(0);
}

/* Returns the process; *go: a byte there makes it release all. It holds all names. */
static pid_t holder_start(const char *uri, int *go)
{
    int said[2], heard[2];
    char byte = 0;
    pid_t pid = -1;

    if (pipe(said) != 0 || pipe(heard) != 0 || (pid = fork()) < 0)
        abort();
    if (pid == 0)
        holder_run(uri, said[1], heard[0]);
    if (read(said[0], &byte, 1) != 1)
        abort();
    *go = heard[1];
    return pid;
}

/* ---- what is measured ---- */

static void threads_count(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = -1 - OTHER_THREADS; /* without this one */

    if (tasks == NULL)
        abort();
    for (const struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks))
        count += task->d_name[0] != '.';
    (void)closedir(tasks);
    if (count > threads_most)
        threads_most = count;
}

#if COUNTS_MEMORY
/* glibc's own, behind the functions of this program, which the libraries call as well. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

/* What this thread has allocated and not freed. The memory of a handle is made by the calls of the
 * application [C19.5]; what the other threads have is the cache of SQLite. */
static _Thread_local size_t bytes_in_use;

/* A block with its header. */
static size_t size_of(void *block)
{
    return block == NULL ? 0 : malloc_usable_size(block) + sizeof(size_t);
}

#define OURS __attribute__((visibility("default")))

OURS void *malloc(size_t size)
{
    void *block = __libc_malloc(size);

    bytes_in_use += size_of(block);
    return block;
}

OURS void *calloc(size_t n, size_t size)
{
    void *block = __libc_calloc(n, size);

    bytes_in_use += size_of(block);
    return block;
}

OURS void *realloc(void *block, size_t size)
{
    size_t before = size_of(block);
    void *after = __libc_realloc(block, size);

    if (after != NULL || size == 0)
        bytes_in_use += size_of(after) - before;
    return after;
}

OURS void free(void *block)
{
    bytes_in_use -= size_of(block);
    __libc_free(block);
}
#else
static size_t bytes_in_use;
#endif

/* ---- the steps ---- */

static void all_begin(void)
{
    size_t before = 0, each = 0;

    want(dlock_op_start(handles[0].lock, DLOCK_OP_LOCK, DLOCK_FOREVER, NULL), "start");
    before = bytes_in_use; /* the threads are there */
    for (int i = 1; i < MANY; i++) {
        handles[i].lock = lock_new(client, i, &handles[i]);
        want(dlock_op_start(handles[i].lock, DLOCK_OP_LOCK, DLOCK_FOREVER, NULL), "start");
    }
    threads_count();
    each = (bytes_in_use - before) / (MANY - 1);
    if (COUNTS_MEMORY)
        (void)dlt_ok(each >= BYTES_LEAST && each <= BYTES_MOST,
                     "a handle with its operation under way has %zu bytes", each);
    else
        dlt_skip("the memory of a handle", "the sanitizer's malloc does not count");
}

/* Takes one notice. Returns its status; DONE of an unlock: INTERNAL. */
static enum dlock_status notice_take(struct dlock_handle **lock)
{
    struct pollfd fd = {.fd = dlock_client_fd(client), .events = POLLIN};
    struct dlock_notice notice = {.struct_size = sizeof notice};

    if (poll(&fd, 1, LONG_MS) != 1 || dlt_notice_take(client, &notice, NULL) != 1) {
        (void)dlt_ok(false, "no notice came in %d ms", LONG_MS);
        exit(dlt_done());
    }
    if (notice.kind != DLOCK_NOTICE_DONE || notice.op != DLOCK_OP_LOCK)
        abort();
    ((struct handle *)notice.user)->done++;
    *lock = notice.lock;
    return notice.status;
}

static void some_are_canceled(void)
{
    int canceled = 0;
    struct dlock_handle *lock = NULL;

    for (int i = 0; i < CANCELED; i++)
        dlock_cancel(handles[i * (MANY / CANCELED)].lock);
    for (int i = 0; i < CANCELED; i++)
        canceled += notice_take(&lock) == DLOCK_CANCELED;
    threads_count();
    (void)dlt_ok(canceled == CANCELED, "%d of %d were cancelled", canceled, CANCELED);
}

static void the_others_acquire(int go)
{
    int acquired = 0;
    struct dlock_handle *lock = NULL;

    if (write(go, "g", 1) != 1)
        abort();
    for (int i = CANCELED; i < MANY; i++) {
        acquired += notice_take(&lock) == DLOCK_OK && dlock_state(lock) == DLOCK_STATE_HELD;
        if (i % 1000 == 0)
            threads_count();
    }
    (void)dlt_ok(acquired == MANY - CANCELED, "%d of %d acquired", acquired, MANY - CANCELED);
}

static void each_had_one(void)
{
    struct pollfd fd = {.fd = dlock_client_fd(client), .events = POLLIN};
    int wrong = 0;

    for (int i = 0; i < MANY; i++)
        wrong += handles[i].done != 1;
    (void)dlt_ok(wrong == 0 && poll(&fd, 1, 0) == 0, "each had exactly one DONE: %d had not",
                 wrong);
    (void)dlt_ok(threads_most <= THREADS_MOST, "the library had %d threads", threads_most);
}

int main(void)
{
    char directory[] = "/tmp/dlock-many-XXXXXX", path[64], uri[128];
    int go = -1, status = 0;
    pid_t holder = -1;

    if (mkdtemp(directory) == NULL)
        abort();
    (void)snprintf(path, sizeof path, "%s/locks.db", directory);
    (void)snprintf(uri, sizeof uri, "sqlite://%s?waiter_lease=60s&poll_max=60s&op_timeout=60s",
                   path);
    holder = holder_start(uri, &go);
    want(dlock_client_open(uri, NULL, &client, NULL), "open");
    handles[0].lock = lock_new(client, 0, &handles[0]);
    all_begin();
    some_are_canceled();
    the_others_acquire(go);
    each_had_one();
    (void)dlt_ok(waitpid(holder, &status, 0) == holder && status == 0, "the holder is well");
    for (int i = 0; i < MANY; i++)
        dlock_free(handles[i].lock);
    dlock_client_close(client);
    for (const char *const *suffix = (const char *const[]){"", "-wal", "-shm", "-wake", NULL};
         *suffix != NULL; suffix++) {
        (void)snprintf(uri, sizeof uri, "%s%s", path, *suffix);
        (void)unlink(uri);
    }
    (void)rmdir(directory);
    return dlt_done();
}
