/* SPDX-License-Identifier: MIT */
#include "redis/link/connection.h"
#include "lib/time.h"
#include "net/stream.h"
#include "resp/error.h"

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

enum dlock_status redis_connection_open(struct redis_connection *connection,
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

bool redis_connection_wants_tls(const struct redis_connection *connection, int64_t deadline_ns)
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
