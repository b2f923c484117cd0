/* SPDX-License-Identifier: MIT */
/* attempt.h - what the parts of one call of a slot of plugin.h share. */
#ifndef ZK_ATTEMPT_H
#define ZK_ATTEMPT_H

#include "queue.h"
#include "session.h"

/* One call of a slot of plugin.h. */
struct zk_attempt {
    struct zk_session *session;
    const struct dlock_request *req;
    struct zk_slot *slot;
    struct dlock_error *err;
    struct zk_path path; /* of the name */
    char token[ZK_TOKEN_HEX + 1];
    bool shared;
    bool claims;         /* slot trylock: a permit that is free is taken */
    int64_t start_ns;    /* of the call */
    int64_t deadline_ns; /* of the requests; that of req, if nobody changes it */
};

#endif
