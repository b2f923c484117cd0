/* SPDX-License-Identifier: MIT */
/*
 * dlock-history-check: checks the histories of one run, all their files together. Prints TAP, a
 * test a rule. Exit: 0 no violation, 1 some, 2 the files cannot be read or the arguments are wrong,
 * 3 no call of lock is in them, which says nothing about a lock.
 */
#include "log.h"
#include "report.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS     1000000
#define REPORTED_MOST 20

struct run {
    struct dlt_history history;
    struct dlt_check_options options;
    int64_t window_ns;
    unsigned reported;
};

static const char usage_text[] =
    "usage: dlock-history-check [OPTION...] FILE...\n"
    "  --slack MS    how late a call may return and a loss be told (100)\n"
    "  --busy MS     how much later a loss may be told while the renewer is busy (0)\n"
    "  --stall MS    a wanted name may be free for that long; 0: not checked (0)\n"
    "  --window MS   how much of the nemesis a report shows before and after (2000)\n"
    "  --complete    every call must have returned\n"
    "  --renewed     a lost lease was tried to renew in its second half\n"
    "  --explained   every fault is in the history: UNKNOWN must have one\n"
    "  --told        every loss must have been told\n"
    "  --kept        nobody broke a lock and no store forgot one\n"
    "  --handoff N   a place may be passed by so many hand-offs in a row (0)\n"
    "  --local-fifo  the order of calls within a process is exact\n";

enum {
    OPT_SLACK = 256,
    OPT_STALL,
    OPT_BUSY,
    OPT_EXPLAINED,
    OPT_RENEWED,
    OPT_WINDOW,
    OPT_COMPLETE,
    OPT_TOLD,
    OPT_KEPT,
    OPT_HANDOFF,
    OPT_FIFO
};

static bool integer_of(const char *text, long long most, long long *n)
{
    char *end = NULL;

    errno = 0;
    *n = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *n >= 0 && *n <= most;
}

static bool number_of(const char *text, int64_t *ns)
{
    long long ms;

    if (!integer_of(text, INT64_MAX / NS_PER_MS, &ms))
        return false;
    *ns = (int64_t)ms * NS_PER_MS;
    return true;
}

static bool count_of(const char *text, unsigned *count)
{
    long long n;

    if (!integer_of(text, 1000000, &n))
        return false;
    *count = (unsigned)n;
    return true;
}

static bool option_set(struct run *run, int option, const char *text)
{
    struct dlt_check_options *options = &run->options;

    switch (option) {
    case OPT_SLACK:
        return number_of(text, &options->slack_ns);
    case OPT_BUSY:
        return number_of(text, &options->busy_ns);
    case OPT_STALL:
        return number_of(text, &options->stall_ns);
    case OPT_WINDOW:
        return number_of(text, &run->window_ns);
    case OPT_COMPLETE:
        return options->complete = true;
    case OPT_RENEWED:
        return options->renewed = true;
    case OPT_EXPLAINED:
        return options->explained = true;
    case OPT_TOLD:
        return options->told = true;
    case OPT_KEPT:
        return options->kept = true;
    case OPT_HANDOFF:
        return count_of(text, &options->handoff);
    case OPT_FIFO:
        return options->local_fifo = true;
    default:
        return false;
    }
}

static bool arguments_read(struct run *run, int argc, char **argv)
{
    static const struct option options[] = {
        {"slack", required_argument, NULL, OPT_SLACK},
        {"busy", required_argument, NULL, OPT_BUSY},
        {"stall", required_argument, NULL, OPT_STALL},
        {"window", required_argument, NULL, OPT_WINDOW},
        {"complete", no_argument, NULL, OPT_COMPLETE},
        {"renewed", no_argument, NULL, OPT_RENEWED},
        {"explained", no_argument, NULL, OPT_EXPLAINED},
        {"told", no_argument, NULL, OPT_TOLD},
        {"kept", no_argument, NULL, OPT_KEPT},
        {"handoff", required_argument, NULL, OPT_HANDOFF},
        {"local-fifo", no_argument, NULL, OPT_FIFO},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!option_set(run, option, optarg))
            return false;
    return optind < argc;
}

static void on_violation(void *arg, const struct dlt_violation *violation)
{
    struct run *run = arg;

    if (run->reported++ < REPORTED_MOST)
        dlt_report_violation(stdout, &run->history, violation, run->window_ns);
}

static int history_check(struct run *run)
{
    struct dlt_check_figures figures;

    run->options.report = on_violation;
    run->options.arg = run;
    dlt_history_sort(&run->history);
    if (dlt_check(&run->history, &run->options, &figures) != 0) {
        (void)fputs("dlock-history-check: no memory\n", stderr);
        return 2;
    }
    if (figures.locks == 0) {
        (void)fputs("dlock-history-check: no call of lock in it\n", stderr);
        return 3;
    }
    dlt_report_figures(stdout, &figures);
    for (unsigned rule = 0; rule < DLT_RULE_COUNT; rule++)
        printf("%sok %u - %s: %" PRIu64 "\n", figures.violations[rule] == 0 ? "" : "not ", rule + 1,
               dlt_rule_name((enum dlt_rule)rule), figures.violations[rule]);
    printf("1..%d\n", DLT_RULE_COUNT);
    return figures.total == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct run run = {.options = {.slack_ns = 100 * NS_PER_MS},
                      .window_ns = INT64_C(2000) * NS_PER_MS};
    int rc = 0;

    if (!arguments_read(&run, argc, argv)) {
        (void)fputs(usage_text, stderr);
        return 2;
    }
    for (int i = optind; i < argc && rc == 0; i++) {
        char why[512] = "";

        if (dlt_log_read(argv[i], &run.history, why, sizeof why) != 0) {
            (void)fprintf(stderr, "dlock-history-check: %s\n", why);
            rc = 2;
        }
    }
    if (rc == 0)
        rc = history_check(&run);
    dlt_history_fini(&run.history);
    return rc;
}
