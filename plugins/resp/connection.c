/* SPDX-License-Identifier: MIT */
#include "resp/connection.h"
#include "lib/text.h"
#include "lib/time.h"
#include "net/stream.h"
#include "resp/error.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_NS       (5 * DL_NS_PER_S) /* the most time from DOWN to READY */
#define RETRY_FIRST_NS (DL_NS_PER_S / 20)
#define RETRY_MOST_NS  DL_NS_PER_S
#define RETRY_DOUBLED  5                   /* at most so many times */
#define RESOLVING_NS   (DL_NS_PER_S / 200) /* between two polls of a name lookup */
#define CHUNK          4096
#define OUT_MAX        ((size_t)1024 * 1024) /* bytes of `out` */

#define NOT_ZEROED __attribute__((uninitialized)) /* the build zeroes what is on the stack */

void resp_connection_init(struct resp_connection *connection, const struct resp_config *config,
                          const struct tls *tls, const struct dlock_host *host,
                          const struct resp_connection_user *user)
{
    *connection = (struct resp_connection){
        .config = config,
        .tls = tls,
        .host = host,
        .user = user,
        .status = DLOCK_UNAVAILABLE,
        .why = "not connected",
    };
    stream_init(&connection->stream, host);
}

/* ---- the end ---- */

static void set_up_end(struct resp_connection *connection)
{
    resp_setup_end(&connection->setup);
    dl_secret_free(connection->secret);
    connection->secret = NULL;
}

/* Wipes the bytes that it removes: they may have a password [C17]. */
static void out_remove(struct resp_connection *connection, size_t len)
{
    if (len == 0)
        return;
    connection->out_len -= len;
    memmove(connection->out, connection->out + len, connection->out_len);
    explicit_bzero(connection->out + connection->out_len, len);
}

static void end(struct resp_connection *connection)
{
    resolve_abandon(connection->job);
    connection->job = NULL;
    if (connection->addresses != NULL)
        freeaddrinfo(connection->addresses);
    connection->addresses = connection->at = NULL;
    set_up_end(connection);
    stream_close(&connection->stream);
    resp_reader_fini(&connection->reader);
    out_remove(connection, connection->out_len);
    connection->state = RESP_DOWN;
}

static void out_free(struct resp_connection *connection)
{
    if (connection->out != NULL)
        explicit_bzero(connection->out, connection->out_room); /* passwords */
    free(connection->out);
    connection->out = NULL;
}

void resp_connection_close(struct resp_connection *connection)
{
    end(connection);
    out_free(connection);
    connection->out_room = 0;
}

/* OpenSSL may hold a lock that another thread of the parent took. */
void resp_connection_after_fork(struct resp_connection *connection)
{
    if (connection->stream.fd >= 0)
        (void)close(connection->stream.fd);
    connection->stream.fd = -1;
}

static int64_t retry_delay(struct resp_connection *connection)
{
    unsigned doubled = connection->failures < RETRY_DOUBLED ? connection->failures : RETRY_DOUBLED;
    int64_t delay_ns = RETRY_FIRST_NS << doubled;
    uint32_t chance = 0;

    if (connection->failures++ == 0 && connection->life > 0)
        return 0;
    if (delay_ns > RETRY_MOST_NS)
        delay_ns = RETRY_MOST_NS;
    (void)connection->host->random(connection->host->ctx, &chance, sizeof chance);
    return delay_ns - chance % (delay_ns / 2);
}

void resp_connection_drop(struct resp_connection *connection, enum dlock_status status,
                          const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(connection->why, sizeof connection->why, format, args);
    va_end(args);
    connection->status = status;
    end(connection);
    connection->user->on_end(connection);
    connection->retry_ns =
        connection->host->now_ns(connection->host->ctx) + retry_delay(connection);
}

void resp_connection_drop_with(struct resp_connection *connection, const struct dlock_error *err)
{
    const char *text = strstr(err->message, ": ");

    resp_connection_drop(connection, err->status, "%s", text != NULL ? text + 2 : err->message);
}

/* A server with TLS hangs up when it is spoken to in the clear. */
static const char *hint(const struct resp_connection *connection)
{
    return connection->state == RESP_SETTING_UP && connection->setup.answered == 0 &&
                   !connection->config->secure && connection->config->path == NULL
               ? ": does it want TLS?"
               : "";
}

static void drop_stream(struct resp_connection *connection, enum stream_result result,
                        const char *why)
{
    const char *more = hint(connection);
    char text[RESP_WHY_SIZE];

    (void)snprintf(text, sizeof text, "%.*s%s", (int)(sizeof text - 1 - strlen(more)), why, more);
    resp_connection_drop(connection, resp_error_connect_status(result), "%s", text);
}

/* ---- sending ---- */

