/* SPDX-License-Identifier: MIT */
/* dlock-bench-local: the stores that need no server, against what they are made of. */
#include "allocations.h"
#include "report.h"
#include "stopwatch.h"

#include <argp.h>
#include <dlock/dlock.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "dlock-bench-local"
#define MS      BENCH_NS_PER_MS

enum {
    MEMORY_ALONE,
    SQLITE_ALONE,
    RAW_ALONE,
    SQLITE_3_THREADS,
    SQLITE_8_PROCESSES,
    RAW_8_PROCESSES,
    SQLITE_HANDOFF,
    FIFO_HOLD,
    MEMORY_HOLD,
    SQLITE_HOLD,
    FIFO_EMPTY,
    MEMORY_EMPTY,
    SQLITE_EMPTY,
    CASES
};

#define ALONE                        \
    {                                \
        .processes = 1, .threads = 1 \
    }
#define APART                        \
    {                                \
        .processes = 8, .threads = 1 \
    }
#define HOLD                                                                       \
    {                                                                              \
        .processes = 1, .threads = 8, .one_name = 1, .held_ns = MS, .pause_ns = MS \
    }
#define EMPTY                                       \
    {                                               \
        .processes = 1, .threads = 8, .one_name = 1 \
    }
#define TO_AND_FRO                                                                        \
    {                                                                                     \
        .processes = 2, .threads = 1, .one_name = 1, .loop = BENCH_HANDOFF, .held_ns = MS \
    }

static const struct bench_case cases[CASES] = {
    [MEMORY_ALONE] = {"memory, 1 thread", &bench_work_dlock, BENCH_MEMORY, ALONE},
    [SQLITE_ALONE] = {"sqlite, 1 process", &bench_work_dlock, BENCH_SQLITE, ALONE},
    [RAW_ALONE] = {"bare SQLite, 1 process", &bench_work_sqlite, BENCH_FILE, ALONE},
    [SQLITE_3_THREADS] = {"sqlite, 3 threads on 3 names",
                          &bench_work_dlock,
                          BENCH_SQLITE,
                          {.processes = 1, .threads = 3}},
    [SQLITE_8_PROCESSES] = {"sqlite, 8 processes on 8 names", &bench_work_dlock, BENCH_SQLITE,
                            APART},
    [RAW_8_PROCESSES] = {"bare SQLite, 8 processes on 8 names", &bench_work_sqlite, BENCH_FILE,
                         APART},
    [SQLITE_HANDOFF] = {"sqlite, hand-off to another process", &bench_work_dlock, BENCH_SQLITE,
                        TO_AND_FRO},
    [FIFO_HOLD] = {"condition variables, 8 threads, 1 ms + 1 ms", &bench_work_fifo, BENCH_NO_STORE,
                   HOLD},
    [MEMORY_HOLD] = {"memory, 8 threads on 1 name, 1 ms + 1 ms", &bench_work_dlock, BENCH_MEMORY,
                     HOLD},
    [SQLITE_HOLD] = {"sqlite, 8 threads on 1 name, 1 ms + 1 ms", &bench_work_dlock, BENCH_SQLITE,
                     HOLD},
    [FIFO_EMPTY] = {"condition variables, 8 threads, empty", &bench_work_fifo, BENCH_NO_STORE,
                    EMPTY},
    [MEMORY_EMPTY] = {"memory, 8 threads on 1 name, empty", &bench_work_dlock, BENCH_MEMORY, EMPTY},
    [SQLITE_EMPTY] = {"sqlite, 8 threads on 1 name, empty", &bench_work_dlock, BENCH_SQLITE, EMPTY},
};

static const struct bench_target targets[] = {
    {"P7", "memory, 8 threads, 1 ms held + 1 ms pause", "/s", BENCH_RATE, 1, 890, MEMORY_HOLD, -1},
    {"P7", "sqlite, 8 threads, 1 ms held + 1 ms pause", "/s", BENCH_RATE, 1, 890, SQLITE_HOLD, -1},
    {"P7", "memory, 8 threads, empty section", "/s", BENCH_RATE, 1, 70000, MEMORY_EMPTY, -1},
    {"P7", "sqlite, 8 threads, empty section", "/s", BENCH_RATE, 1, 70000, SQLITE_EMPTY, -1},
    {"P11", "sqlite over bare SQLite, 1 process", "x", BENCH_RATE, 1, 0.8, SQLITE_ALONE, RAW_ALONE},
    {"P11", "sqlite, 8 processes: least over most", "", BENCH_SHARE, 1, 0.8, SQLITE_8_PROCESSES,
     -1},
    {"P11", "sqlite, 8 processes: worst pair", "ms", BENCH_WORST_MS, 0, 150, SQLITE_8_PROCESSES,
     -1},
    {"P11", "sqlite, hand-off to another process: p50", "us", BENCH_P50_US, 0, 50, SQLITE_HANDOFF,
     -1},
    {"", "memory: allocations a pair", "", BENCH_ALLOCATIONS, 0, 0, MEMORY_ALONE, -1},
    {"", "sqlite: allocations a pair, SQLite's own not counted", "", BENCH_ALLOCATIONS, 0, 0,
     SQLITE_ALONE, -1},
};

