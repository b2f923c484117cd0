/* SPDX-License-Identifier: MIT */
#include "redis/link/setup.h"
#include "resp/error.h"
#include "resp/setup.h"

#include <string.h>

#define SECRET_SIZE 4096

static enum dlock_status answers(struct redis_connection *connection, struct resp_setup *setup,
                                 int64_t deadline_ns, struct dlock_error *err)
{
    while (!resp_setup_done(setup)) {
        redisReply *reply = NULL;
        enum dlock_status status = redis_connection_read(connection, deadline_ns, &reply, err);

        if (status == DLOCK_UNKNOWN) /* the set-up changes nothing in the store */
            status = err->status = DLOCK_UNAVAILABLE;
        if (status == DLOCK_OK)
            status = resp_setup_take(setup, reply, err);
        freeReplyObject(reply);
        if (status != DLOCK_OK)
            return status;
    }
    if (resp_reader_pending(&connection->reader))
        return resp_error_fail(connection->config, err, DLOCK_PROTOCOL,
                               "more answers than requests");
    return DLOCK_OK;
}

static enum dlock_status run(struct redis_connection *connection, const struct resp_config *config,
                             int64_t deadline_ns, struct resp_info *server_info,
                             struct dlock_error *err)
{
    struct resp_setup setup;
    enum dlock_status status = DLOCK_INTERNAL;

    if (!resp_setup_begin(&setup, config, true, server_info))
        status = resp_error_fail(config, err, DLOCK_NOMEM, "no memory for a command");
    else
        status = redis_connection_send(connection, setup.bytes, setup.len, deadline_ns, err);
    resp_setup_end(&setup);
    if (status == DLOCK_UNKNOWN)
        status = err->status = DLOCK_UNAVAILABLE;
    return status == DLOCK_OK ? answers(connection, &setup, deadline_ns, err) : status;
}

/* secret has SECRET_SIZE bytes. *password: the secret, or NULL: there is none. */
static enum dlock_status secret_read(const struct resp_config *config, char *secret,
                                     const char **password, struct dlock_error *err)
{
    int len = config->target->read_secret(config->target, NULL, secret, SECRET_SIZE, err);

    *password = len >= 0 ? secret : NULL;
    return len == -2 ? err->status : DLOCK_OK;
}

static enum dlock_status connect_with(struct redis_connection *connection,
                                      const struct redis_connect_args *args, const char *password,
                                      int64_t deadline_ns, struct resp_info *server_info,
                                      struct dlock_error *err)
{
    struct resp_config config = *args->config;
    enum dlock_status status =
        redis_connection_open(connection, args->config, args->tls, args->host, deadline_ns, err);

    config.password = password;
    if (status != DLOCK_OK)
        return status;
    status = run(connection, &config, deadline_ns, server_info, err);
    if (status != DLOCK_UNAVAILABLE || !redis_connection_wants_tls(connection, deadline_ns))
        return status;
    return resp_error_fail(&config, err, DLOCK_PROTOCOL,
                           "the server speaks TLS: write the scheme with one more s, as in "
                           "rediss://");
}

/* [SEC-1] The secret may be changed between the two readings. */
enum dlock_status redis_setup_connect(struct redis_connection *connection,
                                      const struct redis_connect_args *args, int64_t deadline_ns,
                                      struct resp_info *server_info, struct dlock_error *err)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    char secret[SECRET_SIZE] = "", again[SECRET_SIZE] = "";
    const char *password = NULL;
    enum dlock_status status = secret_read(args->config, secret, &password, err);

    if (status == DLOCK_OK)
        status = connect_with(connection, args, password, deadline_ns, server_info, err);
    if (status == DLOCK_AUTH && secret_read(args->config, again, &password, &ignored) == DLOCK_OK &&
        password != NULL && strcmp(secret, again) != 0) {
        redis_connection_close(connection);
        status = connect_with(connection, args, password, deadline_ns, server_info, err);
    }
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(again, sizeof again);
    return status;
}