bool resp_connection_flush(struct resp_connection *connection)
{
    size_t sent = 0;

    while (sent < connection->out_len) {
        struct stream_step step;
        enum stream_result result = stream_try_send(&connection->stream, connection->out + sent,
                                                    connection->out_len - sent, &step);

        if (result == STREAM_TIMEOUT) {
            connection->events = step.events;
            break;
        }
        if (result != STREAM_OK) {
            drop_stream(connection, result, step.why);
            return false;
        }
        sent += step.done;
    }
    out_remove(connection, sent);
    return true;
}

bool resp_connection_add(struct resp_connection *connection, const char *bytes, size_t len)
{
    if (connection->out_len + len > connection->out_room) {
        size_t room = 2 * (connection->out_len + len);
        char *out = room <= OUT_MAX ? malloc(room) : NULL;

        if (out == NULL)
            return false;
        if (connection->out_len > 0)
            memcpy(out, connection->out, connection->out_len);
        out_free(connection);
        connection->out = out;
        connection->out_room = room;
    }
    memcpy(connection->out + connection->out_len, bytes, len);
    connection->out_len += len;
    return true;
}

/* ---- the set-up ---- */

/* True: the password was changed since it was sent to the server. */
static bool is_rotated(struct resp_connection *connection)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    const char *sent = connection->secret != NULL ? connection->secret : "";
    char *secret = NULL;
    bool rotated = connection->user->read_secret(connection, &secret, &err) == DLOCK_OK &&
                   strcmp(secret != NULL ? secret : "", sent) != 0;

    dl_secret_free(secret);
    return rotated;
}

/* A password that was changed meanwhile is tried at once [SEC-1]. */
static void set_up_failed(struct resp_connection *connection, const struct dlock_error *err)
{
    bool rotated = err->status == DLOCK_AUTH && is_rotated(connection);

    resp_connection_drop_with(connection, err);
    if (rotated) {
        connection->failures = 0;
        connection->retry_ns = 0;
    }
}

static void set_up_take(struct resp_connection *connection, const redisReply *reply)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    if (resp_setup_take(&connection->setup, reply, &err) != DLOCK_OK) {
        set_up_failed(connection, &err);
        return;
    }
    if (!resp_setup_done(&connection->setup))
        return;
    set_up_end(connection);
    connection->user->on_ready(connection);
    if (connection->state == RESP_DOWN)
        return;
    connection->state = RESP_READY;
    connection->life++;
}

/* Uses the present password. */
static void set_up_begin(struct resp_connection *connection)
{
    struct resp_config config = *connection->config;
    struct dlock_error err = DLOCK_ERROR_INIT;
    bool begun = false;

    if (connection->user->read_secret(connection, &connection->secret, &err) != DLOCK_OK) {
        resp_connection_drop(connection, err.status, "%.95s", err.message);
        return;
    }
    config.password = connection->secret;
    begun = resp_setup_begin(&connection->setup, &config, true,
                             connection->user->wants_info ? &connection->info : NULL);
    connection->setup.config = connection->config;
    if (!begun ||
        !resp_connection_add(connection, connection->setup.bytes, connection->setup.len)) {
        resp_connection_drop(connection, DLOCK_NOMEM, "no memory for a command");
        return;
    }
    connection->state = RESP_SETTING_UP;
    (void)resp_connection_flush(connection);
}

/* ---- connecting: each function is one step ---- */

static const char *certificate_name(const struct resp_config *config)
{
    return config->sni != NULL ? config->sni : config->address.host;
}

static void connected(struct resp_connection *connection)
{
    const char *name = certificate_name(connection->config);

    if (!resp_reader_init(&connection->reader)) {
        resp_connection_drop(connection, DLOCK_NOMEM, "no memory for a reader of answers");
        return;
    }
    connection->reader.reply_max = connection->user->reply_max;
    if (!connection->config->secure) {
        set_up_begin(connection);
    } else if (tls_begin(&connection->stream, connection->tls, name) != STREAM_OK) {
        drop_stream(connection, STREAM_FAILED, connection->stream.why);
    } else {
        connection->state = RESP_SECURING;
        connection->events = POLLOUT;
    }
}

/* Tries the next address; after the last one, fails with its failure. */
static void connect_next(struct resp_connection *connection)
{
    while (connection->at != NULL) {
        const struct addrinfo *to = connection->at;

        connection->at = to->ai_next;
        if (stream_connect_begin(&connection->stream, to) == STREAM_OK) {
            connection->state = RESP_CONNECTING;
            connection->events = POLLOUT;
            return;
        }
    }
    drop_stream(connection, STREAM_FAILED, connection->stream.why);
}

static void connect_step(struct resp_connection *connection)
{
    enum stream_result result = stream_connect_step(&connection->stream, &connection->events);

    if (result == STREAM_OK)
        connected(connection);
    else if (result != STREAM_TIMEOUT)
        connect_next(connection);
}

static void secure_step(struct resp_connection *connection)
{
    enum stream_result result = tls_step(&connection->stream, connection->tls,
                                         certificate_name(connection->config), &connection->events);

    if (result == STREAM_OK)
        set_up_begin(connection);
    else if (result != STREAM_TIMEOUT)
        drop_stream(connection, result, connection->stream.why);
}

