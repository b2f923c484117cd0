/* SPDX-License-Identifier: MIT */
/*
 * dlock-torture: many clients want few names, and all that is around them goes wrong: they are
 * stopped, killed and restarted, and so are the servers and the connections. Afterwards the
 * histories of all say whether that was a lock. README.md has more.
 *
 * Prints TAP. Exit: 0 as promised, 1 not so, 2 wrong arguments, 3 nothing could be tried.
 */
#include "nemesis.h"
#include "settings.h"
#include "survivor.h"
#include "verdict.h"
#include "worker.h"

#include <errno.h>
#include <inttypes.h>
#include <ruler.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEMESIS_RECORDS (1u << 18)
#define END_MS          20000 /* for clients to end in, after the last thing went wrong */
#define BAR             30

struct run {
    struct settings settings;
    char directory[DLT_DIRECTORY_SIZE];
    struct store store;
    struct crew crew;
    struct nemesis nemesis;
    struct dlt_skew clocks;
    struct plan plan;
    int64_t whole_ms; /* with the quiet at the end */
};

static volatile int interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* ---- a client ---- */

static unsigned small(const char *text)
{
    return (unsigned)strtoul(text, NULL, 10);
}

/* The words are crew.c's. */
static int client_main(char **words)
{
    const char *limit = getenv(TORTURE_LIMIT);
    struct worker_order order = {
        .uri = words[0],
        .directory = words[1],
        .seed = strtoull(words[2], NULL, 10),
        .ttl_ms = strtoll(words[3], NULL, 10),
        .think_us = strtoll(words[4], NULL, 10),
        .number = small(words[5]),
        .generation = small(words[6]),
        .threads = small(words[7]),
        .names = small(words[8]),
        .limit = limit != NULL ? small(limit) : 0,
    };

    order.session =
        strstr(order.uri, "strategy=session") != NULL || getenv(TORTURE_SESSION) != NULL;
    order.keeps = getenv(TORTURE_KEEPS) != NULL;
    order.programs = getenv(TORTURE_PROGRAMS) != NULL;
    order.long_holds = order.programs || getenv(TORTURE_LONG_HOLDS) != NULL;
    return worker_main(&order);
}

/* ---- the run ---- */

static int complain(const char *what, const char *why)
{
    (void)fprintf(stderr, "dlock-torture: %s: %s\n", what, why);
    return 3;
}

static void progress(void *arg)
{
    const struct run *run = arg;
    const struct shared *shared = run->crew.shared;
    int64_t past_ms = (dlt_log_now_ns() - run->nemesis.start_ns) / 1000000;
    unsigned full = (unsigned)(past_ms * BAR / run->whole_ms);
    uint64_t faults = 0;

    for (unsigned kind = 0; kind < FAULT_KINDS; kind++)
        faults += run->nemesis.tried[kind];
    full = full < BAR ? full : BAR;
    (void)fprintf(stderr,
                  "\r[%.*s%*s] %" PRId64 "/%" PRId64 " s, %" PRIu64 " locks, %" PRIu64
                  " faults, %" PRIu64 " unknown, %" PRIu64 " lost, %u at once ",
                  (int)full, "==============================", (int)(BAR - full), "",
                  past_ms / 1000, run->whole_ms / 1000, (uint64_t)atomic_load(&shared->acquired),
                  faults, (uint64_t)atomic_load(&shared->unknown),
                  (uint64_t)atomic_load(&shared->lost), atomic_load(&shared->witness_count));
}

static bool plan_of(struct run *run)
{
    const struct settings *settings = &run->settings;

    return plan_make(
        &(struct plan_terms){.seed = settings->seed,
                             .duration_ms = settings->duration_ms,
                             .lease_ms = settings->ttl_ms,
                             .clients = settings->processes,
                             .nodes = settings->backend->nodes > 0 ? settings->backend->nodes : 1,
                             .kinds = profile_faults(settings->profile, settings->backend),
                             .often = profile_often(settings->profile, settings->backend)},
        &run->plan);
}

static bool directory_make(struct run *run)
{
    if (run->settings.keep == NULL)
        return dlt_directory_make(run->directory, "torture");
    (void)snprintf(run->directory, sizeof run->directory, "%s", run->settings.keep);
    errno = ENAMETOOLONG;
    return strlen(run->settings.keep) < sizeof run->directory && mkdir(run->directory, 0700) == 0;
}

static const char *store_make(struct run *run)
{
    static char clocks[160];
    struct store_options options = {.backend = run->settings.backend,
                                    .directory = run->directory,
                                    .clients = run->settings.processes,
                                    .guarded = run->settings.profile->guarded,
                                    .routed = run->settings.rival == NULL,
                                    .lone_guard = run->settings.lone_guard,
                                    .longest_ms = settings_longest_ms(&run->settings),
                                    .forgets = run->settings.profile->forgets};

    if (run->settings.profile->clocks) {
        (void)snprintf(clocks, sizeof clocks, "%s/clocks", run->directory);
        if (!dlt_skew_open(&run->clocks, clocks))
            return strerror(errno);
        run->nemesis.clocks = &run->clocks;
        options.clocks = clocks;
    }
    return store_start(&run->store, &options) ? NULL : run->store.why;
}

