/* SPDX-License-Identifier: MIT */
/* This program as a case, a role or a probe; runner.c runs those. */
#include "conformance.h"
#include "debug.h"
#include "expected.h"
#include "options.h"
#include "probe.h"
#include "role.h"
#include "runner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct dlt_case *dlt_case_find(const struct dlt_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->cases[i].name, name) == 0)
            return &table->cases[i];
    }
    return NULL;
}

static int list_print(const struct dlt_table *table, const char *only)
{
    char caps[160];

    for (size_t i = 0; i < table->count; i++) {
        const struct dlt_case *c = &table->cases[i];

        if (!dlt_case_selected(c, only))
            continue;
        (void)printf("%-34s [%s]", c->name, c->clauses);
        if (c->caps != 0)
            (void)printf(" needs %s", dlt_caps_format(c->caps, caps, sizeof caps));
        (void)printf("%s%s%s%s\n    %s\n", c->flags & DLT_PROCESSES ? " processes" : "",
                     c->flags & DLT_PROXY ? " needs --proxy" : "",
                     c->flags & DLT_STOPS ? " needs --stop-cmd" : "",
                     c->flags & DLT_SERIAL ? " alone" : "", c->sentence);
    }
    return 0;
}

/* This process is one case. */
static int case_main(const struct dlt_table *table, const struct dlt_options *options)
{
    const struct dlt_case *c = dlt_case_find(table, options->run_case);
    char program[4096] = "";
    struct dlt_run run = {
        .uri = getenv("DLT_URI"),
        .program = program,
        .expected = options->expect,
        .has_expected = options->has_expect,
        .slack_ms = options->slack_ms,
        .grid_ms = options->grid_ms,
        .is_private = options->is_private,
    };

    DLT_CHECK(c != NULL, "no case %s", options->run_case);
    DLT_CHECK(readlink("/proc/self/exe", program, sizeof program - 1) > 0, "no /proc/self/exe");
    dlt_run_init(&run);
    dlt_ruler_start();
    c->run(&run);
    return 0;
}

static int role_main(const char *role)
{
    const char *defaults = getenv("DLT_DEFAULTS");
    const char *slack = getenv("DLT_SLACK");
    struct dlt_run run = {.uri = getenv("DLT_URI"),
                          .slack_ms = slack != NULL ? strtoll(slack, NULL, 10) : 0};

    if (strcmp(role, "holder") == 0)
        return dlt_role_holder(&run, defaults != NULL && defaults[0] != '\0' ? defaults : NULL);
    if (strcmp(role, "descriptors") == 0)
        return dlt_role_descriptors();
    dlt_fail(__FILE__, __LINE__, "no role %s", role);
}

int dlt_main(const struct dlt_table *table, int argc, char **argv)
{
    struct dlt_options options;
    int exit_status = 0;

    if (dlt_options_parse(argc, argv, table->program, &options, &exit_status) != 0)
        return exit_status;
    if (options.trace && setenv("DLOCK_TRACE", "stderr", 0) != 0)
        return DLT_EXIT_FAILED;
    if (options.role != NULL)
        return role_main(options.role);
    if (options.run_case != NULL)
        return case_main(table, &options);
    if (options.probe)
        return dlt_probe_main(options.strict);
    if (options.room > 0)
        return dlt_room_main(options.room);
    if (options.list)
        return list_print(table, options.only);
    if (options.debug != NULL)
        return dlt_debug_run(table, &options);
    return dlt_runner_run(table, &options);
}
