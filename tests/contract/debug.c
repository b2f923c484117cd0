/* SPDX-License-Identifier: MIT */
#include "debug.h"
#include "expected.h"
#include "tempdir.h"

#include <stdlib.h>
#include <unistd.h>

/* Somebody looks at what a call does while it runs. */
#define OP_TIMEOUT_MS (10 * 60 * INT64_C(1000))

/* False: it is said why not. */
static int case_applies(struct dlt_run *run, int asks_step, const struct dlt_case *c)
{
    struct dlock_client *client = dlt_client(run, NULL);
    uint64_t missing = c->caps & ~dlock_client_caps(client);
    char caps[160];

    if (asks_step)
        run->grid_ms = dlt_step_ms(client);
    dlock_client_close(client);
    if (missing != 0)
        (void)fprintf(stderr, "skipped: no %s\n", dlt_caps_format(missing, caps, sizeof caps));
    else if ((c->flags & DLT_PROCESSES) != 0 && run->is_private)
        (void)fprintf(stderr, "skipped: the store lives in one process\n");
    return missing == 0 && ((c->flags & DLT_PROCESSES) == 0 || !run->is_private);
}

static void run_fill(struct dlt_run *run, const struct dlt_options *options)
{
    run->slack_ms = options->slack_ms;
    run->grid_ms = options->grid_ms;
    run->op_timeout_ms = OP_TIMEOUT_MS;
    run->has_expected = options->has_expect;
    run->expected = options->expect;
    if (!options->has_expect)
        run->has_expected = dlt_expected_caps(run->uri, &run->expected);
    run->party_is_thread = 1;
    run->is_private = options->is_private || dlt_expected_private(run->uri);
    dlt_run_init(run);
}

int dlt_debug_run(const struct dlt_table *table, const struct dlt_options *options)
{
    const struct dlt_case *c = dlt_case_find(table, options->debug);
    char program[4096] = "", dir[256];
    struct dlt_run run = {.program = program};
    char *uri;
    int exit_status = DLT_EXIT_SKIPPED;

    if (c == NULL) {
        (void)fprintf(stderr, "%s: no case is called \"%s\" (--list has them)\n", options->program,
                      options->debug);
        return DLT_EXIT_USAGE;
    }
    DLT_CHECK(readlink("/proc/self/exe", program, sizeof program - 1) > 0, "no /proc/self/exe");
    uri = dlt_tempdir_expand(options->uris[0], dir, sizeof dir);
    DLT_CHECK(uri != NULL, "no temporary directory");
    run.uri = uri;
    run_fill(&run, options);
    (void)fprintf(stderr, "%s [%s]: %s\n", c->name, c->clauses, c->sentence);
    if (dir[0] != '\0')
        (void)fprintf(stderr, "{tmp} is %s, and stays\n", dir);
    if (case_applies(&run, options->grid_ms < 0, c)) {
        c->run(&run);
        (void)fprintf(stderr, "passed\n");
        exit_status = 0;
    }
    free(uri);
    return exit_status;
}
