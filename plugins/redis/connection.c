/* SPDX-License-Identifier: MIT */
#include "connection.h"
#include "net/stream_connect.h"
#include "resp/error.h"

#include <unistd.h>

#define CHUNK 4096

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
        result = stream_connect_tls(&connection->stream, tls,
                                    config->sni != NULL ? config->sni : config->address.host,
                                    deadline_ns);
    if (result == STREAM_OK)
        return DLOCK_OK;
    return resp_error_fail(config, err, resp_error_connect_status(result), "%s",
                           connection->stream.why);
}

/* The goodbye of a TLS client, which a TLS server answers by an alert of its own. */
bool redis_connection_wants_tls(const struct redis_connection *connection, int64_t deadline_ns)
{
    static const unsigned char goodbye[] = {0x15, 3, 1, 0, 2, 1, 0};
    const struct resp_config *config = connection->config;
    unsigned char answer[2] = {0};
    struct stream stream;
    size_t received = 0;
    bool begun = false, wants = false;

    if (config == NULL || config->secure || config->path != NULL || connection->heard)
        return false;
    stream_init(&stream, connection->stream.host);
    wants = stream_connect(&stream, &config->address, deadline_ns) == STREAM_OK &&
            stream_send(&stream, goodbye, sizeof goodbye, deadline_ns, &begun) == STREAM_OK &&
            stream_receive(&stream, answer, sizeof answer, deadline_ns, &received) == STREAM_OK &&
            received == sizeof answer && answer[0] == goodbye[0] && answer[1] == goodbye[1];
    stream_close(&stream);
    return wants;
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
