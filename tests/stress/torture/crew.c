/* SPDX-License-Identifier: MIT */
#include "crew.h"
#include "oracle.h"
#include "route.h"
#include "survivor.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEAVE_MS 15000

static void note(struct crew *crew, enum dlt_event event, unsigned client)
{
    dlt_log_write(crew->log, &(struct dlt_record){
                                 .event = (uint8_t)event,
                                 .pid = member_number(client, crew->members[client].generation),
                                 .name_id = DLT_ALL_NAMES,
                             });
}

/* CLOCK_BOOTTIME less CLOCK_MONOTONIC. A pause between the two looks makes it more than it is, so
 * that the least of some is the best. */
static int64_t boot_ahead_ns(void)
{
    int64_t least_ns = INT64_MAX;

    for (int i = 0; i < 100; i++) {
        struct timespec now = {0, 0};
        int64_t ahead_ns;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        ahead_ns = dlt_log_now_ns() - ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
        least_ns = ahead_ns < least_ns ? ahead_ns : least_ns;
    }
    return least_ns;
}

/* Not every language can unblock a signal, or read the clock of the history. */
static _Noreturn void rival_exec(const char *const *argv)
{
    char ahead[24];
    sigset_t none;

    (void)snprintf(ahead, sizeof ahead, "%" PRId64, boot_ahead_ns());
    (void)setenv("TORTURE_BOOT_NS", ahead, 1);
    (void)signal(SIGTERM, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execv("/bin/sh", (char *const *)(uintptr_t)argv);
    _exit(127);
}

static _Noreturn void member_exec(const struct crew *crew, unsigned client, pid_t parent)
{
    char uri[2048], routes[200], words[7][24];
    const char *argv[] = {
        "sh",     "-c",     "exec $0 \"$@\"", crew->rival, uri,      crew->directory, words[0],
        words[1], words[2], words[3],         words[4],    words[5], words[6],        NULL,
    };
    const char **own = argv + 2;
    const struct member *member = &crew->members[client];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    store_uri(crew->store, client, uri, sizeof uri);
    store_routes(crew->store, client, routes, sizeof routes);
    (void)setenv(TORTURE_ROUTES, routes, 1);
    (void)snprintf(words[0], sizeof words[0], "%" PRIu64, crew->seed);
    (void)snprintf(words[1], sizeof words[1], "%" PRId64, crew->ttl_ms);
    (void)snprintf(words[2], sizeof words[2], "%" PRId64, crew->think_us);
    (void)snprintf(words[3], sizeof words[3], "%u", client);
    (void)snprintf(words[4], sizeof words[4], "%u", member->generation);
    (void)snprintf(words[5], sizeof words[5], "%u", crew->threads);
    (void)snprintf(words[6], sizeof words[6], "%u", crew->names);
    if (crew->rival != NULL)
        rival_exec(argv);
    own[0] = "dlock-torture";
    own[1] = "--client";
    (void)execv("/proc/self/exe", (char *const *)(uintptr_t)own);
    _exit(127);
}

bool crew_start(struct crew *crew, unsigned client)
{
    struct member *member = &crew->members[client];
    pid_t parent = getpid();
    sigset_t leave, before;

    (void)fflush(NULL);
    if (member->pid != 0)
        return false;
    member->stopped = member->leaving = member->left = false;
    /* Between fork and exec our own handler would swallow it; the client lets it through. */
    (void)sigemptyset(&leave);
    (void)sigaddset(&leave, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &leave, &before);
    member->pid = fork();
    if (member->pid == 0)
        member_exec(crew, client, parent);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (member->pid < 0)
        member->pid = 0;
    return member->pid > 0;
}

/* What a process that is no more has claimed. */
static void claims_end(struct crew *crew, unsigned client)
{
    for (uint32_t name = 0; name < crew->names; name++)
        for (unsigned i = 0; i < crew->threads; i++)
            oracle_leave(crew->shared, name, client * crew->threads + i);
}

/* It stands still. */
static void claims_inherit(struct crew *crew, unsigned client)
{
    for (uint32_t name = 0; name < crew->names; name++)
        for (unsigned i = 0; i < crew->threads; i++)
            survivor_inherit(crew->shared, name, client * crew->threads + i);
}

static void member_over(struct crew *crew, unsigned client)
{
    claims_end(crew, client);
    crew->members[client].pid = 0;
    crew->members[client].generation++;
}

/* A rival that is told to leave before it has a handler ends by the signal. */
static bool well(const struct crew *crew, const struct member *member, int status)
{
    return status == 0 || (crew->rival != NULL && member->leaving && WIFSIGNALED(status) &&
                           WTERMSIG(status) == SIGTERM);
}

/* It stands still when this returns true, so that what it did comes before what is noted next. */
static bool stand_still(struct crew *crew, unsigned client)
{
    struct member *member = &crew->members[client];
    int status = 0;

    if (member->pid == 0 || member->stopped || kill(member->pid, SIGSTOP) != 0)
        return false;
    while (waitpid(member->pid, &status, WUNTRACED) < 0)
        if (errno != EINTR)
            return false;
    if (!WIFSTOPPED(status)) { /* one that was told to leave may end just now */
        bool right = member->leaving && well(crew, member, status);

        crew->broken += !right;
        member_over(crew, client);
        member->left = right;
        return false;
    }
    member->stopped = true;
    return true;
}

/* The greatest attempt that claims something, of this client or of all; 0: none. */
static uint64_t claimed(const struct crew *crew, unsigned client)
{
    unsigned first = client == crew->clients ? 0 : client * crew->threads;
    unsigned end = client == crew->clients ? client * crew->threads : first + crew->threads;
    uint64_t greatest = 0;

    for (uint32_t name = 0; name < crew->names; name++)
        for (unsigned place = first; place < end; place++) {
            uint64_t attempt = oracle_claims(crew->shared, name, place);

            greatest = attempt > greatest ? attempt : greatest;
        }
    return greatest;
}

void crew_await_claim(const struct crew *crew, unsigned client, int64_t most_ms)
{
    uint64_t before = 0, now = 0;

    for (int64_t ms = 0; ms < most_ms && (now == 0 || now != before); ms++) {
        before = now;
        (void)poll(NULL, 0, 1);
        now = claimed(crew, client);
    }
}

bool crew_stop(struct crew *crew, unsigned client)
{
    bool stopped = stand_still(crew, client);

    if (stopped)
        note(crew, DLT_NEMESIS_STOP, client);
    return stopped;
}

bool crew_cont(struct crew *crew, unsigned client)
{
    struct member *member = &crew->members[client];

    if (member->pid == 0 || !member->stopped)
        return false;
    note(crew, DLT_NEMESIS_CONT, client);
    member->stopped = false;
    return kill(member->pid, SIGCONT) == 0;
}

bool crew_kill(struct crew *crew, unsigned client)
{
    struct member *member = &crew->members[client];
    int status = 0;

    if (!stand_still(crew, client))
        return false;
    note(crew, DLT_NEMESIS_KILL, client);
    claims_inherit(crew, client);
    claims_end(crew, client);
    (void)kill(member->pid, SIGKILL);
    while (waitpid(member->pid, &status, 0) < 0 && errno == EINTR)
        ;
    member_over(crew, client);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* 1: it has ended, and well; 0: it runs; -1: badly. */
static int ended(struct crew *crew, unsigned client)
{
    struct member *member = &crew->members[client];
    int status = 0;
    bool right;

    if (waitpid(member->pid, &status, WNOHANG) != member->pid)
        return 0;
    right = well(crew, member, status);
    (void)fflush(stdout);
    if (!right)
        (void)fprintf(stderr, "dlock-torture: client %u (pid %d) ended with %s %d\n", client,
                      (int)member->pid, WIFSIGNALED(status) ? "signal" : "status",
                      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    member_over(crew, client);
    member->left = right;
    crew->broken += !right;
    return right ? 1 : -1;
}

static bool wait_for_end(struct crew *crew, unsigned client, int64_t until_ns)
{
    for (;;) {
        int result = ended(crew, client);

        if (result != 0)
            return result > 0;
        if (dlt_log_now_ns() > until_ns)
            return false;
        (void)poll(NULL, 0, 5);
    }
}

bool crew_leave(struct crew *crew, unsigned client)
{
    struct member *member = &crew->members[client];

    member->leaving = member->pid != 0 && !member->stopped && kill(member->pid, SIGTERM) == 0;
    member->leave_ns = dlt_log_now_ns() + LEAVE_MS * INT64_C(1000000);
    return member->leaving;
}

enum crew_left crew_left(struct crew *crew, unsigned client)
{
    struct member *member = &crew->members[client];

    if (member->pid != 0)
        (void)ended(crew, client);
    if (member->pid == 0)
        return member->left ? CREW_LEFT : CREW_STAYED;
    if (dlt_log_now_ns() < member->leave_ns)
        return CREW_LEAVING;
    (void)fprintf(stderr, "dlock-torture: client %u does not close\n", client);
    crew->broken++;
    (void)crew_kill(crew, client);
    return CREW_STAYED;
}

void crew_look(struct crew *crew)
{
    for (unsigned i = 0; i < crew->clients; i++)
        if (crew->members[i].pid != 0 && ended(crew, i) > 0 && !crew->members[i].leaving)
            crew->broken++;
}

bool crew_end(struct crew *crew, int64_t limit_ms)
{
    int64_t until_ns = dlt_log_now_ns() + limit_ms * INT64_C(1000000);
    bool right = true;

    for (unsigned i = 0; i < crew->clients; i++) {
        if (crew->members[i].pid == 0 || wait_for_end(crew, i, until_ns))
            continue;
        right = false;
        if (crew->members[i].pid != 0) {
            (void)fprintf(stderr, "dlock-torture: client %u does not end\n", i);
            (void)crew_kill(crew, i);
        }
    }
    return right;
}
