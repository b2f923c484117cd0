/* SPDX-License-Identifier: MIT */
/*
 * dlock-sim: the engine of the library in virtual time, against a store that the network hides,
 * with processes that stand still and die. A seed is a run: the same one, whenever it is run.
 * Prints TAP, a test a profile. Exit: 0 nothing found, 1 something, 2 wrong arguments.
 */
#include "report.h"
#include "set.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPORTED_MOST 3

/* How long a waiter pauses at most after failures in a row. */
#define PAUSE_MOST_MS 1000

struct arguments {
    uint64_t seed, count, calls;
    const char *profile; /* NULL: all */
    const char *list;    /* NULL: none */
    const char *caught;  /* what is to be found; NULL: nothing */
    const char *never;   /* what is not, whatever else is */
    int kind;
    bool verbose, records, help, async;
};

/* Of all seeds of a profile. */
struct sums {
    uint64_t seeds, calls, messages, lost, late, stops, kills, closes, cuts, failovers, restarts;
    struct dlt_check_figures figures;
    int64_t virtual_ns;
    bool caught;
};

static const char *const kinds[SIM_KINDS] = {"queue", "watch", "poll", "session"};

static const char usage_text[] =
    "usage: dlock-sim [OPTION...]\n"
    "  --seed N      the first seed (1)\n"
    "  --count N     how many seeds (1)\n"
    "  --profile P   calm, lossy, storm, pauses, deaths, everything, grid, tethered,\n"
    "                failover, permits, data, keep, sets (all)\n"
    "  --store S     queue, watch, poll, session, any: the seed chooses (any)\n"
    "  --driver D    blocking: the calls block; async: most handles use dlock_op_start (blocking)\n"
    "  --calls N     calls of the library a seed (2000)\n"
    "  --verbose     a line a seed\n"
    "  --records     the whole history\n"
    "  --caught WHAT the test is that this is found, whatever is found before: a rule (OVERLAP), "
    "or\n"
    "                what the simulation says of itself (C14)\n"
    "  --never WHAT  the test is that this is not found, whatever else is\n"
    "  --list FILE   the seeds in there, and no others: profile, store, seed, calls a line\n";

static bool number_of(const char *text, uint64_t *number)
{
    char *end = NULL;

    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

static bool kind_of(const char *text, int *kind)
{
    for (int i = 0; i < SIM_KINDS; i++)
        if (strcmp(kinds[i], text) == 0) {
            *kind = i;
            return true;
        }
    *kind = -1;
    return strcmp(text, "any") == 0;
}

static bool driver_of(const char *text, bool *async)
{
    *async = strcmp(text, "async") == 0;
    return *async || strcmp(text, "blocking") == 0;
}

static bool arguments_read(struct arguments *arguments, int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},
        {"count", required_argument, NULL, 'n'},
        {"profile", required_argument, NULL, 'p'},
        {"store", required_argument, NULL, 'k'},
        {"calls", required_argument, NULL, 'c'},
        {"driver", required_argument, NULL, 'd'},
        {"verbose", no_argument, NULL, 'v'},
        {"records", no_argument, NULL, 'r'},
        {"caught", required_argument, NULL, 'x'},
        {"list", required_argument, NULL, 'l'},
        {"never", required_argument, NULL, 'z'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;
    bool right = true;

    while (right && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 's')
            right = number_of(optarg, &arguments->seed);
        else if (option == 'n')
            right = number_of(optarg, &arguments->count);
        else if (option == 'c')
            right = number_of(optarg, &arguments->calls);
        else if (option == 'd')
            right = driver_of(optarg, &arguments->async);
        else if (option == 'k')
            right = kind_of(optarg, &arguments->kind);
        else if (option == 'p')
            arguments->profile = optarg;
        else if (option == 'v')
            arguments->verbose = true;
        else if (option == 'r')
            arguments->records = true;
        else if (option == 'x')
            arguments->caught = optarg;
        else if (option == 'z')
            arguments->never = optarg;
        else if (option == 'l')
            arguments->list = optarg;
        else if (option == 'h')
            arguments->help = true;
        else
            right = false;
    }
    return right && optind == argc;
}

struct findings {
    unsigned count;
};

static void on_violation(void *arg, const struct dlt_violation *violation)
{
    struct findings *findings = arg;

    if (findings->count++ < REPORTED_MOST)
        dlt_report_violation(stdout, &sim_world.history, violation, 500 * SIM_MS);
}

static void again(const struct sim_run *run)
{
    printf("# again: dlock-sim --seed %" PRIu64 " --profile %s --calls %" PRIu64, run->seed,
           run->profile->name, run->calls);
    if (run->kind >= 0)
        printf(" --store %s", kinds[run->kind]);
    if (run->async)
        printf(" --driver async");
    printf("\n");
}

