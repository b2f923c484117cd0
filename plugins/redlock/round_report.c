/* SPDX-License-Identifier: MIT */
#include "round.h"

#include <stdio.h>

static const char *vote_text(const struct redlock_answer *answer)
{
    switch (answer->state) {
    case ANSWER_GIVEN:
        return answer->vote == QUORUM_YES ? "granted" : "busy: held by another owner";
    case ANSWER_PENDING:
        return "not waited for any more";
    case ANSWER_NOT_SENT:
        return NULL;
    default:
        return answer->why;
    }
}

static enum dlock_status vote_status(const struct redlock_answer *answer)
{
    switch (answer->state) {
    case ANSWER_GIVEN:
        return answer->vote == QUORUM_YES ? DLOCK_OK : DLOCK_BUSY;
    case ANSWER_REFUSED:
        return answer->status;
    default:
        return DLOCK_UNKNOWN;
    }
}

void redlock_round_report(struct dlock_error *err, const struct redlock_round *round)
{
    redlock_session_report(err, round->session);
    for (unsigned i = 0; i < err->node_count; i++) {
        const char *text = vote_text(&round->answers[i]);

        if (text == NULL)
            continue;
        err->nodes[i].status = vote_status(&round->answers[i]);
        (void)snprintf(err->nodes[i].message, sizeof err->nodes[i].message, "%.95s", text);
    }
}