static void resolved(struct resp_connection *connection, int failure)
{
    connection->job = NULL;
    if (failure != 0) {
        resp_connection_drop(connection, DLOCK_UNAVAILABLE, "looking up the host: %s",
                             gai_strerror(failure));
        return;
    }
    connection->at = connection->addresses;
    (void)snprintf(connection->stream.why, sizeof connection->stream.why,
                   "the host has no address");
    connect_next(connection);
}

static void resolve_step(struct resp_connection *connection)
{
    int failure = 0;

    if (resolve_poll(connection->job, &failure, &connection->addresses))
        resolved(connection, failure);
}

static void begin_unix(struct resp_connection *connection, int64_t now_ns)
{
    enum stream_result result =
        stream_connect_unix(&connection->stream, connection->config->path, now_ns);

    if (result == STREAM_OK)
        connected(connection);
    else
        drop_stream(connection, result, connection->stream.why);
}

static void begin(struct resp_connection *connection, int64_t now_ns)
{
    const struct address *address = &connection->config->address;

    connection->limit_ns = now_ns + LIMIT_NS;
    if (connection->config->path != NULL) {
        begin_unix(connection, now_ns);
        return;
    }
    if (resolve_number(address->host, address->port, &connection->addresses) == 0) {
        resolved(connection, 0);
        return;
    }
    connection->job = resolve_begin(address->host, address->port);
    if (connection->job == NULL)
        resp_connection_drop(connection, DLOCK_NOMEM, "no memory to look up the host");
    else
        connection->state = RESP_RESOLVING;
}

/* ---- receiving ---- */

static void replies_take(struct resp_connection *connection)
{
    while (connection->state >= RESP_SETTING_UP) {
        redisReply *reply = NULL;

        if (!resp_reader_next(&connection->reader, &reply)) {
            resp_connection_drop(connection, DLOCK_PROTOCOL, "an answer that makes no sense: %.55s",
                                 connection->reader.why);
            return;
        }
        if (reply == NULL)
            return;
        if (connection->state == RESP_SETTING_UP)
            set_up_take(connection, reply);
        else
            connection->user->on_reply(connection, reply);
        freeReplyObject(reply);
    }
}

static void receive(struct resp_connection *connection)
{
    NOT_ZEROED char chunk[CHUNK];

    while (connection->state >= RESP_SETTING_UP) {
        struct stream_step step;
        enum stream_result result =
            stream_try_receive(&connection->stream, chunk, sizeof chunk, &step);

        if (result == STREAM_TIMEOUT)
            return;
        if (result != STREAM_OK) {
            drop_stream(connection, result, step.why);
            return;
        }
        if (!resp_reader_feed(&connection->reader, chunk, step.done)) {
            resp_connection_drop(connection, DLOCK_PROTOCOL, "%s", connection->reader.why);
            return;
        }
        replies_take(connection);
        if (step.done < sizeof chunk && connection->stream.ssl == NULL)
            return;
    }
}

/* ---- advancing ---- */

void resp_connection_advance(struct resp_connection *connection, int64_t now_ns)
{
    enum resp_connection_state before = RESP_READY;

    do {
        before = connection->state;
        switch (connection->state) {
        case RESP_DOWN:
            if (now_ns >= connection->retry_ns)
                begin(connection, now_ns);
            break;
        case RESP_RESOLVING:
            resolve_step(connection);
            break;
        case RESP_CONNECTING:
            connect_step(connection);
            break;
        case RESP_SECURING:
            secure_step(connection);
            break;
        case RESP_SETTING_UP:
        case RESP_READY:
            if (connection->out_len == 0 || resp_connection_flush(connection))
                receive(connection);
            break;
        }
    } while (connection->state != before && connection->state != RESP_DOWN);
    if (connection->state != RESP_READY && connection->state != RESP_DOWN &&
        now_ns >= connection->limit_ns)
        resp_connection_drop(connection, DLOCK_UNAVAILABLE, "no connection in time");
}

short resp_connection_events(const struct resp_connection *connection)
{
    switch (connection->state) {
    case RESP_CONNECTING:
    case RESP_SECURING:
        return connection->events;
    case RESP_SETTING_UP:
    case RESP_READY:
        return (short)(POLLIN | (connection->out_len > 0 ? connection->events : 0));
    default:
        return 0;
    }
}

int64_t resp_connection_due_ns(const struct resp_connection *connection, int64_t now_ns)
{
    switch (connection->state) {
    case RESP_DOWN:
        return connection->retry_ns;
    case RESP_RESOLVING:
        return now_ns + RESOLVING_NS;
    case RESP_READY:
        return INT64_MAX;
    default:
        return connection->limit_ns;
    }
}

bool resp_connection_coming(const struct resp_connection *connection, int64_t now_ns)
{
    return connection->state == RESP_DOWN ? now_ns >= connection->retry_ns
                                          : connection->state != RESP_READY;
}
