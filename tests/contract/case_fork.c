/* SPDX-License-Identifier: MIT */
/* Fork, exec, signals: is the process left as it was? */
#include "../kit/notices.h"
#include "child.h"
#include "conformance.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool no_info(void *arg, const struct dlock_holder *info)
{
    (void)arg;
    (void)info;
    return 0;
}

/* The number of calls that did not say FORKED, or that said something was held. */
static int forked_calls(struct dlock_client *client, struct dlock_handle *lock)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_notice event = {.struct_size = sizeof event};
    struct dlock_handle *fresh = NULL;
    char token[DLOCK_TOKEN_CHARS];
    int wrong = 0;

    wrong += dlock_trylock(lock, &err) != DLOCK_FORKED;
    wrong += err.message[0] == '\0';
    wrong += dlock_lock(lock, NULL) != DLOCK_FORKED;
    wrong += dlock_timedlock(lock, 10, NULL) != DLOCK_FORKED;
    wrong += dlock_rdlock(lock, NULL) != DLOCK_FORKED;
    wrong += dlock_tryrdlock(lock, NULL) != DLOCK_FORKED;
    wrong += dlock_timedrdlock(lock, 10, NULL) != DLOCK_FORKED;
    wrong += dlock_downgrade(lock, NULL) != DLOCK_FORKED;
    wrong += dlock_adopt(lock, "0123456789abcdef0123456789abcdef", NULL) != DLOCK_FORKED;
    wrong += dlock_renew(lock, 0, NULL) != DLOCK_FORKED;
    wrong += dlock_unlock(lock, NULL) != DLOCK_FORKED;
    wrong += dlock_client_inspect(client, "x", 1, no_info, NULL, NULL) != DLOCK_FORKED;
    wrong += dlock_client_list(client, NULL, 0, no_info, NULL, NULL) != DLOCK_FORKED;
    wrong += dlock_client_break(client, "x", 1, NULL, NULL) != DLOCK_FORKED;
    wrong += dlock_client_probe(client, NULL, NULL, NULL) != DLOCK_FORKED;
    wrong += dlock_new(client, "x", 1, NULL, &fresh, NULL) != DLOCK_FORKED;
    wrong += dlock_state(lock) != DLOCK_STATE_FREE;
    wrong += dlock_remaining_ms(lock) != 0;
    wrong += dlock_token(lock, token, sizeof token) != 0;
    wrong += dlock_client_ttl_ms(client, 1000) != 0;
    wrong += dlock_client_fd(client) != -1;
    wrong += dlt_notice_take(client, &event, NULL) != -1;
    dlock_cancel(lock);
    dlock_client_shutdown(client);
    dlock_free(lock);
    dlock_client_close(client);
    return wrong;
}

