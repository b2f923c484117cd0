/* SPDX-License-Identifier: MIT */
/*
 * The n-th call fails, for n = 1, 2 ... until a run meets no failure: does dlock say what happened,
 * and hold what it says it holds? (C4, C7)
 *
 *     test_nth_fault [OPTION] URI...      {tmp} in a URI: a directory of each run
 *
 * --memory-kills: a library below dlock crashes without memory, and nobody can help that.
 * --memory-step N: of the allocations only each N-th one: there are thousands.
 * --spare TEXT: the allocations, and the reads of files, of a library whose path has this text are
 * left alone: it ends the process when they fail. Its sockets do not wait, so that no signal
 * interrupts what it sends and receives.
 *
 * Each run is a process of its own, with a store of its own, so that the first use of a store is
 * met as well, but for TLS.
 */
#include "nth_script.h"
#include "tap.h"
#include "tempdir.h"
#include "under_shim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NTH_MOST         20000 /* a loop that does not end */
#define BAD_MOST         5     /* of one plan; then the next plan */
#define RUN_MOST_S       30
#define UNEXPLAINED_MOST 3 /* in a row: a busy machine has one */

static struct dlt_fault fault;
static bool memory_kills;
static uint64_t memory_step = 1;
static const char *spare; /* a library's path */

static const struct plan {
    const char *what;
    uint64_t kinds;
    int error;
    size_t most;
    bool transparent;       /* the application may not notice */
    enum dlock_status also; /* besides the answers that any failure may have */
} plans[] = {
    {"no memory", DLT_FAULT_MEMORY, ENOMEM, 0, false, DLOCK_OK},
    {"no thread", DLT_FAULT_BIT(PTHREAD), EAGAIN, 0, false, DLOCK_OK},
    {"no descriptor to open", DLT_FAULT_BIT(OPEN), EMFILE, 0, false, DLOCK_OK},
    {"no descriptor for events", DLT_FAULT_BIT(EVENTFD) | DLT_FAULT_BIT(TIMERFD), EMFILE, 0, false,
     DLOCK_OK},
    {"no mapping", DLT_FAULT_BIT(MMAP), ENOMEM, 0, false, DLOCK_OK},
    {"no randomness", DLT_FAULT_BIT(GETRANDOM), ENOSYS, 0, false, DLOCK_INTERNAL},
    {"interrupted randomness", DLT_FAULT_BIT(GETRANDOM), EINTR, 0, true, DLOCK_OK},
    {"short randomness", DLT_FAULT_BIT(GETRANDOM), 0, 1, true, DLOCK_OK},
    {"interrupted poll", DLT_FAULT_BIT(POLL), EINTR, 0, true, DLOCK_OK},
    {"bad read", DLT_FAULT_BIT(READ) | DLT_FAULT_BIT(PREAD), EIO, 0, false, DLOCK_OK},
    {"interrupted read", DLT_FAULT_BIT(READ) | DLT_FAULT_BIT(PREAD), EINTR, 0, true, DLOCK_OK},
    {"bad write", DLT_FAULT_BIT(WRITE) | DLT_FAULT_BIT(PWRITE), EIO, 0, false, DLOCK_OK},
    {"full disk", DLT_FAULT_BIT(WRITE) | DLT_FAULT_BIT(PWRITE), ENOSPC, 0, false, DLOCK_OK},
    {"short write", DLT_FAULT_BIT(WRITE) | DLT_FAULT_BIT(PWRITE), 0, 1, true, DLOCK_OK},
    {"no socket", DLT_FAULT_BIT(SOCKET), EMFILE, 0, false, DLOCK_OK},
    {"no connection", DLT_FAULT_BIT(CONNECT), ECONNREFUSED, 0, false, DLOCK_OK},
    {"bad send", DLT_FAULT_BIT(SEND), ECONNRESET, 0, false, DLOCK_OK},
    {"interrupted send", DLT_FAULT_BIT(SEND), EINTR, 0, true, DLOCK_OK},
    {"short send", DLT_FAULT_BIT(SEND), 0, 1, true, DLOCK_OK},
    {"bad receive", DLT_FAULT_BIT(RECV), ECONNRESET, 0, false, DLOCK_OK},
    {"interrupted receive", DLT_FAULT_BIT(RECV), EINTR, 0, true, DLOCK_OK},
    {"short receive", DLT_FAULT_BIT(RECV), 0, 1, true, DLOCK_OK},
    {"bad sync", DLT_FAULT_BIT(FSYNC) | DLT_FAULT_BIT(FDATASYNC), EIO, 0, false, DLOCK_OK},
    {"no room to grow", DLT_FAULT_BIT(FTRUNCATE) | DLT_FAULT_BIT(FALLOCATE), ENOSPC, 0, false,
     DLOCK_OK},
    {"no file lock", DLT_FAULT_BIT(LOCK), ENOLCK, 0, false, DLOCK_OK},
};

/* lt_dlopen of libltdl 2.4.7 forgets what it had allocated when it gets no more. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libltdl.so\n";
}

#define EVERYBODY \
    (DLT_FAULT_MEMORY | DLT_FAULT_BIT(PTHREAD) | DLT_FAULT_BIT(EVENTFD) | DLT_FAULT_BIT(GETRANDOM))
#define FILES                                                                                   \
    (DLT_FAULT_BIT(OPEN) | DLT_FAULT_BIT(PREAD) | DLT_FAULT_BIT(PWRITE) | DLT_FAULT_BIT(LOCK) | \
     DLT_FAULT_BIT(FSYNC) | DLT_FAULT_BIT(FTRUNCATE) | DLT_FAULT_BIT(MMAP))
#define SERVERS \
    (DLT_FAULT_BIT(SOCKET) | DLT_FAULT_BIT(CONNECT) | DLT_FAULT_BIT(SEND) | DLT_FAULT_BIT(RECV))

/* What a store of this kind certainly calls: that a plan meets none of it means that the shim is
 * passed by. */
