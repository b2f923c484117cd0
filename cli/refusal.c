/* SPDX-License-Identifier: MIT */
#include "refusal.h"

#include "exitcode.h"
#include "output.h"

#include <errno.h>
#include <string.h>

bool refusal_is_conflict(const struct acquire *acquire)
{
    return acquire->status == DLOCK_BUSY || acquire->status == DLOCK_TIMEOUT;
}

/* Not acquired although no holder is known, as in a restart guard: the text has the reason. */
static bool reason_given(const struct acquire *acquire)
{
    const char *text = acquire->err.message;
    const char *usual = dlock_status_text((int)acquire->status);

    if (acquire->name_count > 1 && strlen(text) > strlen(usual)) /* of a set: "NAME: text" */
        text += strlen(text) - strlen(usual);
    return acquire->holder[0] == '\0' && text[0] != '\0' && strcmp(text, usual) != 0;
}

/* Also prints a line for each node of the store, as the thread of the call kept them. */
static void status_print(const struct acquire *acquire, const char *name)
{
    (void)cli_output_fail_status(
        acquire->cli,
        acquire->client != NULL && acquire->name->len > 0 && acquire->name_count <= 1 ? name : NULL,
        &acquire->err);
    for (uint32_t i = 0; i < acquire->node_count; i++)
        cli_output_fail(acquire->cli, "  %s: %s", acquire->nodes[i].node,
                        acquire->nodes[i].message);
}

int refusal_report(struct acquire *acquire, const struct refusal *rules)
{
    static const struct refusal usual = {.conflict_code = -1};
    const char *name = cli_output_printable(acquire->name->bytes, acquire->name->len);
    bool conflict = refusal_is_conflict(acquire) && !reason_given(acquire);

    if (rules == NULL)
        rules = &usual;
    if (acquire->nested) {
        cli_output_fail(acquire->cli, "%s: %s: %s", name,
                        acquire->options.limit > 1 ? "enclosing dlock runs hold all permits"
                                                   : "an enclosing dlock run holds this lock",
                        acquire->join ? "it cannot be joined" : "the wait would never end");
        return CLI_EXIT_USAGE;
    }
    if (conflict && rules->skip_quietly)
        return (int)rules->conflict_code;
    acquire->err.status = acquire->status;
    if (refusal_is_conflict(acquire) && acquire->holder[0] != '\0')
        cli_output_fail(acquire->cli, "%s: %s%s", name,
                        acquire->status == DLOCK_TIMEOUT ? "not acquired before the deadline: "
                                                         : "",
                        acquire->holder);
    else
        status_print(acquire, name);
    if (conflict && rules->conflict_code >= 0)
        return (int)rules->conflict_code;
    return cli_exitcode_of(acquire->status);
}

int refusal_or_use(struct acquire *acquire, refusal_use_fn *use)
{
    struct signals signals = {.fd = -1};
    int exit_code;
    int caught;

    if (signals_start(&signals) != 0) {
        cli_output_fail(acquire->cli, "signals: %s", strerror(errno));
        return CLI_EXIT_INTERNAL;
    }
    caught = acquire_lock(acquire, &signals);
    if (caught != 0)
        exit_code = CLI_EXIT_SIGNAL + caught;
    else if (acquire->status != DLOCK_OK)
        exit_code = refusal_report(acquire, NULL);
    else
        exit_code = use(acquire, &signals);
    acquire_fini(acquire);
    return exit_code;
}
