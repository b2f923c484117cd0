/* SPDX-License-Identifier: MIT */
#include "redis.h"

static enum dlock_status answers(struct redis_link *link, struct redis_setup *setup,
                                 int64_t deadline_ns, struct dlock_error *err)
{
    while (!redis_setup_done(setup)) {
        redisReply *reply = NULL;
        enum dlock_status status = redis_link_read(link, deadline_ns, &reply, err);

        if (status == DLOCK_UNKNOWN) /* nothing of it changes the store */
            status = err->status = DLOCK_UNAVAILABLE;
        if (status == DLOCK_OK)
            status = redis_setup_take(setup, reply, err);
        freeReplyObject(reply);
        if (status != DLOCK_OK)
            return status;
    }
    if (resp_reader_pending(&link->reader))
        return redis_fail(link->place, err, DLOCK_PROTOCOL, "more answers than questions");
    return DLOCK_OK;
}

static enum dlock_status run(struct redis_link *link, int64_t deadline_ns,
                             struct redis_facts *facts, struct dlock_error *err)
{
    struct redis_setup setup;
    enum dlock_status status = DLOCK_INTERNAL;

    if (!redis_setup_begin(&setup, link->place, true, facts))
        status = redis_fail(link->place, err, DLOCK_NOMEM, "no memory for a command");
    else
        status = redis_link_send(link, setup.bytes, setup.len, deadline_ns, err);
    redis_setup_end(&setup);
    if (status == DLOCK_UNKNOWN)
        status = err->status = DLOCK_UNAVAILABLE;
    return status == DLOCK_OK ? answers(link, &setup, deadline_ns, err) : status;
}

enum dlock_status redis_setup_identity(struct redis_link *link, int64_t deadline_ns,
                                       struct dlock_error *err)
{
    return run(link, deadline_ns, NULL, err);
}

enum dlock_status redis_setup(struct redis_link *link, int64_t deadline_ns,
                              struct redis_facts *facts, struct dlock_error *err)
{
    return run(link, deadline_ns, facts, err);
}
