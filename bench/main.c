/* SPDX-License-Identifier: MIT */
/* dlock-bench: measures stores beside their limits and beside other libraries. */
#include "allocations.h"
#include "report.h"
#include "stopwatch.h"
#include "subjects.h"
#include "suite.h"
#include "work_command.h"

#include <argp.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRAM       "dlock-bench"
#define WORKLOADS_MAX 16
#define LINE_NS       (15 * BENCH_NS_PER_S)

struct arguments {
    struct bench_options options;
    struct bench_size size;
    struct bench_subjects subjects;
    const char *workload_names[WORKLOADS_MAX];
    int workload_count;
    int64_t case_ns; /* of one case, all rounds together */
    int limits, async, targets, rivals, quiet;
    const char *directory, *json, *csv;
};

enum {
    OPTION_LIMITS = 256,
    OPTION_ASYNC,
    OPTION_PEERS,
    OPTION_TARGETS,
    OPTION_HOLD,
    OPTION_PAUSE,
    OPTION_READERS,
    OPTION_LEASES,
    OPTION_JSON,
    OPTION_CSV,
    OPTION_ONLY,
    OPTION_BUSY
};

static const struct argp_option argp_options[] = {
    {"uri", 'u', "[LABEL=]URI", 0, "a store; more than once: side by side (memory and sqlite)", 1},
    {"workload", 'w', "NAME", 0, "more than once: several (all of those below)", 1},
    {"limits", OPTION_LIMITS, NULL, 0, "also what the stores are made of, with ratios", 1},
    {"async", OPTION_ASYNC, NULL, 0, "also each store by dlock_op_start, from one thread", 1},
    {"peers", OPTION_PEERS, "DIR", OPTION_ARG_OPTIONAL, "also other libraries, where installed", 1},
    {"targets", OPTION_TARGETS, NULL, 0, "the workloads of docs/benchmarks.md, and its targets", 1},
    {"threads", 't', "N", 0, "(8)", 2},
    {"processes", 'p', "N", 0, "(8)", 2},
    {"hold", OPTION_HOLD, "TIME", 0, "how long a lock is held (1ms)", 2},
    {"pause", OPTION_PAUSE, "TIME", 0, "how long until the next one (1ms)", 2},
    {"readers", OPTION_READERS, "N", 0, "of 100 locks, how many are shared (90)", 2},
    {"leases", OPTION_LEASES, "N", 0, "how many to keep (10000)", 2},
    {"duration", 'd', "TIME", 0, "of a case, all rounds together (5s)", 3},
    {"rounds", 'r', "N", 0, "alternated (5)", 3},
    {"only", OPTION_ONLY, "TEXT", 0, "only cases with TEXT in \"WORKLOAD: STORE\"", 3},
    {"busy", OPTION_BUSY, "N", 0, "keep N processes busy meanwhile", 3},
    {"directory", 'D', "DIR", 0, "where to put files, in a directory of their own", 3},
    {"json", OPTION_JSON, "FILE", 0, "write JSON; -: to the standard output, with no tables", 4},
    {"csv", OPTION_CSV, "FILE", 0, "write a line for each round of each case", 4},
    {"quiet", 'q', NULL, 0, "no progress", 4},
    {NULL, 0, NULL, 0, NULL, 0},
};

static long long number_of(struct argp_state *state, const char *text, long long least,
                           long long most)
{
    char *end = NULL;
    long long value = strtoll(text, &end, 10);

    if (end == text || *end != '\0' || value < least || value > most)
        argp_error(state, "%s: want a number from %lld to %lld", text, least, most);
    return value;
}

/* "100ms", "5s", "20us", "1m"; up to an hour. */
static int64_t time_of(struct argp_state *state, const char *text)
{
    static const struct {
        const char *unit;
        int64_t ns;
    } units[] = {{"us", BENCH_NS_PER_US},
                 {"ms", BENCH_NS_PER_MS},
                 {"s", BENCH_NS_PER_S},
                 {"m", 60 * BENCH_NS_PER_S}};
    char *end = NULL;
    long long value = strtoll(text, &end, 10);

    if (end != text && value == 0 && *end == '\0')
        return 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (end != text && strcmp(end, units[i].unit) == 0 && value >= 0 &&
            value <= 3600 * BENCH_NS_PER_S / units[i].ns)
            return value * units[i].ns;
    argp_error(state, "%s: want a time such as 500ms, 5s or 2m", text);
    return 0;
}