static const char *crew_make(struct run *run)
{
    const struct settings *settings = &run->settings;
    char path[160], limit[16];

    (void)snprintf(limit, sizeof limit, "%u", settings->profile->limit);
    if (setenv(TORTURE_LIMIT, limit, 1) != 0 ||
        (settings->profile->keeps && setenv(TORTURE_KEEPS, "1", 1) != 0) ||
        (settings->profile->programs && setenv(TORTURE_PROGRAMS, "1", 1) != 0))
        return strerror(errno);
    (void)snprintf(path, sizeof path, "%s/nemesis.log", run->directory);
    run->crew = (struct crew){.store = &run->store,
                              .shared = shared_open(run->directory, true),
                              .log = dlt_log_open(path, NEMESIS_RECORDS),
                              .directory = run->directory,
                              .rival = settings->rival,
                              .seed = settings->seed,
                              .ttl_ms = settings->ttl_ms,
                              .think_us = settings->think_us,
                              .clients = settings->processes,
                              .threads = settings->threads,
                              .names = settings->names};
    if (run->crew.shared == NULL || run->crew.log == NULL)
        return strerror(errno);
    for (unsigned i = 0; i < settings->processes; i++)
        if (!crew_start(&run->crew, i))
            return strerror(errno);
    return NULL;
}

/* True: all clients ended by themselves. */
static bool torture(struct run *run)
{
    struct nemesis *nemesis = &run->nemesis;
    int64_t quiet_ms = (run->settings.rival != NULL ? 0 : settings_stall_ms(&run->settings)) + 1000;
    bool shows = isatty(STDERR_FILENO) == 1;

    run->whole_ms = run->settings.duration_ms + quiet_ms;
    nemesis->crew = &run->crew;
    nemesis->store = &run->store;
    nemesis->lease_ms = run->settings.ttl_ms;
    nemesis->start_ns = dlt_log_now_ns();
    nemesis->progress = shows ? progress : NULL;
    nemesis->arg = run;
    nemesis->until_seen = run->settings.until_seen;
    nemesis_run(nemesis, &run->plan, &interrupted);
    nemesis_rest(nemesis, quiet_ms, &interrupted);
    atomic_store(&run->crew.shared->stopping, 1);
    if (shows)
        (void)fputc('\n', stderr);
    return crew_end(&run->crew, END_MS);
}

static void again(const struct run *run)
{
    const struct settings *settings = &run->settings;

    printf("# again: dlock-torture");
    if (settings->commands.uri != NULL)
        store_command_print(stdout);
    else
        printf(" --backend %s", settings->backend->name);
    printf(" --profile %s --seed %" PRIu64 " --duration %" PRId64
           "ms --processes %u --threads %u --names %u --ttl %" PRId64 " --think %" PRId64 "%s%s%s",
           settings->profile->name, settings->seed, settings->duration_ms, settings->processes,
           settings->threads, settings->names, settings->ttl_ms, settings->think_us,
           settings->rival != NULL ? " --rival '" : "",
           settings->rival != NULL ? settings->rival : "", settings->rival != NULL ? "'" : "");
    if (settings->guard_rule != 0)
        printf(" --guard-rule %u off", settings->guard_rule);
    else if (settings->lone_guard)
        printf(" --lone-guard");
    putchar('\n');
    printf("# check again: dlock-history-check --slack %" PRId64 " --busy %" PRId64
           " --stall %" PRId64 " --complete%s%s %s/*.log\n",
           settings->slack_ms, settings->ttl_ms / 2,
           settings->rival != NULL ? 0 : settings_stall_ms(settings),
           settings->rival != NULL ? "" : " --told", verdict_kept(settings) ? " --kept" : "",
           run->directory);
}

static int carry_out(struct run *run)
{
    const char *why = store_make(run);
    struct verdict verdict = {
        .settings = &run->settings, .nemesis = &run->nemesis, .directory = run->directory};
    bool right = false;

    if (why == NULL)
        why = crew_make(run);
    if (why == NULL) {
        verdict.shared = run->crew.shared;
        verdict.ended = torture(run);
        verdict.took_s = (double)(dlt_log_now_ns() - run->nemesis.start_ns) / 1e9;
    } else {
        (void)crew_end(&run->crew, 0);
    }
    store_stop(&run->store);
    dlt_log_close(run->crew.log);
    if (why == NULL)
        right = verdict_print(&verdict);
    shared_close(run->crew.shared);
    if (!right || run->settings.keep != NULL)
        again(run);
    else
        dlt_directory_remove(run->directory);
    if (why != NULL)
        return complain("cannot start", why);
    return right ? 0 : 1;
}

static int run_main(struct run *run)
{
    const struct sigaction on_signal = {.sa_handler = interrupt};
    int status = 3;

    if (!plan_of(run))
        return complain("the plan", "no memory");
    if (run->settings.plan_only) {
        plan_print(stdout, &run->plan);
        store_command_stop(NULL);
        status = 0;
    } else if (directory_make(run)) {
        (void)sigaction(SIGINT, &on_signal, NULL);
        (void)sigaction(SIGTERM, &on_signal, NULL);
        (void)setvbuf(stdout, NULL, _IOLBF, 0);
        dlt_ruler_start();
        status = carry_out(run);
    } else {
        status = complain("a directory", strerror(errno));
    }
    plan_fini(&run->plan);
    return status;
}

int main(int argc, char **argv)
{
    static struct run run;

    if (argc == 11 && strcmp(argv[1], "--client") == 0)
        return client_main(argv + 2);
    if (argc == 7 && strcmp(argv[1], "--program") == 0)
        return survivor_main(argv + 2);
    if (!settings_read(&run.settings, argc, argv))
        return 2;
    return run_main(&run);
}