static struct bench_figures figures[CASES];

struct arguments {
    struct bench_options options;
    int json;
};

enum { OPTION_QUICK = 1, OPTION_JSON };

static const struct argp_option argp_options[] = {
    {"rounds", 'r', "N", 0, "rounds, alternated (5)", 0},
    {"duration", 'd', "MS", 0, "of one case in one round (1000)", 0},
    {"quick", OPTION_QUICK, NULL, 0, "3 rounds of 100 ms: to see that it works", 0},
    {"only", 'o', "TEXT", 0, "only the cases whose names have TEXT in them", 0},
    {"busy", 'b', "N", 0, "keep N processes busy meanwhile", 0},
    {"directory", 'D', "DIR", 0, "where to put the files, in a directory of their own", 0},
    {"json", OPTION_JSON, NULL, 0, "print JSON", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static int64_t number_of(struct argp_state *state, const char *text, int64_t most)
{
    char *end = NULL;
    long long value = strtoll(text, &end, 10);

    if (end == text || *end != '\0' || value < 0 || value > most)
        argp_error(state, "%s: want a number up to %lld", text, (long long)most);
    return value;
}

static error_t argument_take(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    struct bench_options *options = &arguments->options;

    switch (key) {
    case 'r':
        options->rounds = (int)number_of(state, text, BENCH_ROUNDS_MAX);
        break;
    case 'd':
        options->duration_ns = number_of(state, text, 60000) * MS;
        break;
    case OPTION_QUICK:
        options->rounds = 3;
        options->duration_ns = 100 * MS;
        break;
    case 'o':
        options->only = text;
        break;
    case 'b':
        options->busy = (int)number_of(state, text, BENCH_WORKERS_MAX);
        break;
    case 'D':
        options->directory = text;
        break;
    case OPTION_JSON:
        arguments->json = 1;
        break;
    case ARGP_KEY_ARG:
        argp_usage(state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void show_progress(const struct bench_case *which, int round)
{
    (void)fprintf(stderr, "\r\033[Kround %d: %s", round + 1, which->name);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static int run(struct arguments *arguments)
{
    struct bench_report report = {
        .program = PROGRAM,
        .cases = cases,
        .targets = targets,
        .case_count = CASES,
        .target_count = (int)(sizeof targets / sizeof targets[0]),
        .options = &arguments->options,
        .figures = figures,
    };
    char why[BENCH_WHY_SIZE] = "";
    int rc = bench_plan_run(cases, CASES, &arguments->options, figures, why);

    if (arguments->options.progress != NULL)
        (void)fputs("\r\033[K", stderr);
    if (rc != 0) {
        (void)fprintf(stderr, PROGRAM ": %s\n", why);
        return EXIT_FAILURE;
    }
    if (!arguments->json)
        bench_report_print(&report, stdout);
    else if (bench_report_json(&report, stdout) != 0)
        return EXIT_FAILURE;
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = argp_options,
        .parser = argument_take,
        .doc =
            "Measures the stores that need no server, against a bare SQLite database and condition "
            "variables, in the same rounds.",
    };
    const char *tmp = getenv("TMPDIR");
    struct arguments arguments = {
        .options = {.rounds = 5,
                    .duration_ns = BENCH_NS_PER_S,
                    .directory = tmp != NULL ? tmp : "/tmp"},
    };
    char directory[256];
    int rc = EXIT_FAILURE;

    bench_allocations_without_sqlite();
    (void)argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    if (isatty(STDERR_FILENO))
        arguments.options.progress = show_progress;
    (void)snprintf(directory, sizeof directory, "%s/dlock-bench.XXXXXX",
                   arguments.options.directory);
    if (mkdtemp(directory) == NULL) {
        perror(directory);
        return EXIT_FAILURE;
    }
    arguments.options.directory = directory;
    rc = run(&arguments);
    (void)nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return rc;
}