static void sum_up(struct sums *sums, const struct dlt_check_figures *figures)
{
    sums->seeds++;
    sums->calls += sim_world.calls;
    sums->messages += sim_world.messages;
    sums->lost += sim_world.lost;
    sums->late += sim_world.late;
    sums->stops += sim_world.stops;
    sums->kills += sim_world.kills;
    sums->closes += sim_world.closes;
    sums->cuts += sim_world.cuts;
    sums->failovers += sim_world.failovers;
    sums->restarts += sim_world.restarts;
    sums->virtual_ns += sim_now() - SIM_START_NS;
    sums->figures.acquired += figures->acquired;
    sums->figures.unknown += figures->unknown;
    sums->figures.lost += figures->lost;
    sums->figures.total += figures->total;
}

/* How long a name may be free and wanted: until the next look of whoever waits, from the moment at
 * which the server, whose clock may be slow, has forgotten the holder. After a death the lease was
 * perhaps never heard of. */
static int64_t stall_ns(void)
{
    const struct sim_choice *choice = &sim_world.choice;
    int64_t most_ms =
        100 + choice->poll_max_ms + choice->ttl_ms / 25 + choice->ttl_ms / 10; /* the margin */

    if (sim_world.profile->stall_ttls > 0)
        most_ms += sim_world.profile->stall_ttls * choice->ttl_ms + choice->waiter_lease_ms +
                   PAUSE_MOST_MS;
    if (choice->kind == SIM_SESSION)
        most_ms += SIM_KEEPALIVE_MS;
    return most_ms * SIM_MS;
}

static const char *looked_for(const struct arguments *arguments)
{
    return arguments->never != NULL ? arguments->never : arguments->caught;
}

/* Is it among what was found? */
static bool is_there(const char *what, const struct dlt_check_figures *figures, const char *why)
{
    for (unsigned rule = 0; rule < DLT_RULE_COUNT; rule++)
        if (strcmp(what, dlt_rule_name((enum dlt_rule)rule)) == 0)
            return figures->violations[rule] > 0;
    return why != NULL && strstr(why, what) != NULL;
}

/* false: something was found. */
static bool seed_run(const struct sim_run *run, const struct arguments *arguments,
                     struct sums *sums)
{
    struct findings findings = {0};
    struct dlt_check_options options = {.slack_ns = 100 * SIM_MS,
                                        .renewed = true,
                                        .explained = true,
                                        .complete = true,
                                        .told = true,
                                        .kept = true,
                                        .local_fifo = true,
                                        .handoff = 30,
                                        .report = on_violation,
                                        .arg = &findings};
    const struct sim_choice *choice = &sim_world.choice;
    struct dlt_check_figures figures;
    const char *why = sim_world_run(run);

    options.complete = sim_world.quiet;
    /* A fifth of the longest lease: an exchange of the renewer that began before another lock was
     * taken lasts that long. */
    options.stall_ns = stall_ns();
    if (sim_fails_over()) { /* the next master may lack a lease, and a place in the queue */
        options.kept = options.explained = options.local_fifo = false;
        options.stall_ns = 0; /* and grants nothing for a while */
    }
    sim_set_check_less(&options);
    options.busy_ns = choice->ttl_ms * SIM_MS / 5;
    if (dlt_check(&sim_world.history, &options, &figures) != 0)
        why = "no memory";
    if (why != NULL)
        printf("# %s\n", why);
    for (size_t i = 0; arguments->records && i < sim_world.history.count; i++)
        dlt_record_print(stdout, &sim_world.history.records[i]);
    if (arguments->verbose || why != NULL || findings.count > 0) {
        printf("# seed %" PRIu64
               " %s: %s%s%s%s%s%s%s, %u processes, %u threads, %u names, ttl %lld, "
               "place %lld, poll %lld, handoff %u, connections %u\n",
               run->seed, run->profile->name, kinds[choice->kind],
               choice->concurrent ? ", concurrent" : "", choice->fences ? ", fences" : "",
               choice->shared ? ", shared" : "", choice->wait_any ? ", wait_any" : "",
               choice->batches ? ", batches" : "", choice->parallelism > 0 ? ", shares" : "",
               choice->processes, choice->tasks, choice->names, (long long)choice->ttl_ms,
               (long long)choice->waiter_lease_ms, (long long)choice->poll_max_ms, choice->handoff,
               choice->connections);
        printf("# virtual %.3f s, quiet from %.3f s\n", (double)(sim_now() - SIM_START_NS) / 1e9,
               (double)(sim_world.quiet_ns - SIM_START_NS) / 1e9);
        dlt_report_figures(stdout, &figures);
    }
    sum_up(sums, &figures);
    if (why == NULL && findings.count == 0)
        return true;
    sums->caught = looked_for(arguments) != NULL && is_there(looked_for(arguments), &figures, why);
    again(run);
    return false;
}

