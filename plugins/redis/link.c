/* SPDX-License-Identifier: MIT */
#include "redis.h"

#include <unistd.h>

#define CHUNK 4096

void redis_link_close(struct redis_link *link)
{
    if (link->place == NULL)
        return;
    stream_close(&link->stream);
    resp_reader_fini(&link->reader);
    link->place = NULL;
}

/* OpenSSL may hold a lock that another thread of the parent took. */
void redis_link_leave(struct redis_link *link)
{
    if (link->place != NULL && link->stream.fd >= 0)
        (void)close(link->stream.fd);
}

enum dlock_status redis_link_open(struct redis_link *link, const struct resp_config *place,
                                  const struct tls *tls, const struct dlock_host *host,
                                  int64_t deadline_ns, struct dlock_error *err)
{
    enum stream_result result = STREAM_FAILED;

    stream_init(&link->stream, host);
    link->place = place;
    if (!resp_reader_init(&link->reader))
        return resp_error_fail(place, err, DLOCK_NOMEM, "no memory for a reader of answers");
    if (place->path != NULL)
        result = stream_connect_unix(&link->stream, place->path, deadline_ns);
    else
        result = stream_connect(&link->stream, &place->address, deadline_ns);
    if (result == STREAM_OK && place->secure)
        result = stream_secure(&link->stream, tls,
                               place->sni != NULL ? place->sni : place->address.host, deadline_ns);
    if (result == STREAM_OK)
        return DLOCK_OK;
    return resp_error_fail(place, err, resp_error_connect_status(result), "%s", link->stream.why);
}

enum dlock_status redis_link_send(struct redis_link *link, const char *bytes, size_t len,
                                  int64_t deadline_ns, struct dlock_error *err)
{
    bool begun = false;

    if (stream_send(&link->stream, bytes, len, deadline_ns, &begun) == STREAM_OK)
        return DLOCK_OK;
    if (begun)
        return resp_error_fail(link->place, err, DLOCK_UNKNOWN, "%s", link->stream.why);
    return resp_error_fail(link->place, err, DLOCK_UNAVAILABLE, "not sent: %s", link->stream.why);
}

enum dlock_status redis_link_read(struct redis_link *link, int64_t deadline_ns, redisReply **out,
                                  struct dlock_error *err)
{
    for (;;) {
        char chunk[CHUNK];
        size_t received = 0;

        if (!resp_reader_next(&link->reader, out))
            break;
        if (*out != NULL)
            return DLOCK_OK;
        if (stream_receive(&link->stream, chunk, sizeof chunk, deadline_ns, &received) != STREAM_OK)
            return resp_error_fail(link->place, err, DLOCK_UNKNOWN, "%s", link->stream.why);
        if (!resp_reader_feed(&link->reader, chunk, received))
            break;
    }
    if (link->reader.no_memory)
        return resp_error_fail(link->place, err, DLOCK_NOMEM, "no memory for an answer");
    return resp_error_fail(link->place, err, DLOCK_PROTOCOL, "an answer that makes no sense: %s",
                           link->reader.why);
}
