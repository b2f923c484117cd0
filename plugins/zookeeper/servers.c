/* SPDX-License-Identifier: MIT */
#include "servers.h"

#include "lib/time.h"
#include "net/resolve.h"
#include "net/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MOST 64

void zk_servers_lookup(struct zk_names *names, const struct zk_config *config)
{
    *names = (struct zk_names){.config = config};
    for (size_t i = 0; i < config->count; i++) {
        const struct address *server = &config->servers[i];
        struct zk_lookup *lookup = &names->lookups[i];

        lookup->result = resolve_number(server->host, server->port, &lookup->list);
        if (lookup->result == 0)
            continue;
        lookup->result = EAI_AGAIN;
        lookup->job = resolve_begin(server->host, server->port);
    }
}

bool zk_servers_is_looked_up(struct zk_names *names, size_t server)
{
    struct zk_lookup *lookup = &names->lookups[server];

    if (lookup->job != NULL && resolve_poll(lookup->job, &lookup->result, &lookup->list))
        lookup->job = NULL;
    return lookup->job == NULL;
}

void zk_servers_lookup_end(struct zk_names *names)
{
    for (size_t i = 0; i < ZK_SERVERS_MAX; i++) {
        resolve_abandon(names->lookups[i].job);
        if (names->lookups[i].list != NULL)
            freeaddrinfo(names->lookups[i].list);
    }
    *names = (struct zk_names){.config = names->config};
}

/* ---- the list for the library ---- */

static bool hosts_have(const char *hosts, const char *text, size_t len)
{
    for (const char *at = hosts; *at != '\0'; at += at[0] == ',') {
        const size_t size = strcspn(at, ",");

        if (size == len && memcmp(at, text, len) == 0)
            return true;
        at += size;
    }
    return false;
}

static void text_add(char *hosts, const char *text, size_t len)
{
    const size_t used = strlen(hosts);

    if (len == 0 || hosts_have(hosts, text, len) || used + 1 + len >= ZK_HOSTS_SIZE)
        return;
    (void)snprintf(hosts + used, ZK_HOSTS_SIZE - used, "%s%.*s", used > 0 ? "," : "", (int)len,
                   text);
}

