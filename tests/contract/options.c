/* SPDX-License-Identifier: MIT */
#include "options.h"
#include "conformance.h"
#include "expected.h"
#include "kit.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTION_LIST = 256,
    OPTION_ONLY,
    OPTION_EXPECT,
    OPTION_SLACK,
    OPTION_GRID,
    OPTION_FORMAT,
    OPTION_PRIVATE,
    OPTION_DEBUG,
    OPTION_TRACE,
    OPTION_CASE,
    OPTION_ROLE,
    OPTION_PROBE,
    OPTION_ROOM,
    OPTION_STRICT
};

static const struct option long_options[] = {
    {"list", no_argument, NULL, OPTION_LIST},
    {"only", required_argument, NULL, OPTION_ONLY},
    {"jobs", required_argument, NULL, 'j'},
    {"expect", required_argument, NULL, OPTION_EXPECT},
    {"slack", required_argument, NULL, OPTION_SLACK},
    {"grid", required_argument, NULL, OPTION_GRID},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"private", no_argument, NULL, OPTION_PRIVATE},
    {"debug", required_argument, NULL, OPTION_DEBUG},
    {"trace", no_argument, NULL, OPTION_TRACE},
    {"help", no_argument, NULL, 'h'},
    {"case", required_argument, NULL, OPTION_CASE},
    {"role", required_argument, NULL, OPTION_ROLE},
    {"probe", no_argument, NULL, OPTION_PROBE},
    {"room", required_argument, NULL, OPTION_ROOM},
    {"strict", no_argument, NULL, OPTION_STRICT},
    {NULL, 0, NULL, 0},
};

static const char usage[] =
    "usage: dlock-conformance [option...] URI...\n"
    "\n"
    "Proves the stores behind the URIs against the contract of dlock. {tmp} in a URI\n"
    "stands for a new directory that is removed at the end: sqlite://{tmp}/locks.db\n"
    "\n";

static const char help[] =
    "  --list           the cases: clauses, needs and a sentence on each; runs nothing\n"
    "  --only PATTERN   cases whose name matches (shell pattern), or with this clause: C5, TRY-1\n"
    "  --format FORM    tap (of several stores with the table below), table (a line\n"
    "                   a clause, a column a store) or json (tap)\n"
    "  -j, --jobs N     so many cases at once (8); those that measure time always run alone\n"
    "  --expect CAPS    capabilities the stores must have, no more and no less: FENCE,WATCH\n"
    "                   (known for the schemes that come with dlock)\n"
    "  --slack MS       what this machine may add to a time (100; more under load)\n"
    "  --grid MS        the step of the store's clock (that of its ttls): a lease may end so\n"
    "                   much later than 1 s, or a twentieth of its ttl, after its time\n"
    "  --strict         the URI is tried as it stands, at once, and a server that takes too few\n"
    "                   connections fails. Without it: see dlock-conformance(1)\n"
    "  --private        the store lives in one process: cases with more are skipped\n"
    "  --debug CASE     runs this case alone, in this process and without a time limit, for\n"
    "                   gdb and valgrind; its output and the log are shown as they come\n"
    "  --trace          shows each call of a slot of the plugin: arguments, answer, time\n"
    "\n"
    "Exit status: 0 all passed or skipped, 1 a failure, 64 usage; with --debug 77 if the case is\n"
    "skipped.\n";

static int number_parse(const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end = NULL;

    *out = strtoll(text, &end, 10);
    return *text == '\0' || *end != '\0' || *out < min || *out > max ? -1 : 0;
}

static int caps_option(const char *text, struct dlt_options *options)
{
    char bad[64];

    if (dlt_caps_parse(text, &options->expect, bad, sizeof bad) != 0) {
        (void)fprintf(stderr, "%s: no capability is called \"%s\"\n", options->program, bad);
        return -1;
    }
    options->has_expect = 1;
    return 0;
}

