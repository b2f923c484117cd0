/* SPDX-License-Identifier: MIT */
#include "greet.h"
#include "lib/time.h"
#include "net/stream.h"

#include <stdlib.h>
#include <string.h>

#define ASK_MS          1
#define PASSWORD_SIZE   16
#define REQUEST_SIZE    49 /* with its length */
#define ANSWER_LEAST    36 /* without its length; of servers before 3.4 */
#define ANSWER_MOST     37
#define CLOSE_TYPE      (-11)
#define LOOKUP_GRACE_NS (500 * DL_NS_PER_MS)
#define ROUND_PAUSE_NS  (50 * DL_NS_PER_MS)

struct greet {
    struct zk_greeting *greeting;
    const struct zk_config *config;
    const struct dlock_host *host;
    struct zk_names names;
    char endpoint[ADDRESS_HOST_MAX + 16]; /* of the server that is asked */
    bool closed;                          /* a server has closed the connection without an answer */
    struct dlock_error *err;
};

static int64_t now(const struct greet *greet)
{
    return greet->host->now_ns(greet->host->ctx);
}

static enum dlock_status fail(const struct greet *greet, enum dlock_status status, const char *what)
{
    return dlock_fail(greet->err, ZK_ORIGIN, status, 0, "%s: %s", greet->endpoint, what);
}

/* ---- names ---- */

static void lookup_await(struct greet *greet, size_t server, int64_t deadline_ns)
{
    const struct timespec pause = {.tv_nsec = DL_NS_PER_MS};

    while (!zk_names_done(&greet->names, server) && now(greet) < deadline_ns)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* ---- the greeting ---- */

static unsigned char *put_32(unsigned char *at, int32_t value)
{
    const uint32_t bits = (uint32_t)value;

    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(bits >> (24 - 8 * i));
    return at + 4;
}

static int32_t get_32(const unsigned char *at)
{
    return (int32_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]);
}

/* protocol, last zxid, timeout, session, password, read-only */
static void request_write(unsigned char *out)
{
    unsigned char *at = NULL;

    memset(out, 0, REQUEST_SIZE);
    at = put_32(out, REQUEST_SIZE - 4);
    at = put_32(at + 4 + 8, ASK_MS);
    (void)put_32(at + 8, PASSWORD_SIZE);
}

static enum dlock_status stream_fail(struct greet *greet, const struct stream *stream,
                                     enum stream_result result, bool asked)
{
    if (result == STREAM_INVALID)
        return fail(greet, DLOCK_INVALID, stream->why);
    if (asked && result != STREAM_TIMEOUT) {
        greet->closed = true;
        return dlock_fail(
            greet->err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0,
            "%s: %s: the server has no leader, or too many clients, or is no ZooKeeper",
            greet->endpoint, stream->why);
    }
    return fail(greet, DLOCK_UNAVAILABLE, stream->why);
}

static enum stream_result receive_all(struct stream *stream, unsigned char *out, size_t size,
                                      int64_t deadline_ns)
{
    size_t have = 0, more = 0;
    enum stream_result result = STREAM_OK;

    while (result == STREAM_OK && have < size) {
        result = stream_receive(stream, out + have, size - have, deadline_ns, &more);
        have += more;
    }
    return result;
}

/* The server ends the session when it has read this; nobody waits for it. */
static void session_close(struct stream *stream, int64_t deadline_ns)
{
    unsigned char bytes[12];
    bool begun = false;

    (void)put_32(put_32(put_32(bytes, 8), 1), CLOSE_TYPE);
    (void)stream_send(stream, bytes, sizeof bytes, deadline_ns, &begun);
}

static enum dlock_status answer_take(struct greet *greet, const unsigned char *answer)
{
    const int32_t timeout_ms = get_32(answer + 4);

    if (get_32(answer) != 0 || timeout_ms <= 0 || get_32(answer + 16) != PASSWORD_SIZE)
        return fail(greet, DLOCK_PROTOCOL, "no ZooKeeper: an answer of another form");
    greet->greeting->least_ms = timeout_ms;
    return DLOCK_OK;
}

static enum dlock_status session_ask(struct greet *greet, struct stream *stream,
                                     int64_t deadline_ns)
{
    unsigned char request[REQUEST_SIZE], answer[4 + ANSWER_MOST];
    bool begun = false;
    int32_t len = 0;
    enum stream_result result = STREAM_OK;

    request_write(request);
    result = stream_send(stream, request, sizeof request, deadline_ns, &begun);
    if (result == STREAM_OK)
        result = receive_all(stream, answer, 4, deadline_ns);
    if (result != STREAM_OK)
        return stream_fail(greet, stream, result, true);
    len = get_32(answer);
    if (len != ANSWER_LEAST && len != ANSWER_MOST)
        return fail(greet, DLOCK_PROTOCOL, "no ZooKeeper: an answer of another length");
    result = receive_all(stream, answer + 4, (size_t)len, deadline_ns);
    if (result != STREAM_OK)
        return stream_fail(greet, stream, result, true);
    session_close(stream, deadline_ns);
    return answer_take(greet, answer + 4);
}