static void address_add(char *hosts, const struct addrinfo *to)
{
    char host[NUMBER_MOST], service[8], text[NUMBER_MOST + 16];

    if (getnameinfo(to->ai_addr, to->ai_addrlen, host, sizeof host, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    (void)snprintf(text, sizeof text, "%s:%s", host, service);
    text_add(hosts, text, strlen(text));
}

/* The library goes on by two addresses after each failure. Of an even number it would try half. */
static void number_make_odd(char *hosts)
{
    const size_t used = strlen(hosts), first = strcspn(hosts, ",");
    bool odd = true;

    for (const char *at = strchr(hosts, ','); at != NULL; at = strchr(at + 1, ','))
        odd = !odd;
    if (odd || used + 1 + first >= ZK_HOSTS_SIZE)
        return;
    hosts[used] = ',';
    memmove(hosts + used + 1, hosts, first);
    hosts[used + 1 + first] = '\0';
}

void zk_servers_write(const struct zk_names *names, const char *before, char out[ZK_HOSTS_SIZE])
{
    bool all = true;

    out[0] = '\0';
    for (size_t i = 0; i < names->config->count; i++) {
        all = all && names->lookups[i].list != NULL;
        for (const struct addrinfo *at = names->lookups[i].list; at != NULL; at = at->ai_next)
            address_add(out, at);
    }
    for (const char *at = before; !all && *at != '\0'; at += at[0] == ',') {
        const size_t len = strcspn(at, ",");

        text_add(out, at, len);
        at += len;
    }
    number_make_odd(out);
}

/* ---- the shortest session ---- */

#define ASK_MS          1
#define PASSWORD_SIZE   16
#define REQUEST_SIZE    49 /* with its length */
#define ANSWER_LEAST    36 /* without its length; of servers before 3.4 */
#define ANSWER_MOST     37
#define CLOSE_TYPE      (-11)
#define LOOKUP_GRACE_NS (500 * DL_NS_PER_MS)
#define ROUND_PAUSE_NS  (50 * DL_NS_PER_MS)

struct ask {
    struct zk_servers *servers;
    const struct zk_config *config;
    const struct dlock_host *host;
    struct zk_names names;
    char endpoint[ADDRESS_HOST_MAX + 16]; /* of the server that is asked */
    bool closed;                          /* a server has closed the connection without an answer */
    struct dlock_error *err;
};

static int64_t now(const struct ask *ask)
{
    return ask->host->now_ns(ask->host->ctx);
}

static enum dlock_status fail(const struct ask *ask, enum dlock_status status, const char *what)
{
    return dlock_fail(ask->err, ZK_ORIGIN, status, 0, "%s: %s", ask->endpoint, what);
}

static void lookup_await(struct ask *ask, size_t server, int64_t deadline_ns)
{
    const struct timespec pause = {.tv_nsec = DL_NS_PER_MS};

    while (!zk_servers_is_looked_up(&ask->names, server) && now(ask) < deadline_ns)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* ---- the question ---- */

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

static enum dlock_status stream_fail(struct ask *ask, const struct stream *stream,
                                     enum stream_result result, bool asked)
{
    if (result == STREAM_INVALID)
        return fail(ask, DLOCK_INVALID, stream->why);
    if (asked && result != STREAM_TIMEOUT) {
        ask->closed = true;
        return dlock_fail(
            ask->err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0,
            "%s: %s: the server has no leader, or too many clients, or is no ZooKeeper",
            ask->endpoint, stream->why);
    }
    return fail(ask, DLOCK_UNAVAILABLE, stream->why);
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

static enum dlock_status answer_take(struct ask *ask, const unsigned char *answer)
{
    const int32_t timeout_ms = get_32(answer + 4);

    if (get_32(answer) != 0 || timeout_ms <= 0 || get_32(answer + 16) != PASSWORD_SIZE)
        return fail(ask, DLOCK_PROTOCOL, "no ZooKeeper: an answer of another form");
    ask->servers->least_ms = timeout_ms;
    return DLOCK_OK;
}

static enum dlock_status session_ask(struct ask *ask, struct stream *stream, int64_t deadline_ns)
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
        return stream_fail(ask, stream, result, true);
    len = get_32(answer);
    if (len != ANSWER_LEAST && len != ANSWER_MOST)
        return fail(ask, DLOCK_PROTOCOL, "no ZooKeeper: an answer of another length");
    result = receive_all(stream, answer + 4, (size_t)len, deadline_ns);
    if (result != STREAM_OK)
        return stream_fail(ask, stream, result, true);
    session_close(stream, deadline_ns);
    return answer_take(ask, answer + 4);
}

/* The name has been looked up; a number needs no second lookup. */
static enum dlock_status address_ask(struct ask *ask, const struct addrinfo *to,
                                     int64_t deadline_ns)
{
    struct address number = {.port = 0};
    char service[8];
    struct stream stream;
    enum stream_result result = STREAM_FAILED;
    enum dlock_status status = DLOCK_UNAVAILABLE;

    if (getnameinfo(to->ai_addr, to->ai_addrlen, number.host, sizeof number.host, service,
                    sizeof service, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return fail(ask, DLOCK_UNAVAILABLE, "an address that cannot be read");
    number.port = (uint16_t)strtoul(service, NULL, 10);
    stream_init(&stream, ask->host);
    result = stream_connect(&stream, &number, deadline_ns);
    if (result == STREAM_OK)
        status = session_ask(ask, &stream, deadline_ns);
    else
        status = stream_fail(ask, &stream, result, false);
    stream_close(&stream);
    return status;
}

static enum dlock_status server_ask(struct ask *ask, size_t i, int64_t deadline_ns)
{
    const struct zk_lookup *lookup = &ask->names.lookups[i];
    enum dlock_status status = DLOCK_UNAVAILABLE;
    unsigned left = 0;

    address_format(&ask->config->servers[i], ask->endpoint, sizeof ask->endpoint);
    lookup_await(ask, i, deadline_ns);
    if (lookup->result != 0)
        return dlock_fail(ask->err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: looking up the host: %s",
                          ask->endpoint, gai_strerror(lookup->result));
    for (const struct addrinfo *at = lookup->list; at != NULL; at = at->ai_next)
        left++;
    for (const struct addrinfo *at = lookup->list; at != NULL && status != DLOCK_OK;
         at = at->ai_next) {
        const int64_t now_ns = now(ask);

        status = address_ask(ask, at, now_ns + (deadline_ns - now_ns) / left--);
    }
    return status;
}

/* Names that take longer than the others are done without, until the next connection. */
static void hosts_write(struct ask *ask, int64_t deadline_ns)
{
    const int64_t grace_ns = now(ask) + LOOKUP_GRACE_NS;

    for (size_t i = 0; i < ask->config->count; i++)
        lookup_await(ask, i, grace_ns < deadline_ns ? grace_ns : deadline_ns);
    zk_servers_write(&ask->names, "", ask->servers->hosts);
}

/* One that is no ZooKeeper ends no wait while another one may serve again. */
static enum dlock_status round_ask(struct ask *ask, int64_t deadline_ns)
{
    const size_t count = ask->config->count;
    struct dlock_error down = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_UNAVAILABLE;

    ask->closed = false;
    for (size_t i = 0; i < count && status != DLOCK_OK; i++) {
        const int64_t now_ns = now(ask);

        status = server_ask(ask, i, now_ns + (deadline_ns - now_ns) / (int64_t)(count - i));
        if (status == DLOCK_UNAVAILABLE)
            down = *ask->err;
    }
    if (status == DLOCK_OK || down.status == DLOCK_OK)
        return status;
    *ask->err = down;
    return DLOCK_UNAVAILABLE;
}

/* Servers that elect a leader, or are busy for so long that the short session ends before its
 * answer, close the connection. A last round that only runs out of time has nothing new to say. */
static enum dlock_status servers_ask(struct ask *ask, int64_t deadline_ns)
{
    const struct timespec pause = {.tv_nsec = ROUND_PAUSE_NS};
    enum dlock_status status = round_ask(ask, deadline_ns);

    while (status == DLOCK_UNAVAILABLE && ask->closed && now(ask) + ROUND_PAUSE_NS < deadline_ns) {
        const struct dlock_error failure = *ask->err;

        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        status = round_ask(ask, deadline_ns);
        if (status == DLOCK_UNAVAILABLE && !ask->closed)
            *ask->err = failure;
    }
    return status;
}

enum dlock_status zk_servers_ask(struct zk_servers *servers, const struct zk_config *config,
                                 const struct dlock_host *host, int64_t deadline_ns,
                                 struct dlock_error *err)
{
    struct dlock_error failure = DLOCK_ERROR_INIT;
    struct ask ask = {.servers = servers, .config = config, .host = host, .err = &failure};
    enum dlock_status status = DLOCK_UNAVAILABLE;

    *servers = (struct zk_servers){.least_ms = 0};
    zk_servers_lookup(&ask.names, config);
    status = servers_ask(&ask, deadline_ns);
    if (status == DLOCK_OK) {
        (void)snprintf(servers->endpoint, sizeof servers->endpoint, "%.63s", ask.endpoint);
        hosts_write(&ask, deadline_ns);
    }
    zk_servers_lookup_end(&ask.names);
    if (status != DLOCK_OK)
        (void)dlock_fail(err, ZK_ORIGIN, status, failure.code, "%s", failure.message);
    return status;
}