/* 0, or -1 when the value is no good. */
static int option_take(int option, struct dlt_options *options)
{
    int64_t number = 0;

    switch (option) {
    case OPTION_LIST:
        options->list = 1;
        return 0;
    case OPTION_ONLY:
        options->only = optarg;
        return 0;
    case 'j':
        if (number_parse(optarg, 1, 256, &number) != 0)
            return -1;
        options->jobs = (unsigned)number;
        return 0;
    case OPTION_EXPECT:
        return caps_option(optarg, options);
    case OPTION_SLACK:
        return number_parse(optarg, 1, 60000, &options->slack_ms);
    case OPTION_GRID:
        return number_parse(optarg, 0, 60000, &options->grid_ms);
    case OPTION_FORMAT:
        options->format = optarg;
        return strcmp(optarg, "tap") == 0 || strcmp(optarg, "table") == 0 ||
                       strcmp(optarg, "json") == 0
                   ? 0
                   : -1;
    case OPTION_PRIVATE:
        options->is_private = 1;
        return 0;
    case OPTION_DEBUG:
        options->debug = optarg;
        return 0;
    case OPTION_TRACE:
        options->trace = 1;
        return 0;
    case OPTION_CASE:
        options->run_case = optarg;
        return 0;
    case OPTION_ROLE:
        options->role = optarg;
        return 0;
    case OPTION_PROBE:
        options->probe = 1;
        return 0;
    case OPTION_ROOM:
        return number_parse(optarg, 1, 1000, &options->room);
    case OPTION_STRICT:
        options->strict = 1;
        return 0;
    default:
        return -1;
    }
}

#define OPTIONS_MAX 40

/* Those of all programs, and those of this one. */
static void options_join(const struct dlt_program *program, struct option all[OPTIONS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; long_options[i].name != NULL; i++)
        all[n++] = long_options[i];
    for (size_t i = 0; program != NULL && program->own[i].name != NULL && n < OPTIONS_MAX - 1; i++)
        all[n++] = program->own[i];
    all[n] = (struct option){.name = NULL};
}

/* False: *exit_status is set. */
static bool words_take(int argc, char **argv, const struct dlt_program *program,
                       struct dlt_options *options, int *exit_status)
{
    struct option all[OPTIONS_MAX];
    int option = 0;

    options_join(program, all);
    while ((option = getopt_long(argc, argv, "j:h", all, NULL)) != -1) {
        bool good;

        if (option == 'h') {
            (void)printf("%s%s", program != NULL ? program->usage : usage, help);
            *exit_status = 0;
            return false;
        }
        good = program != NULL && option >= DLT_OPTION_OWN ? program->take(option, optarg)
                                                           : option_take(option, options) == 0;
        if (!good && option != '?' && option != OPTION_EXPECT)
            (void)fprintf(stderr, "%s: bad value \"%s\"\n", options->program, optarg);
        if (!good)
            return false;
    }
    options->uris = argv + optind;
    options->uri_count = (size_t)(argc - optind);
    return true;
}

int dlt_options_parse(int argc, char **argv, const struct dlt_program *program,
                      struct dlt_options *options, int *exit_status)
{
    *options = (struct dlt_options){.jobs = 8, .slack_ms = 100, .grid_ms = -1, .format = "tap"};
    options->program = program != NULL ? program->name : "dlock-conformance";
    *exit_status = DLT_EXIT_USAGE;
    if (!words_take(argc, argv, program, options, exit_status))
        return -1;
    if (options->list || options->role != NULL || options->run_case != NULL || options->probe ||
        options->room > 0)
        return 0;
    if (program != NULL && (*exit_status = program->ready(options)) != 0)
        return -1;
    if (options->uri_count == 0) {
        (void)fprintf(stderr, "%s: want a URI (--help tells more)\n", options->program);
        return -1;
    }
    if (options->debug != NULL && options->uri_count != 1) {
        (void)fprintf(stderr, "%s: --debug wants one URI\n", options->program);
        return -1;
    }
    return 0;
}
