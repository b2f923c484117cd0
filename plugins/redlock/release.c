/* SPDX-License-Identifier: MIT */
#include "hub.h"
#include "lib/hex.h"
#include "redlock.h"

#include <stdlib.h>
#include <string.h>

void redlock_ask_fill(struct redlock_ask *ask, const unsigned char *name, uint32_t name_len,
                      const unsigned char *token, uint32_t last_round, enum redlock_release what)
{
    *ask = (struct redlock_ask){
        .kind = ASK_RELEASE, .what = (int)what, .round = last_round, .name_len = name_len};
    memcpy(ask->token, token, sizeof ask->token);
    memcpy(ask->name, name, name_len);
}

void redlock_release_later(struct redlock_session *session, unsigned node,
                           const struct redlock_ask *release)
{
    redlock_pending_add(session->pending, node, release, redlock_now(session));
}

/* By the connection that it has now; later, if there is none. The first on a connection goes out
 * with the text of its script: nobody may look whether the node knew it. */
bool redlock_release_send(struct redlock_session *session, struct redlock_node *node,
                          const struct redlock_ask *release)
{
    REDLOCK_NOT_ZEROED struct redlock_release_request request;
    char hex[RESP_HEX_SIZE], *bytes = NULL;
    bool sent = false;
    size_t len = 0;

    dl_hex_encode(hex, release->token, DLOCK_TOKEN_SIZE);
    redlock_release_make(&request, session->place, release->name, release->name_len, hex,
                         release->round, (enum redlock_release)release->what);
    bytes = redlock_request_format(&request.request, !node->knows_release, &len);
    sent = bytes != NULL && redlock_node_send(node, bytes, len, release);
    free(bytes);
    if (sent)
        node->knows_release = true;
    else
        redlock_release_later(session, node->index, release);
    return sent;
}

void redlock_session_release(struct redlock_session *session, unsigned nodes,
                             const unsigned char *name, uint32_t name_len,
                             const unsigned char *token, uint32_t last_round,
                             enum redlock_release what)
{
    struct redlock_ask release;

    redlock_ask_fill(&release, name, name_len, token, last_round, what);
    release.sent_ns = redlock_now(session);
    for (unsigned i = 0; i < session->place->count; i++)
        if ((nodes & 1u << i) != 0)
            (void)redlock_release_send(session, &session->nodes[i], &release);
}

/* At most so many at once, as a node that owes many answers is asked for no locks. */
static void pending_send(struct redlock_session *session, struct redlock_node *node)
{
    REDLOCK_NOT_ZEROED struct redlock_ask release;
    int64_t now_ns = redlock_now(session);

    while (node->connection.state == RESP_READY && node->count < NODE_ASKS_FEW / 2 &&
           redlock_pending_take(session->pending, node->index, now_ns, &release)) {
        release.sent_ns = now_ns;
        if (!redlock_release_send(session, node, &release))
            return;
    }
}

void redlock_release_advance(struct redlock_session *session)
{
    redlock_session_advance(session);
    for (unsigned i = 0; i < session->place->count; i++)
        pending_send(session, &session->nodes[i]);
}