static double cpu_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool profile_run(const struct arguments *arguments, const struct sim_profile *profile,
                        unsigned test)
{
    struct sums sums = {0};
    double start_s = cpu_s(), took_s;
    bool right = true;

    for (uint64_t i = 0;
         !sums.caught && (right || looked_for(arguments) != NULL) && i < arguments->count; i++) {
        struct sim_run run = {.seed = arguments->seed + i,
                              .profile = profile,
                              .kind = arguments->kind,
                              .calls = arguments->calls,
                              .async = arguments->async};

        right = seed_run(&run, arguments, &sums) && right;
    }
    took_s = cpu_s() - start_s;
    printf("# %" PRIu64 " calls (%" PRIu64 " acquired, %" PRIu64 " unknown, %" PRIu64
           " lost) in %" PRIu64
           " seeds, %.0f virtual s, %.1f CPU s, %.0f calls/s; messages %" PRIu64 " (%" PRIu64
           " lost, %" PRIu64 " late), stops %" PRIu64 ", kills %" PRIu64 ", closes %" PRIu64
           ", cuts %" PRIu64 "\n",
           sums.calls, sums.figures.acquired, sums.figures.unknown, sums.figures.lost, sums.seeds,
           (double)sums.virtual_ns / 1e9, took_s, (double)sums.calls / took_s, sums.messages,
           sums.lost, sums.late, sums.stops, sums.kills, sums.closes, sums.cuts);
    if (profile->fails_over)
        printf("# failovers %" PRIu64 ", masters that forgot all %" PRIu64 "\n", sums.failovers,
               sums.restarts);
    if (arguments->never != NULL)
        printf("%sok %u - %s: %s %sfound in %" PRIu64 " seeds\n", sums.caught ? "not " : "", test,
               profile->name, arguments->never, sums.caught ? "" : "not ", sums.seeds);
    else if (arguments->caught != NULL)
        printf("%sok %u - %s: %s%s found within %" PRIu64 " of %" PRIu64 " seeds\n",
               sums.caught ? "" : "not ", test, profile->name, arguments->caught,
               sums.caught || right ? "" : " was not, but something else was", sums.seeds,
               arguments->count);
    else
        printf("%sok %u - %s: seeds %" PRIu64 " and on\n", right ? "" : "not ", test, profile->name,
               arguments->seed);
    if (arguments->never != NULL)
        return !sums.caught;
    return arguments->caught != NULL ? sums.caught : right;
}

static const struct sim_profile *profile_of(const char *name)
{
    const struct sim_profile *profile = sim_profiles;

    while (profile->name != NULL && strcmp(profile->name, name) != 0)
        profile++;
    return profile->name == NULL ? NULL : profile;
}

static bool line_read(const char *line, struct sim_run *run)
{
    char profile[32], store[32];

    if (sscanf(line, "%31s %31s %" SCNu64 " %" SCNu64, profile, store, &run->seed, &run->calls) !=
        4)
        return false;
    run->profile = profile_of(profile);
    return run->profile != NULL && kind_of(store, &run->kind);
}

/* 0: nothing was found; 1; 2: the file cannot be read. */
static int list_run(const struct arguments *arguments)
{
    FILE *file = fopen(arguments->list, "re");
    struct sums sums = {0};
    unsigned tests = 0;
    bool right = true;
    char line[256];

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        struct sim_run run = {.async = arguments->async};
        bool found;

        if (line[0] == '#')
            continue;
        if (!line_read(line, &run)) {
            (void)fprintf(stderr, "dlock-sim: %s: not a seed: %s", arguments->list, line);
            tests = 0;
            break;
        }
        found = !seed_run(&run, arguments, &sums);
        right &= !found;
        line[strcspn(line, "\n")] = '\0';
        printf("%sok %u - %s\n", found ? "not " : "", ++tests, line);
    }
    if (file != NULL)
        (void)fclose(file);
    printf("1..%u\n", tests);
    if (tests == 0)
        return 2;
    return right ? 0 : 1;
}

static int profiles_run(const struct arguments *arguments)
{
    const struct sim_profile *only =
        arguments->profile == NULL ? NULL : profile_of(arguments->profile);
    unsigned tests = 0;
    bool right = true;

    if (arguments->profile != NULL && only == NULL) {
        (void)fputs(usage_text, stderr);
        return 2;
    }
    for (const struct sim_profile *profile = sim_profiles; profile->name != NULL; profile++)
        if (only == NULL || only == profile)
            right &= profile_run(arguments, profile, ++tests);
    printf("1..%u\n", tests);
    return right ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.seed = 1, .count = 1, .calls = 2000, .kind = -1};
    int rc;

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (!arguments_read(&arguments, argc, argv)) {
        (void)fputs(usage_text, stderr);
        return 2;
    }
    if (arguments.help) {
        (void)fputs(usage_text, stdout);
        return 0;
    }
    rc = arguments.list != NULL ? list_run(&arguments) : profiles_run(&arguments);
    sim_world_end();
    return rc;
}