/* The name has been looked up; a number needs no second lookup. */
static enum dlock_status address_ask(struct greet *greet, const struct addrinfo *to,
                                     int64_t deadline_ns)
{
    struct address number = {.port = 0};
    char service[8];
    struct stream stream;
    enum stream_result result = STREAM_FAILED;
    enum dlock_status status = DLOCK_UNAVAILABLE;

    if (getnameinfo(to->ai_addr, to->ai_addrlen, number.host, sizeof number.host, service,
                    sizeof service, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return fail(greet, DLOCK_UNAVAILABLE, "an address that cannot be read");
    number.port = (uint16_t)strtoul(service, NULL, 10);
    stream_init(&stream, greet->host);
    result = stream_connect(&stream, &number, deadline_ns);
    if (result == STREAM_OK)
        status = session_ask(greet, &stream, deadline_ns);
    else
        status = stream_fail(greet, &stream, result, false);
    stream_close(&stream);
    return status;
}

static enum dlock_status server_ask(struct greet *greet, size_t i, int64_t deadline_ns)
{
    const struct zk_lookup *lookup = &greet->names.lookups[i];
    enum dlock_status status = DLOCK_UNAVAILABLE;
    unsigned left = 0;

    address_format(&greet->config->servers[i], greet->endpoint, sizeof greet->endpoint);
    lookup_await(greet, i, deadline_ns);
    if (lookup->result != 0)
        return dlock_fail(greet->err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "%s: looking up the host: %s", greet->endpoint,
                          gai_strerror(lookup->result));
    for (const struct addrinfo *at = lookup->list; at != NULL; at = at->ai_next)
        left++;
    for (const struct addrinfo *at = lookup->list; at != NULL && status != DLOCK_OK;
         at = at->ai_next) {
        const int64_t now_ns = now(greet);

        status = address_ask(greet, at, now_ns + (deadline_ns - now_ns) / left--);
    }
    return status;
}

/* Names that take longer than the others are done without, until the next connection. */
static void hosts_write(struct greet *greet, int64_t deadline_ns)
{
    const int64_t grace_ns = now(greet) + LOOKUP_GRACE_NS;

    for (size_t i = 0; i < greet->config->count; i++)
        lookup_await(greet, i, grace_ns < deadline_ns ? grace_ns : deadline_ns);
    zk_names_write(&greet->names, "", greet->greeting->hosts);
}

/* One that is no ZooKeeper ends no wait while another one may serve again. */
static enum dlock_status round_ask(struct greet *greet, int64_t deadline_ns)
{
    const size_t count = greet->config->count;
    struct dlock_error down = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_UNAVAILABLE;

    greet->closed = false;
    for (size_t i = 0; i < count && status != DLOCK_OK; i++) {
        const int64_t now_ns = now(greet);

        status = server_ask(greet, i, now_ns + (deadline_ns - now_ns) / (int64_t)(count - i));
        if (status == DLOCK_UNAVAILABLE)
            down = *greet->err;
    }
    if (status == DLOCK_OK || down.status == DLOCK_OK)
        return status;
    *greet->err = down;
    return DLOCK_UNAVAILABLE;
}

/* Servers that elect a leader, or are busy for so long that the short session ends before its
 * answer, close the connection. A last round that only runs out of time has nothing new to say. */
static enum dlock_status servers_ask(struct greet *greet, int64_t deadline_ns)
{
    const struct timespec pause = {.tv_nsec = ROUND_PAUSE_NS};
    enum dlock_status status = round_ask(greet, deadline_ns);

    while (status == DLOCK_UNAVAILABLE && greet->closed &&
           now(greet) + ROUND_PAUSE_NS < deadline_ns) {
        const struct dlock_error failure = *greet->err;

        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        status = round_ask(greet, deadline_ns);
        if (status == DLOCK_UNAVAILABLE && !greet->closed)
            *greet->err = failure;
    }
    return status;
}

enum dlock_status zk_greet(struct zk_greeting *greeting, const struct zk_config *config,
                           const struct dlock_host *host, int64_t deadline_ns,
                           struct dlock_error *err)
{
    struct dlock_error failure = DLOCK_ERROR_INIT;
    struct greet greet = {.greeting = greeting, .config = config, .host = host, .err = &failure};
    enum dlock_status status = DLOCK_UNAVAILABLE;

    *greeting = (struct zk_greeting){.least_ms = 0};
    zk_names_begin(&greet.names, config);
    status = servers_ask(&greet, deadline_ns);
    if (status == DLOCK_OK) {
        (void)snprintf(greeting->endpoint, sizeof greeting->endpoint, "%.63s", greet.endpoint);
        hosts_write(&greet, deadline_ns);
    }
    zk_names_end(&greet.names);
    if (status != DLOCK_OK)
        (void)dlock_fail(err, ZK_ORIGIN, status, failure.code, "%s", failure.message);
    return status;
}