static int child_status(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        DLT_CHECK(errno == EINTR, "waitpid");
    DLT_CHECK(WIFEXITED(status), "the child died of signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

void dlt_case_fork_child_is_told(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    int64_t ttl_ms = dlt_kept_ttl_ms(run);
    struct dlock_handle *lock = dlt_lock(run, client, "x", ttl_ms),
                        *next = dlt_lock(run, other, "x", 0);
    int wrong = 0;
    pid_t pid = 0;

    DLT_TAKE(lock);
    (void)fflush(NULL);
    pid = fork();
    DLT_CHECK(pid >= 0, "no process");
    if (pid == 0)
        _exit(forked_calls(client, lock));
    wrong = child_status(pid);
    DLT_CHECK(wrong == 0, "%d calls in the child did not answer FORKED, want 0", wrong);
    /* The child freed and closed; here it goes on, renewals included. */
    dlt_sleep_ms(dlt_ttl(client, ttl_ms) + 1000);
    DLT_STATE(lock, DLOCK_STATE_HELD, "the child took the lock along");
    DLT_STATUS(dlock_trylock(next, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_OK(dlock_trylock(next, &dlt_err));
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* Fork while other threads are inside calls: the child must not hang on a lock they held. */
static void *busy_thread(void *arg)
{
    struct dlock_handle *lock = arg;

    while (dlock_trylock(lock, &dlt_err) != DLOCK_CLOSED)
        if (dlock_unlock(lock, &dlt_err) == DLOCK_OK)
            dlt_sleep_until(dlt_now_ns() + 100000); /* others use the store, too */
    return NULL;
}

void dlt_case_fork_amid_calls(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *locks[3];
    pthread_t threads[3];

    for (int i = 0; i < 3; i++) {
        locks[i] = dlt_lock(run, client, i == 0 ? "x" : "y", 0);
        threads[i] = dlt_thread(busy_thread, locks[i]);
    }
    for (int i = 0; i < 30; i++) {
        pid_t pid = fork();

        DLT_CHECK(pid >= 0, "no process");
        if (pid == 0)
            _exit(forked_calls(client, locks[i % 3]));
        DLT_CHECK(child_status(pid) == 0, "child %d: a call did not answer FORKED", i);
    }
    dlock_client_shutdown(client);
    for (int i = 0; i < 3; i++) {
        (void)dlt_join(threads[i]);
        dlock_free(locks[i]);
    }
    dlock_client_close(client);
}

void dlt_case_exec_closes_descriptors(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct dlt_waiter waiter;
    int output[2];
    char text[1024] = "";
    pid_t pid = 0;

    DLT_OK(dlock_trylock(lock, &dlt_err));
    dlt_waiter_start(&waiter, dlt_lock(run, client, "x", 0), 500);
    DLT_CHECK(pipe2(output, O_CLOEXEC) == 0, "no pipe");
    pid = fork();
    DLT_CHECK(pid >= 0, "no process");
    if (pid == 0) {
        (void)dup2(output[1], 1);
        (void)execl(run->program, "dlock-conformance", "--role", "descriptors", (char *)NULL);
        _exit(127);
    }
    (void)close(output[1]);
    for (size_t used = 0; used < sizeof text - 1;) {
        ssize_t got = read(output[0], text + used, sizeof text - 1 - used);

        if (got <= 0)
            break;
        used += (size_t)got;
    }
    (void)close(output[0]);
    DLT_CHECK(child_status(pid) == 0, "the program after exec did not run");
    DLT_CHECK(text[0] == '\0', "descriptors are open after exec, want none: %s", text);
    DLT_CHECK(dlt_ran_out(dlt_waiter_join(&waiter)), "the wait ended with %s, want TIMEOUT",
              dlock_status_name((int)waiter.status));
    dlock_free(waiter.lock);
    dlock_free(lock);
    dlock_client_close(client);
}

void dlt_case_exec_child_is_a_stranger(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct dlt_child child;

    DLT_OK(dlock_trylock(lock, &dlt_err));
    dlt_child_start(&child, run, NULL);
    dlt_child_want(&child, "OK", "new 0 %sx 30000 1", run->prefix);
    dlt_child_want(&child, "BUSY", "try 0");
    dlt_child_want(&child, "NOT_HELD", "unlock 0");
    DLT_OK(dlock_unlock(lock, &dlt_err));
    dlt_child_want(&child, "OK", "try 0");
    DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_BUSY);
    dlt_child_stop(&child);
    DLT_OK(dlock_trylock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}

static void dispositions_read(struct sigaction actions[65], sigset_t *mask)
{
    for (int i = 1; i < 65; i++)
        (void)sigaction(i, NULL, &actions[i]);
    DLT_CHECK(pthread_sigmask(SIG_SETMASK, NULL, mask) == 0, "pthread_sigmask");
}

static uint64_t status_mask(const char *task, const char *field)
{
    char path[300], line[256];
    uint64_t mask = 0;
    FILE *file = NULL;

    (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
    file = fopen(path, "re");
    if (file == NULL)
        return UINT64_MAX; /* it ended */
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, field, strlen(field)) == 0)
            mask = strtoull(line + strlen(field), NULL, 16);
    }
    (void)fclose(file);
    return mask;
}

/* What an application's handler is for must never run on a thread of the library. */
static void threads_check(const char *const *known, size_t known_count)
{
    const uint64_t wanted = UINT64_C(1) << (SIGTERM - 1) | UINT64_C(1) << (SIGINT - 1) |
                            UINT64_C(1) << (SIGUSR1 - 1) | UINT64_C(1) << (SIGALRM - 1) |
                            UINT64_C(1) << (SIGCHLD - 1) | UINT64_C(1) << (SIGHUP - 1);
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry = NULL;

    DLT_CHECK(dir != NULL, "no /proc/self/task");
    while ((entry = readdir(dir)) != NULL) {
        int ours = entry->d_name[0] == '.';

        for (size_t i = 0; i < known_count; i++)
            ours |= strcmp(entry->d_name, known[i]) == 0;
        DLT_CHECK(ours || (status_mask(entry->d_name, "SigBlk:") & wanted) == wanted,
                  "thread %s of the library takes signals: mask %016" PRIx64, entry->d_name,
                  status_mask(entry->d_name, "SigBlk:"));
    }
    (void)closedir(dir);
}

/* The threads that are there before the library has any: this one, and a sanitizer's. */
static size_t threads_read(char names[16][32], const char *known[16])
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry = NULL;
    size_t count = 0;

    DLT_CHECK(dir != NULL, "no /proc/self/task");
    while ((entry = readdir(dir)) != NULL && count < 16) {
        (void)snprintf(names[count], sizeof names[count], "%.31s", entry->d_name);
        known[count] = names[count];
        count++;
    }
    (void)closedir(dir);
    return count;
}

void dlt_case_signals_are_left_alone(struct dlt_run *run)
{
    static struct sigaction before[65], after[65];
    sigset_t mask_before, mask_after;
    char names[16][32];
    const char *known[16];
    size_t known_count = threads_read(names, known);
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;

    dispositions_read(before, &mask_before);
    client = dlt_client(run, NULL);
    lock = dlt_lock(run, client, "x", dlt_kept_ttl_ms(run));
    DLT_TAKE(lock);
    dlt_sleep_ms(dlt_ttl(client, dlt_kept_ttl_ms(run)) * 2 / 5); /* it is renewed at a third */
    DLT_STATE(lock, DLOCK_STATE_HELD, "the renewer did not run");
    threads_check(known, known_count);
    dispositions_read(after, &mask_after);
    for (int i = 1; i < 65; i++) {
        DLT_CHECK(before[i].sa_handler == after[i].sa_handler &&
                      before[i].sa_flags == after[i].sa_flags,
                  "the disposition of signal %d changed", i);
        DLT_CHECK(sigismember(&mask_before, i) == sigismember(&mask_after, i),
                  "the mask of signal %d changed", i);
    }
    dlock_free(lock);
    dlock_client_close(client);
}
