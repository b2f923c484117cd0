/* SPDX-License-Identifier: MIT */
/* The table of conformance cases as one parameterised test of Criterion: cases x URIs. The URIs
 * come from DLOCK_TEST_URIS, separated by blanks; without it, one memory store. */
#include "conformance.h"
#include "expected.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <linux/close_range.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define URIS_MAX 16

/* No pointers: Criterion hands this to another process. */
struct parameter {
    char uri[256];
    size_t index;
};

static size_t uris_read(char uris[URIS_MAX][256])
{
    const char *text = getenv("DLOCK_TEST_URIS");
    size_t count = 0;

    if (text == NULL)
        text = "memory://criterion";
    for (text += strspn(text, " "); *text != '\0' && count < URIS_MAX; text += strspn(text, " ")) {
        size_t len = strcspn(text, " ");

        (void)snprintf(uris[count++], 256, "%.*s", (int)len, text);
        text += len;
    }
    return count;
}

ParameterizedTestParameters(conformance, contract)
{
    static char uris[URIS_MAX][256];
    size_t uri_count = uris_read(uris);
    size_t count = uri_count * dlt_table.count;
    struct parameter *parameters = cr_malloc(count * sizeof *parameters);

    for (size_t i = 0; i < count; i++) {
        parameters[i].index = i % dlt_table.count;
        memcpy(parameters[i].uri, uris[i / dlt_table.count], sizeof uris[0]);
    }
    return cr_make_param_array(struct parameter, parameters, count, NULL);
}

static void needs_check(const struct parameter *parameter, const struct dlt_case *c,
                        const struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    uint64_t missing = c->caps & ~dlock_client_caps(client);
    char caps[160];

    dlock_client_close(client);
    if (missing != 0)
        cr_skip_test("%s %s: no %s", parameter->uri, c->name,
                     dlt_caps_format(missing, caps, sizeof caps));
    if ((c->flags & DLT_PROCESSES) && dlt_expected_private(parameter->uri))
        cr_skip_test("%s %s: the store lives in one process", parameter->uri, c->name);
}

ParameterizedTest(struct parameter *parameter, conformance, contract, .timeout = 120)
{
    const struct dlt_case *c = &dlt_table.cases[parameter->index];
    struct dlt_run run = {.uri = parameter->uri, .program = DLT_PROGRAM, .slack_ms = 500};

    (void)close_range(3, ~0u, CLOSE_RANGE_CLOEXEC); /* Criterion's are not the library's */
    run.is_private = dlt_expected_private(parameter->uri);
    run.has_expected = dlt_expected_caps(parameter->uri, &run.expected);
    dlt_run_init(&run);
    /* A check that fails ends the process: tell which case it was. */
    (void)fprintf(stderr, "# %s %s [%s]\n", parameter->uri, c->name, c->clauses);
    needs_check(parameter, c, &run);
    c->run(&run);
    cr_assert(1, "the case returned");
}
