/* SPDX-License-Identifier: MIT */
#include "redlock.h"

#include <string.h>

#define KEY_SHOWN 80 /* bytes of it in a message */

enum dlock_status redlock_fail(struct dlock_error *err, const struct redlock_place *place,
                               enum dlock_status status, const char *format, ...)
{
    char text[sizeof err->message], all[64] = "";
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (place->count > 0)
        redlock_place_show(place, all, sizeof all);
    return dlock_fail(err, REDLOCK_ORIGIN, status, 0, "%s%s%.180s", all, all[0] != '\0' ? ": " : "",
                      text);
}

enum dlock_status redlock_fail_key(struct dlock_error *err, const struct redlock_place *place,
                                   enum dlock_status status, const struct resp_keys *keys)
{
    size_t shown = keys->lens[0] < KEY_SHOWN ? keys->lens[0] : KEY_SHOWN;

    return redlock_fail(err, place, status,
                        "the key %.*s, or one beside it, is something else (WRONGTYPE)", (int)shown,
                        keys->bytes[0]);
}

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

static void line_fill(struct dlock_node_error *line, const struct redlock_node *node,
                      const struct redlock_answer *answer)
{
    const char *text = answer != NULL ? vote_text(answer) : NULL;

    (void)snprintf(line->node, sizeof line->node, "%s", node->connection.config->endpoint);
    line->status = DLOCK_OK;
    if (text != NULL) {
        line->status = vote_status(answer);
    } else if (node->connection.state != RESP_READY) {
        line->status = node->connection.status;
        text = node->connection.failures > 0 ? node->connection.why : "not connected in time";
    }
    (void)snprintf(line->message, sizeof line->message, "%.95s", text != NULL ? text : "connected");
}

void redlock_report(struct dlock_error *err, const struct redlock_session *session,
                    const struct redlock_round *round)
{
    if (err->nodes == NULL)
        return;
    err->node_count = session->place->count;
    for (unsigned i = 0; i < session->place->count; i++)
        line_fill(&err->nodes[i], &session->nodes[i], round != NULL ? &round->answers[i] : NULL);
}