static void workload_add(struct argp_state *state, struct arguments *arguments, const char *name)
{
    struct bench_workload workload;

    if (bench_workload_named(name, &arguments->size, &workload) != 0 ||
        arguments->workload_count == WORKLOADS_MAX)
        argp_error(state, "%s: no such workload, or too many", name);
    arguments->workload_names[arguments->workload_count++] = name;
}

static error_t size_take(int key, const char *text, struct argp_state *state,
                         struct bench_size *size)
{
    switch (key) {
    case 't':
        size->threads = (int)number_of(state, text, 1, BENCH_WORKERS_MAX);
        return 0;
    case 'p':
        size->processes = (int)number_of(state, text, 1, BENCH_WORKERS_MAX);
        return 0;
    case OPTION_HOLD:
        size->held_ns = time_of(state, text);
        return 0;
    case OPTION_PAUSE:
        size->pause_ns = time_of(state, text);
        return 0;
    case OPTION_READERS:
        size->readers = (int)number_of(state, text, 1, 100);
        return 0;
    case OPTION_LEASES:
        size->leases = (int)number_of(state, text, 4, 1000000);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t run_take(int key, char *text, struct argp_state *state, struct arguments *arguments)
{
    switch (key) {
    case 'd':
        arguments->case_ns = time_of(state, text);
        return 0;
    case 'r':
        arguments->options.rounds = (int)number_of(state, text, 1, BENCH_ROUNDS_MAX);
        return 0;
    case OPTION_ONLY:
        arguments->options.only = text;
        return 0;
    case OPTION_BUSY:
        arguments->options.busy = (int)number_of(state, text, 0, BENCH_WORKERS_MAX);
        return 0;
    case 'D':
        arguments->directory = text;
        return 0;
    case OPTION_JSON:
        arguments->json = text;
        return 0;
    case OPTION_CSV:
        arguments->csv = text;
        return 0;
    case 'q':
        arguments->quiet = 1;
        return 0;
    default:
        return size_take(key, text, state, &arguments->size);
    }
}

/* The programs of other libraries: text, or those of the source tree that this program was built
 * from, which are beside the directory of this program. */
static const char *rivals_find(const struct argp_state *state, const char *text)
{
    static char beside[512];

    if (text == NULL)
        bench_command_beside(beside, sizeof beside, "../rivals");
    if (access(text != NULL ? text : beside, X_OK) != 0)
        argp_error(state, "--peers: %s: no such directory; give bench/rivals of the source tree",
                   text != NULL ? text : beside);
    return text != NULL ? text : beside;
}

static error_t argument_take(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    char why[BENCH_WHY_SIZE];

    switch (key) {
    case 'u':
        if (bench_subjects_add(&arguments->subjects, text, why) != 0)
            argp_error(state, "%s", why);
        return 0;
    case 'w':
        workload_add(state, arguments, text);
        return 0;
    case OPTION_LIMITS:
        arguments->limits = 1;
        return 0;
    case OPTION_ASYNC:
        arguments->async = 1;
        return 0;
    case OPTION_PEERS:
        arguments->rivals = 1;
        arguments->options.rivals = rivals_find(state, text);
        return 0;
    case OPTION_TARGETS:
        arguments->targets = 1;
        return 0;
    case ARGP_KEY_ARG:
        argp_usage(state);
        return 0;
    default:
        return run_take(key, text, state, arguments);
    }
}

/* Writes one line that changes on a terminal, and a line from time to time elsewhere. */
static void show_progress(const struct bench_case *which, int done, int all, int64_t left_ns)
{
    static int64_t next_ns;
    int filled = all > 0 ? 20 * done / all : 20, left_s = (int)(left_ns / BENCH_NS_PER_S);

    if (!isatty(STDERR_FILENO)) {
        if (bench_now_ns() >= next_ns)
            (void)fprintf(stderr, "%d of %d, %d:%02d left\n", done, all, left_s / 60, left_s % 60);
        if (bench_now_ns() >= next_ns)
            next_ns = bench_now_ns() + LINE_NS;
        return;
    }
    (void)fprintf(stderr, "\r\033[K[%.*s%*s] %d of %d, %d:%02d left: %.40s: %.28s", filled,
                  "####################", 20 - filled, "", done, all, left_s / 60, left_s % 60,
                  which->workload->name, which->subject->label);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static int write_to(const char *path, const struct bench_report *report,
                    int (*write)(const struct bench_report *, FILE *))
{
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
    int rc = file != NULL ? write(report, file) : -1;

    if (file != NULL && file != stdout && fclose(file) != 0)
        rc = -1;
    if (rc != 0)
        perror(path);
    return rc;
}

static int show(const struct arguments *arguments, const struct bench_plan *plan)
{
    struct bench_report report = {plan, &arguments->options, arguments->targets};
    int rc = 0;

    if (arguments->json == NULL || strcmp(arguments->json, "-") != 0)
        bench_report_print(&report, stdout);
    if (arguments->json != NULL)
        rc |= write_to(arguments->json, &report, bench_report_json);
    if (arguments->csv != NULL)
        rc |= write_to(arguments->csv, &report, bench_report_csv);
    return fflush(stdout) == 0 && rc == 0 ? 0 : -1;
}

/* The workloads that were asked for, or all. */
static int workloads_make(const struct arguments *arguments, struct bench_workload *workloads)
{
    const char *name = NULL, *meaning = NULL;
    int count = 0;

    for (; count < arguments->workload_count; count++)
        (void)bench_workload_named(arguments->workload_names[count], &arguments->size,
                                   &workloads[count]);
    if (count == 0)
        for (; (name = bench_workload_name(count, &meaning)) != NULL; count++)
            (void)bench_workload_named(name, &arguments->size, &workloads[count]);
    return count;
}

static int run(struct arguments *arguments)
{
    struct bench_workload workloads[WORKLOADS_MAX];
    struct bench_plan plan = {
        .subjects = arguments->subjects.all,
        .subject_count = arguments->subjects.count,
        .workloads = arguments->targets ? bench_suite : workloads,
        .workload_count =
            arguments->targets ? bench_suite_count : workloads_make(arguments, workloads),
    };
    char why[BENCH_WHY_SIZE] = "";
    int rc = -1;

    if (bench_subjects_open(&arguments->subjects, why) != 0)
        (void)fprintf(stderr, PROGRAM ": %s\n", why);
    else if (bench_plan_init(&plan, arguments->options.only) != 0)
        (void)fprintf(stderr, PROGRAM ": no memory\n");
    else
        rc = bench_plan_run(&plan, &arguments->options);
    if (arguments->options.progress != NULL && isatty(STDERR_FILENO))
        (void)fputs("\r\033[K", stderr);
    if (rc >= 0 && show(arguments, &plan) != 0)
        rc = -1;
    bench_plan_fini(&plan);
    bench_subjects_close(&arguments->subjects);
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The stores that need no server. */
static void stores_default(struct bench_subjects *subjects, const char *directory)
{
    char text[512], why[BENCH_WHY_SIZE];

    (void)bench_subjects_add(subjects, "memory=memory://bench", why);
    (void)snprintf(text, sizeof text, "sqlite=sqlite://%.400s/locks.db", directory);
    (void)bench_subjects_add(subjects, text, why);
}

/* Prints the names of the workloads after the options. */
static char *help(int key, const char *text, void *input)
{
    char *all = NULL;
    const char *name = NULL, *meaning = NULL;
    size_t size = 0;
    FILE *file = NULL;

    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    file = open_memstream(&all, &size);
    if (file == NULL)
        return NULL;
    (void)fputs("Workloads:\n", file);
    for (int i = 0; (name = bench_workload_name(i, &meaning)) != NULL; i++)
        (void)fprintf(file, "  %-10s %s\n", name, meaning);
    (void)fclose(file);
    return all;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = argp_options,
        .parser = argument_take,
        .doc = "Measures stores of dlock, side by side.\v",
        .help_filter = help,
    };
    static struct arguments arguments; /* large */
    const char *tmp = getenv("TMPDIR");
    char directory[256];
    double load_average = -1;
    int rc = EXIT_FAILURE;

    bench_allocations_without_sqlite();
    (void)getloadavg(&load_average, 1);
    arguments.options = (struct bench_options){.rounds = 5, .load_average = load_average};
    arguments.size = bench_size_default;
    arguments.case_ns = 5 * BENCH_NS_PER_S;
    arguments.directory = tmp != NULL ? tmp : "/tmp";
    (void)argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    arguments.options.duration_ns = arguments.case_ns / arguments.options.rounds;
    if (!arguments.quiet)
        arguments.options.progress = show_progress;
    (void)snprintf(directory, sizeof directory, "%s/" PROGRAM ".XXXXXX", arguments.directory);
    if (mkdtemp(directory) == NULL) {
        perror(directory);
        return EXIT_FAILURE;
    }
    if (arguments.subjects.count == 0)
        stores_default(&arguments.subjects, directory);
    if (arguments.async)
        bench_subjects_add_async(&arguments.subjects);
    if (arguments.limits)
        bench_subjects_add_limits(&arguments.subjects);
    if (arguments.rivals)
        bench_subjects_add_rivals(&arguments.subjects);
    rc = run(&arguments);
    (void)nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return rc;
}
