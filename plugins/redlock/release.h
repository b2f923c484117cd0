/* SPDX-License-Identifier: MIT */
/*
 * release.h - taking something back on nodes: a lease, a grant that came too late, a queue entry.
 *
 * A release names a token and a round, so that a late release never hits a later request.
 */
#ifndef REDLOCK_RELEASE_H
#define REDLOCK_RELEASE_H

#include "node.h"
#include "session.h"

enum redlock_release_kind {
    REDLOCK_UNLOCK, /* lease and queue entry */
    REDLOCK_UNDO,   /* the lease; the queue entry stays */
    REDLOCK_DEQUEUE /* the queue entry alone */
};
#define REDLOCK_ALL_ROUNDS UINT32_MAX

struct redlock_release_request {
    struct redlock_request request; /* borrows the texts below, and the owner */
    struct resp_keys keys;
    char round[RESP_DIGITS];
};
/* owner: a token in hex, the text of another program, or "*" for any holder; borrowed. */
void redlock_release_make(struct redlock_release_request *release,
                          const struct redlock_config *config, const unsigned char *name,
                          uint32_t name_len, const char *owner, uint32_t last_round,
                          enum redlock_release_kind what);

/* Fills what is remembered of a release. */
void redlock_release_fill(struct redlock_sent_request *sent, const unsigned char *name,
                          uint32_t name_len, const unsigned char *token, uint32_t last_round,
                          enum redlock_release_kind what);

/* Makes it a pending release, which is due at once. */
void redlock_release_later(struct redlock_session *session, unsigned node,
                           const struct redlock_sent_request *release);
/* Sends it now. False: it could not be sent, and is pending. */
bool redlock_release_send(struct redlock_session *session, struct redlock_node *node,
                          const struct redlock_sent_request *release);
/* Sends a release to the nodes of these bits, and does not wait for answers. */
void redlock_release_send_all(struct redlock_session *session, unsigned nodes,
                              const unsigned char *name, uint32_t name_len,
                              const unsigned char *token, uint32_t last_round,
                              enum redlock_release_kind what);

/* Advances all nodes, and sends the releases that are pending. */
void redlock_release_advance(struct redlock_session *session);

#endif
