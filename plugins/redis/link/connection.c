/* SPDX-License-Identifier: MIT */
#include "redis/link/connection.h"
#include "lib/time.h"
#include "net/stream.h"
#include "resp/error.h"
#include "resp/setup.h"

#include <string.h>
#include <unistd.h>

#define CHUNK             4096
#define HANDSHAKE_SOON_NS DL_NS_PER_S /* a server with TLS has begun to answer by then */
#define NOT_TLS                                                                                    \
    "the server does not speak TLS: give its port with TLS, or the scheme with one s less, as in " \
    "redis://, which encrypts nothing"

void redis_connection_close(struct redis_connection *connection)
{
    if (connection->config == NULL)
        return;
    stream_close(&connection->stream);
    resp_reader_fini(&connection->reader);
    connection->config = NULL;
}

/* OpenSSL may hold a lock that another thread of the parent took. */
void redis_connection_after_fork(struct redis_connection *connection)
{
    if (connection->config != NULL && connection->stream.fd >= 0)
        (void)close(connection->stream.fd);
}

/* Redis waits in silence for the end of a line that a TLS client never sends. No secret is sent. A
 * server with TLS may answer in plain text, too, with an error of its own. */
static bool is_plain(const struct redis_connection *connection, int64_t deadline_ns)
{
    static const char ping[] = "PING\r\n";
    static const char *const answers[] = {
        "+PONG",
        "-NOAUTH ",
        "-NOPERM ",
        "-DENIED ",
        "-LOADING ",
        "-BUSY ",
        "-MASTERDOWN ",
        "-MISCONF ",
        "-ERR unknown command",
        "-ERR max number of clients",
    };
    const struct resp_config *config = connection->config;
    char answer[32] = "";

    if (config->path == NULL)
        (void)stream_ask_apart(connection->stream.host, &config->address, ping, sizeof ping - 1,
                               answer, sizeof answer - 1, deadline_ns);
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        if (strncmp(answer, answers[i], strlen(answers[i])) == 0)
            return true;
    return false;
}

/* After some silence the server is asked apart, while the handshake goes on. */
static enum stream_result secure(struct redis_connection *connection, const struct tls *tls,
                                 int64_t deadline_ns)
{
    const struct resp_config *config = connection->config;
    const struct dlock_host *host = connection->stream.host;
    const char *name = config->sni != NULL ? config->sni : config->address.host;
    const int64_t now_ns = host->now_ns(host->ctx), half_ns = (deadline_ns - now_ns) / 2;
    const int64_t patience_ns = half_ns < HANDSHAKE_SOON_NS ? half_ns : HANDSHAKE_SOON_NS;
    enum stream_result result =
        stream_connect_tls(&connection->stream, tls, name, now_ns + patience_ns);

    if (result == STREAM_OK || result == STREAM_REFUSED)
        return result;
    if (result == STREAM_FOREIGN || is_plain(connection, deadline_ns - half_ns / 2)) {
        (void)snprintf(connection->stream.why, sizeof connection->stream.why, NOT_TLS);
        return STREAM_FOREIGN;
    }
    return result == STREAM_TIMEOUT
               ? stream_connect_tls(&connection->stream, tls, name, deadline_ns)
               : result;
}

/* Sends no command but a PING aside to a server that does not answer a TLS handshake. */
static enum dlock_status stream_open(struct redis_connection *connection,
                                     const struct resp_config *config, const struct tls *tls,
                                     const struct dlock_host *host, int64_t deadline_ns,
                                     struct dlock_error *err)
{
    enum stream_result result = STREAM_FAILED;

    stream_init(&connection->stream, host);
    connection->config = config;
    connection->heard = false;
    if (!resp_reader_init(&connection->reader))
        return resp_error_fail(config, err, DLOCK_NOMEM, "no memory for a reader of answers");
    if (config->path != NULL)
        result = stream_connect_unix(&connection->stream, config->path, deadline_ns);
    else
        result = stream_connect(&connection->stream, &config->address, deadline_ns);
    if (result == STREAM_OK && config->secure)
        result = secure(connection, tls, deadline_ns);
    if (result == STREAM_OK)
        return DLOCK_OK;
    return resp_error_fail(config, err, resp_error_connect_status(result), "%s",
                           connection->stream.why);
}

/* After a plain connection that ended without an answer: asks on a connection of its own. */
static bool wants_tls(const struct redis_connection *connection, int64_t deadline_ns)
{
    const struct resp_config *config = connection->config;

    return config != NULL && !config->secure && config->path == NULL && !connection->heard &&
           stream_wants_tls(connection->stream.host, &config->address, deadline_ns);
}

enum dlock_status redis_connection_send(struct redis_connection *connection, const char *bytes,
                                        size_t len, int64_t deadline_ns, struct dlock_error *err)
{
    bool begun = false;

    if (stream_send(&connection->stream, bytes, len, deadline_ns, &begun) == STREAM_OK)
        return DLOCK_OK;
    if (begun)
        return resp_error_fail(connection->config, err, DLOCK_UNKNOWN, "%s",
                               connection->stream.why);
    return resp_error_fail(connection->config, err, DLOCK_UNAVAILABLE, "not sent: %s",
                           connection->stream.why);
}

enum dlock_status redis_connection_read(struct redis_connection *connection, int64_t deadline_ns,
                                        redisReply **out, struct dlock_error *err)
{
    for (;;) {
        char chunk[CHUNK];
        size_t received = 0;

        if (!resp_reader_next(&connection->reader, out))
            break;
        if (*out != NULL)
            return DLOCK_OK;
        if (stream_receive(&connection->stream, chunk, sizeof chunk, deadline_ns, &received) !=
            STREAM_OK)
            return resp_error_fail(connection->config, err, DLOCK_UNKNOWN, "%s",
                                   connection->stream.why);
        connection->heard = true;
        if (!resp_reader_feed(&connection->reader, chunk, received))
            break;
    }
    if (connection->reader.no_memory)
        return resp_error_fail(connection->config, err, DLOCK_NOMEM, "no memory for an answer");
    return resp_error_fail(connection->config, err, DLOCK_PROTOCOL,
                           "an answer that makes no sense: %s", connection->reader.why);
}

/* ---- making a connection ready for requests ---- */

#define SECRET_SIZE 4096

static enum dlock_status answers_take(struct redis_connection *connection, struct resp_setup *setup,
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

static enum dlock_status setup_run(struct redis_connection *connection,
                                   const struct resp_config *config, int64_t deadline_ns,
                                   struct resp_info *server_info, struct dlock_error *err)
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
    return status == DLOCK_OK ? answers_take(connection, &setup, deadline_ns, err) : status;
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
        stream_open(connection, args->config, args->tls, args->host, deadline_ns, err);

    config.password = password;
    if (status != DLOCK_OK)
        return status;
    status = setup_run(connection, &config, deadline_ns, server_info, err);
    if (status != DLOCK_UNAVAILABLE || !wants_tls(connection, deadline_ns))
        return status;
    return resp_error_fail(&config, err, DLOCK_PROTOCOL,
                           "the server speaks TLS: write the scheme with one more s, as in "
                           "rediss://");
}

/* [SEC-1] The secret may be changed between the two readings. */
enum dlock_status redis_connection_open(struct redis_connection *connection,
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
