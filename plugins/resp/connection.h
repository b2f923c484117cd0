/* SPDX-License-Identifier: MIT */
/*
 * connection.h - a connection to one Redis server that never makes its thread wait.
 *
 * resp_connection_advance does all that can be done now: look up the host, connect, TLS, log in,
 * read INFO, send, receive. A connection that fails is closed and made again after a pause. The
 * pause is 0 for the first failure of a connection that was READY, and doubles with each further
 * failure in a row.
 *
 * One thread at a time uses a connection. It must not move while it is not DOWN.
 */
#ifndef RESP_CONNECTION_H
#define RESP_CONNECTION_H

#include "net/resolve.h"
#include "resp/config.h"
#include "resp/reader.h"
#include "resp/setup.h"

enum resp_connection_state {
    RESP_DOWN, /* until retry_ns; status and why say what happened */
    RESP_RESOLVING,
    RESP_CONNECTING,
    RESP_SECURING,
    RESP_SETTING_UP,
    RESP_READY
};

#define RESP_WHY_SIZE 96 /* as dlock_node_error.message */

struct resp_connection;

/* The owner of a connection provides these. */
struct resp_connection_user {
    /* Reads the present password, to be freed by dl_secret_free; NULL: there is none. */
    enum dlock_status (*read_secret)(struct resp_connection *connection, char **secret,
                                     struct dlock_error *err);
    /* The set-up is over, and READY follows. May send; drops a connection that is of no use. */
    void (*on_ready)(struct resp_connection *connection);
    /* A reply after the set-up; freed by the caller. May send, and drop. */
    void (*on_reply)(struct resp_connection *connection, const redisReply *reply);
    /* The connection ended: no reply follows. Must not send. */
    void (*on_end)(struct resp_connection *connection);
    size_t reply_max; /* bytes of one reply */
    bool wants_info;  /* the set-up reads info */
};

struct resp_connection {
    const struct resp_config *config;
    const struct tls *tls;
    const struct dlock_host *host;
    const struct resp_connection_user *user;

    enum resp_connection_state state;
    enum dlock_status status; /* of the last failure */
    char why[RESP_WHY_SIZE];
    unsigned failures; /* in a row; the owner sets it to 0 */
    int64_t retry_ns;  /* DOWN until then */
    int64_t limit_ns;  /* READY by then, or dropped */
    uint64_t life;     /* counts connections that became READY */

    struct resolve_job *job;
    struct addrinfo *addresses, *at;
    struct stream stream;
    struct resp_reader reader;
    short events; /* to poll for: in a handshake, or to send the rest */
    struct resp_setup setup;
    char *secret; /* the password that was sent; until READY */
    struct resp_info info;

    char *out; /* to be sent */
    size_t out_len, out_room;
};

void resp_connection_init(struct resp_connection *connection, const struct resp_config *config,
                          const struct tls *tls, const struct dlock_host *host,
                          const struct resp_connection_user *user);
/* Does not call on_end. The connection is DOWN, and may be advanced again. */
void resp_connection_close(struct resp_connection *connection);
/* In a forked child: closes the descriptor and frees nothing. */
void resp_connection_after_fork(struct resp_connection *connection);

void resp_connection_advance(struct resp_connection *connection, int64_t now_ns);

/* The events to poll its descriptor for; 0: none now. */
short resp_connection_events(const struct resp_connection *connection);
/* The time from which advance has work even if the descriptor is silent. */
int64_t resp_connection_due_ns(const struct resp_connection *connection, int64_t now_ns);
/* True: on its way to READY, or about to be. */
bool resp_connection_coming(const struct resp_connection *connection, int64_t now_ns);

/* Adds bytes to be sent by the next flush. False: no memory, or too many bytes wait. */
bool resp_connection_add(struct resp_connection *connection, const char *bytes, size_t len);
/* Sends what can be sent now. False: the connection was dropped. */
bool resp_connection_flush(struct resp_connection *connection);

/* Ends the connection, and sets the time of the next one. */
__attribute__((format(printf, 3, 4))) void resp_connection_drop(struct resp_connection *connection,
                                                                enum dlock_status status,
                                                                const char *format, ...);
/* The same. err: "<endpoint>: why" */
void resp_connection_drop_with(struct resp_connection *connection, const struct dlock_error *err);

#endif
