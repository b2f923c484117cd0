/* SPDX-License-Identifier: MIT */
#include "redis.h"

#include <string.h>

#define SECRET_SIZE 4096

static enum dlock_status answers(struct redis_link *link, struct resp_setup *setup,
                                 int64_t deadline_ns, struct dlock_error *err)
{
    while (!resp_setup_done(setup)) {
        redisReply *reply = NULL;
        enum dlock_status status = redis_link_read(link, deadline_ns, &reply, err);

        if (status == DLOCK_UNKNOWN) /* nothing of it changes the store */
            status = err->status = DLOCK_UNAVAILABLE;
        if (status == DLOCK_OK)
            status = resp_setup_take(setup, reply, err);
        freeReplyObject(reply);
        if (status != DLOCK_OK)
            return status;
    }
    if (resp_reader_pending(&link->reader))
        return resp_error_fail(link->place, err, DLOCK_PROTOCOL, "more answers than questions");
    return DLOCK_OK;
}

static enum dlock_status run(struct redis_link *link, const struct resp_config *place,
                             int64_t deadline_ns, struct resp_info *facts, struct dlock_error *err)
{
    struct resp_setup setup;
    enum dlock_status status = DLOCK_INTERNAL;

    if (!resp_setup_begin(&setup, place, true, facts))
        status = resp_error_fail(place, err, DLOCK_NOMEM, "no memory for a command");
    else
        status = redis_link_send(link, setup.bytes, setup.len, deadline_ns, err);
    resp_setup_end(&setup);
    if (status == DLOCK_UNKNOWN)
        status = err->status = DLOCK_UNAVAILABLE;
    return status == DLOCK_OK ? answers(link, &setup, deadline_ns, err) : status;
}

/* secret has SECRET_SIZE bytes. *password: it, or NULL: there is none. */
static enum dlock_status secret_read(const struct resp_config *place, char *secret,
                                     const char **password, struct dlock_error *err)
{
    int len = place->target->read_secret(place->target, NULL, secret, SECRET_SIZE, err);

    *password = len >= 0 ? secret : NULL;
    return len == -2 ? err->status : DLOCK_OK;
}

static enum dlock_status connect_with(struct redis_link *link, const struct redis_dial *dial,
                                      const char *password, int64_t deadline_ns,
                                      struct resp_info *facts, struct dlock_error *err)
{
    struct resp_config place = *dial->place;
    enum dlock_status status =
        redis_link_open(link, dial->place, dial->tls, dial->host, deadline_ns, err);

    place.password = password;
    return status == DLOCK_OK ? run(link, &place, deadline_ns, facts, err) : status;
}

/* [SEC-1] The secret may be changed between the two readings. */
enum dlock_status redis_connect(struct redis_link *link, const struct redis_dial *dial,
                                int64_t deadline_ns, struct resp_info *facts,
                                struct dlock_error *err)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    char secret[SECRET_SIZE] = "", again[SECRET_SIZE] = "";
    const char *password = NULL;
    enum dlock_status status = secret_read(dial->place, secret, &password, err);

    if (status == DLOCK_OK)
        status = connect_with(link, dial, password, deadline_ns, facts, err);
    if (status == DLOCK_AUTH && secret_read(dial->place, again, &password, &ignored) == DLOCK_OK &&
        password != NULL && strcmp(secret, again) != 0) {
        redis_link_close(link);
        status = connect_with(link, dial, password, deadline_ns, facts, err);
    }
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(again, sizeof again);
    return status;
}
