/* SPDX-License-Identifier: MIT */
#include "release.h"
#include "lib/text.h"

#include <stdlib.h>
#include <string.h>

void redlock_release_make(struct redlock_release_request *release,
                          const struct redlock_config *config, const unsigned char *name,
                          uint32_t name_len, const char *owner, uint32_t last_round,
                          enum redlock_release_kind what)
{
    static const char *const words[] = {"UNLOCK", "UNDO", "DEQUEUE"};

    resp_keys_make(&release->keys, &config->nodes[0], name, name_len);
    if (last_round == REDLOCK_ALL_ROUNDS)
        memcpy(release->round, "*", sizeof "*");
    else
        (void)resp_command_number(release->round, last_round);
    redlock_node_request_begin(&release->request, REDLOCK_SCRIPT_RELEASE, 1);
    redlock_node_request_name(&release->request, &release->keys);
    resp_command_text(&release->request.command, owner);
    resp_command_text(&release->request.command, release->round);
    resp_command_text(&release->request.command, words[what]);
}

void redlock_release_fill(struct redlock_sent_request *sent, const unsigned char *name,
                          uint32_t name_len, const unsigned char *token, uint32_t last_round,
                          enum redlock_release_kind what)
{
    *sent = (struct redlock_sent_request){
        .kind = SENT_RELEASE, .what = (int)what, .round = last_round, .name_len = name_len};
    memcpy(sent->token, token, sizeof sent->token);
    memcpy(sent->name, name, name_len);
}

void redlock_release_later(struct redlock_session *session, unsigned node,
                           const struct redlock_sent_request *release)
{
    redlock_client_pending_add(&session->client->pending, node, release,
                               redlock_session_now(session));
}

/* The first release on a connection is sent with the text of its script, as possibly nobody waits
 * for the answer that the node does not know it. */
bool redlock_release_send(struct redlock_session *session, struct redlock_node *node,
                          const struct redlock_sent_request *release)
{
    REDLOCK_NOT_ZEROED struct redlock_release_request request;
    char hex[RESP_HEX_SIZE], *bytes = NULL;
    bool whole = !redlock_node_has_text(node, REDLOCK_SCRIPT_RELEASE), sent = false;
    size_t len = 0;

    dl_hex_encode(hex, release->token, DLOCK_TOKEN_SIZE);
    redlock_release_make(&request, session->config, release->name, release->name_len, hex,
                         release->round, (enum redlock_release_kind)release->what);
    bytes = redlock_node_request_format(&request.request, whole, &len);
    sent = bytes != NULL && redlock_node_send(node, bytes, len, release);
    free(bytes);
    if (sent && whole)
        redlock_node_text_sent(node, REDLOCK_SCRIPT_RELEASE);
    if (!sent)
        redlock_release_later(session, node->index, release);
    return sent;
}

void redlock_release_send_all(struct redlock_session *session, unsigned nodes,
                              const unsigned char *name, uint32_t name_len,
                              const unsigned char *token, uint32_t last_round,
                              enum redlock_release_kind what)
{
    struct redlock_sent_request release;

    redlock_release_fill(&release, name, name_len, token, last_round, what);
    release.sent_ns = redlock_session_now(session);
    for (unsigned i = 0; i < session->config->count; i++)
        if ((nodes & 1u << i) != 0)
            (void)redlock_release_send(session, &session->nodes[i], &release);
}

/* Sends only some at once: a node that owes many answers is not asked for new locks. */
static void pending_send(struct redlock_session *session, struct redlock_node *node)
{
    REDLOCK_NOT_ZEROED struct redlock_sent_request release;
    int64_t now_ns = redlock_session_now(session);

    while (node->connection.state == RESP_READY && node->count < REDLOCK_NODE_SENT_FEW / 2 &&
           redlock_client_pending_take(&session->client->pending, node->index, now_ns, &release)) {
        release.sent_ns = now_ns;
        if (!redlock_release_send(session, node, &release))
            return;
    }
}

void redlock_release_advance(struct redlock_session *session)
{
    redlock_session_advance(session);
    for (unsigned i = 0; i < session->config->count; i++)
        pending_send(session, &session->nodes[i]);
}