static uint64_t certain(const char *uri)
{
    if (strncmp(uri, "memory:", strlen("memory:")) == 0)
        return EVERYBODY;
    return EVERYBODY | (strncmp(uri, "sqlite:", strlen("sqlite:")) == 0 ? FILES : SERVERS);
}

/* One run. Its exit status; -1: it crashed or hung. */
static int run_once(const struct plan *plan, uint64_t nth, const char *text)
{
    char dir[256];
    char *uri = dlt_tempdir_expand(text, dir, sizeof dir);
    int status = -1;
    pid_t pid;

    if (uri == NULL)
        return -1;
    (void)fflush(stdout); /* the child must not print it again */
    pid = fork();
    if (pid == 0) {
        (void)alarm(RUN_MOST_S);
        exit(
            nth_script_run(&(struct nth_script){.uri = uri,
                                                .transparent = plan->transparent,
                                                .also = plan->also,
                                                .session = strstr(uri, "strategy=session") != NULL},
                           &fault,
                           &(struct dlt_fault_plan){.kinds = plan->kinds,
                                                    .nth = nth,
                                                    .error = plan->error,
                                                    .most = plan->most,
                                                    .spare = spare},
                           stdout));
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    free(uri);
    dlt_tempdir_remove(dir);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    if (WIFSIGNALED(status))
        printf("#   %s\n", WTERMSIG(status) == SIGALRM ? "hangs" : strsignal(WTERMSIG(status)));
    return -1;
}

static void check_plan(const struct plan *plan, const char *uri)
{
    uint64_t step = plan->kinds == DLT_FAULT_MEMORY ? memory_step : 1;
    unsigned bad = 0, places = 0;
    char text[512];
    uint64_t nth = 1;

    for (; places < NTH_MOST && bad < BAD_MOST; nth += step) {
        int rc = run_once(plan, nth, uri);

        for (int i = 1; i < UNEXPLAINED_MOST && rc == NTH_UNEXPLAINED; i++)
            rc = run_once(plan, nth, uri);
        if (rc == NTH_UNTOUCHED)
            break;
        places++;
        if (rc != NTH_GOOD) {
            bad++;
            printf("#   ... %s, %s: call %llu (status %d)\n", uri, plan->what,
                   (unsigned long long)nth, rc);
        }
    }
    if (places == 0 && (plan->kinds & certain(uri)) == 0) {
        (void)snprintf(text, sizeof text, "%s: %s", uri, plan->what);
        dlt_skip(text, "it calls nothing of the kind");
        return;
    }
    dlt_ok(places > 0 && bad == 0 && places < NTH_MOST, "%s: %s, at %u places, %s", uri, plan->what,
           places, step == 1 ? "which are all" : "some of all");
}

static bool is_tls(const char *uri)
{
    return strncmp(uri, "rediss:", strlen("rediss:")) == 0;
}

/* OpenSSL takes some two thousand allocations for a connection, and calls it a bad certificate or a
 * refusal when it does not get one. */
static bool concerns(const struct plan *plan, const char *uri)
{
    if (plan->kinds == DLT_FAULT_MEMORY)
        return !memory_kills && !is_tls(uri);
    return spare == NULL || plan->error != EINTR || (plan->kinds & SERVERS) == 0;
}

/* Returns the index of the first URI. */
static int options_read(int argc, char **argv)
{
    int at = 1;

    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        if (strcmp(argv[at], "--memory-kills") == 0)
            memory_kills = true;
        else if (strcmp(argv[at], "--memory-step") == 0 && at + 1 < argc)
            memory_step = strtoull(argv[++at], NULL, 10);
        else if (strcmp(argv[at], "--spare") == 0 && at + 1 < argc)
            spare = argv[++at];
        else
            abort();
    }
    return at;
}

/* OpenSSL sets itself up at its first use, and what fails then fails for good: it is set up here.
 * libpq needs it for passwords, and brings Kerberos and LDAP, which do the same. */
static void warm_up(const char *uri)
{
    struct dlock_client *client = NULL;

    if (is_tls(uri) || strncmp(uri, "postgresql:", strlen("postgresql:")) == 0)
        dlt_ok(dlock_client_open(uri, NULL, &client, NULL) == DLOCK_OK, "%s: works", uri);
    dlock_client_close(client);
}

int main(int argc, char **argv)
{
    int first = 0;
    const char *file = dlt_under_shim(argv, "DLOCK_FAULT_FILE", dlt_fault_preload);

    /* Thousands of new stores: not on a disk. */
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 1);
    if (!dlt_ok(argc > 1 && dlt_fault_open(&fault, file), "%s", file))
        return dlt_done();
    first = options_read(argc, argv);
    for (int i = first; i < argc; i++)
        warm_up(argv[i]);
    for (int i = first; i < argc; i++)
        for (size_t p = 0; p < sizeof plans / sizeof plans[0]; p++)
            if (concerns(&plans[p], argv[i]))
                check_plan(&plans[p], argv[i]);
    dlt_fault_close(&fault);
    return dlt_done();
}
