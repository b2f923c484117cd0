/* SPDX-License-Identifier: MIT */
/* Numbers and not names: those of errmsg.h and mysqld_error.h differ between the two families. */
#include "connection.h"

#include "lib/thread.h"
#include "lib/time.h"
#include "net/cloexec.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- errors: numbers, because names of errmsg.h and mysqld_error.h differ between the families
 * ---- */

bool my_connection_is_fatal(unsigned code)
{
    switch (code) {
    case 1053: /* server shutdown in progress */
    case 1152: /* aborted connection */
    case 1153: /* and other trouble with packets */
    case 1156:
    case 1157:
    case 1158:
    case 1159:
    case 1160:
    case 1161:
    case 1184:
    case 1927: /* connection was killed */
    case 3169: /* the same of MySQL */
    case 4031: /* disconnected for inactivity, MySQL */
        return true;
    default:
        return code >= 2000 && code < 3000;
    }
}

bool my_connection_is_contention(unsigned code)
{
    return code == 1205 || code == 1213 || code == 1020 || code == 1062 ||
           code == 3572 /* NOWAIT of MySQL */;
}

bool my_connection_is_out_of_time(unsigned code)
{
    return code == 1969 || code == 3024;
}

/* The statement was not begun or was undone, and the reason may pass. */
static bool undone(unsigned code)
{
    switch (code) {
    case 1021: /* full: disk, table, locks */
    case 1114:
    case 1206:
    case 1036: /* read-only: table, server, transaction, with a global lock */
    case 1099:
    case 1223:
    case 1290:
    case 1792:
    case 1836:
    case 1040: /* too many connections, statements, changes */
    case 1203:
    case 1226:
    case 1461:
    case 1047: /* Galera: not ready */
    case 1129: /* this host is blocked; locked by others for the moment */
    case 1015:
    case 1100:
    case 1192:
    case 1317: /* interrupted */
    case 1243: /* the prepared statement is unknown, or has to be prepared again */
    case 1615:
        return true;
    default:
        return my_connection_is_contention(code) || my_connection_is_out_of_time(code);
    }
}

/* Errors that the server sent as its answer to a statement. By default it is not known whether the
 * statement had an effect: an error may come after the engine has committed (1180, 1026, 1030,
 * 3100). */
static enum dlock_status refusal(unsigned code, bool in_transaction)
{
    switch (code) {
    case 1044: /* access denied: database, user, command, table, column */
    case 1045:
    case 1142:
    case 1143:
    case 1227:
    case 1370:
    case 1820: /* the password has expired */
    case 1862:
    case 4151: /* the account is locked */
    case 3118:
        return DLOCK_AUTH;
    case 1049: /* no such database, table, column, type, engine; a binary log that cannot take it */
    case 1051:
    case 1054:
    case 1064:
    case 1146:
    case 1264:
    case 1286:
    case 1406:
    case 1366:
    case 1665:
    case 1932:
        return DLOCK_CONFIG;
    case 1041:
    case 1037:
        return DLOCK_NOMEM;
    default:
        return in_transaction || undone(code) ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN;
    }
}

enum dlock_status my_connection_error_status(unsigned code, bool in_transaction)
{
    switch (code) {
    case 1153: /* longer than max_allowed_packet, now and the next time */
        return DLOCK_CONFIG;
    case 2002: /* cannot connect, no such host */
    case 2003:
    case 2005:
    case 2006: /* could not be written */
        return DLOCK_UNAVAILABLE;
    case 2007: /* another protocol, malformed packet */
    case 2027:
        return DLOCK_PROTOCOL;
    case 2008: /* for the request, or for its answer */
        return in_transaction ? DLOCK_NOMEM : DLOCK_UNKNOWN;
    default:
        if (my_connection_is_fatal(code))
            return in_transaction ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN;
        return refusal(code, in_transaction);
    }
}

enum dlock_status my_connection_contended(enum dlock_status status, const struct dlock_error *err)
{
    if ((status == DLOCK_UNAVAILABLE || status == DLOCK_BUSY) &&
        my_connection_is_contention((unsigned)err->code))
        return DLOCK_BUSY;
    return status;
}

/* ---- before and after a call ---- */

/* A connection that was silent for so long is checked before it is used. */
#define FRESH_NS (5 * DL_NS_PER_MS)

#define LEAST_NS (40 * DL_NS_PER_MS)

int64_t my_connection_exchange_until(const struct my_connection *conn, int64_t deadline_ns,
                                     int64_t most_ns)
{
    const int64_t begin_ns = my_connection_now(conn);
    const int64_t left_ns = deadline_ns - begin_ns;
    const int64_t span_ns = left_ns > LEAST_NS ? left_ns : LEAST_NS;

    return begin_ns + (span_ns < most_ns ? span_ns : most_ns);
}

static enum dlock_status closed(struct my_connection *conn, struct dlock_error *err)
{
    conn->dead = true;
    return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 2006,
                      "%s: the server closed the connection", conn->config->endpoint);
}

enum dlock_status my_connection_enter(struct my_connection *conn, int64_t deadline_ns,
                                      struct dlock_error *err)
{
    unsigned char byte;
    ssize_t got = -1;

    conn->deadline_ns = deadline_ns;
    if (conn->dead)
        return closed(conn, err);
    if (my_connection_now(conn) - conn->answered_ns < FRESH_NS || conn->ping_wait != 0)
        return DLOCK_OK;
    got = recv(conn->socket - 1, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    /* TLS has messages of its own that may lie there. Otherwise it is the server's good-bye. */
    return got == 0 || (got > 0 && !conn->tls) ? closed(conn, err) : DLOCK_OK;
}

enum dlock_status my_connection_refused(struct my_connection *conn, unsigned code, const char *text,
                                        struct dlock_error *err)
{
    enum dlock_status status = my_connection_error_status(code, conn->in_transaction);

    if (my_connection_is_fatal(code))
        conn->dead = true;
    if (status == DLOCK_CONFIG)
        atomic_store(&conn->tables->checked_ns, 0);
    return dlock_fail(err, MY_ORIGIN, status, (int32_t)code, "%s: %.180s", conn->config->endpoint,
                      text);
}

enum dlock_status my_connection_unanswered(struct my_connection *conn, enum dlock_status why,
                                           struct dlock_error *err)
{
    if (why == DLOCK_CANCELED)
        return dlock_fail(err, MY_ORIGIN, why, 0, "the wait was cancelled");
    return dlock_fail(err, MY_ORIGIN, conn->in_transaction ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN, 0,
                      "%s: no answer in time", conn->config->endpoint);
}

enum dlock_status my_connection_bad_reply(struct my_connection *conn, struct dlock_error *err)
{
    conn->dead = true;
    return dlock_fail(err, MY_ORIGIN, DLOCK_PROTOCOL, 0, "%s: the answer does not fit the request",
                      conn->config->endpoint);
}

/* ---- a call of the library, which waits for the network ---- */

/* A step of the library. Returns what it waits for next (MYSQL_WAIT_*), 0: the call has ended. */
static int call_start(const struct my_connection *conn, struct my_call *call)
{
    const struct my_config *config = conn->config;
    MYSQL *mysql = conn->mysql, *connected = NULL;
    int wait = 0;

    switch (call->kind) {
    case MY_QUERY:
        return mysql_real_query_start(&call->failed, mysql, call->text, strlen(call->text));
    case MY_NEXT:
        return mysql_next_result_start(&call->failed, mysql);
    case MY_STORE:
        return mysql_store_result_start(&call->result, mysql);
    case MY_PREPARE:
        return mysql_stmt_prepare_start(&call->failed, call->stmt, call->text, strlen(call->text));
    case MY_EXECUTE:
        return mysql_stmt_execute_start(&call->failed, call->stmt);
    case MY_STMT_STORE:
        return mysql_stmt_store_result_start(&call->failed, call->stmt);
    case MY_CONNECT:
        wait = mysql_real_connect_start(&connected, mysql,
                                        config->socket == NULL ? config->host : NULL, config->user,
                                        call->text, config->database, config->port, config->socket,
                                        CLIENT_FOUND_ROWS | CLIENT_MULTI_STATEMENTS);
        call->failed = wait == 0 && connected == NULL;
        return wait;
    }
    return wait;
}

static int call_continue(MYSQL *mysql, struct my_call *call, int ready)
{
    MYSQL *connected = NULL;
    int wait = 0;

    switch (call->kind) {
    case MY_QUERY:
        return mysql_real_query_cont(&call->failed, mysql, ready);
    case MY_NEXT:
        return mysql_next_result_cont(&call->failed, mysql, ready);
    case MY_STORE:
        return mysql_store_result_cont(&call->result, mysql, ready);
    case MY_PREPARE:
        return mysql_stmt_prepare_cont(&call->failed, call->stmt, ready);
    case MY_EXECUTE:
        return mysql_stmt_execute_cont(&call->failed, call->stmt, ready);
    case MY_STMT_STORE:
        return mysql_stmt_store_result_cont(&call->failed, call->stmt, ready);
    case MY_CONNECT:
        wait = mysql_real_connect_cont(&connected, mysql, ready);
        call->failed = wait == 0 && connected == NULL;
        return wait;
    }
    return wait;
}

static short events_of(int wait)
{
    return (short)(((wait & MYSQL_WAIT_READ) != 0 ? POLLIN : 0) |
                   ((wait & MYSQL_WAIT_WRITE) != 0 ? POLLOUT : 0) |
                   ((wait & MYSQL_WAIT_EXCEPT) != 0 ? POLLPRI : 0));
}

static int ready_of(int wait, short events)
{
    int ready = ((events & POLLIN) != 0 ? MYSQL_WAIT_READ : 0) |
                ((events & POLLOUT) != 0 ? MYSQL_WAIT_WRITE : 0) |
                ((events & POLLPRI) != 0 ? MYSQL_WAIT_EXCEPT : 0);

    if ((events & (POLLERR | POLLHUP | POLLNVAL)) != 0) /* the library's next call fails */
        ready |= wait & (MYSQL_WAIT_READ | MYSQL_WAIT_WRITE);
    return ready;
}

/* Takes a stale wake-up, or the one of an interrupt. */
static void wake_take(const struct my_connection *conn)
{
    uint64_t sum = 0;
    ssize_t got = read(conn->wake_fd, &sum, sizeof sum);

    (void)got;
}

/* The number of descriptors that are ready; 0: none was ready soon. */
static int spin_for(struct my_connection *conn, struct pollfd fds[2])
{
    int count = 0;

    while (count == 0 && spin_more(&conn->spin, my_connection_now(conn))) {
        (void)sched_yield();
        count = poll(fds, 2, 0);
    }
    return count;
}

/* *ready is what happened, of what the library waits for. */
static enum dlock_status sleep_for(struct my_connection *conn, int wait, int *ready)
{
    struct pollfd fds[2] = {{.fd = mysql_get_socket(conn->mysql), .events = events_of(wait)},
                            {.fd = conn->stop != NULL ? conn->wake_fd : -1, .events = POLLIN}};

    for (;;) {
        int64_t left_ns = conn->deadline_ns - my_connection_now(conn);
        const struct timespec left =
            dl_deadline_cond_slice(left_ns); /* if it is over, what has arrived counts */
        int count = 0;

        if (conn->stop != NULL && atomic_load(conn->stop) != 0)
            return DLOCK_CANCELED;
        count = spin_for(conn, fds);
        if (count == 0)
            count = ppoll(fds, 2, &left, NULL);
        if (count > 0 && fds[0].revents != 0) {
            *ready = ready_of(wait, fds[0].revents);
            return DLOCK_OK;
        }
        if (left_ns <= 0 && count == 0)
            return DLOCK_TIMEOUT;
        if (count > 0)
            wake_take(conn);
    }
}

/* Other answers do not tell how long another owner holds a row. */
static enum dlock_status wait_for(struct my_connection *conn, int wait, int *ready)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if (conn->long_wait || conn->spin.processors < 2)
        return sleep_for(conn, wait, ready);
    spin_begin(&conn->spin, my_connection_now(conn));
    status = sleep_for(conn, wait, ready);
    spin_end(&conn->spin, my_connection_now(conn), status == DLOCK_OK);
    return status;
}

/* Around calls of OpenSSL. It writes without MSG_NOSIGNAL, and a dead peer must not end the
 * process. It also takes an error that another connection of this thread left behind for its own.
 */
static void openssl_begin(struct dl_signal_guard *guard)
{
    ERR_clear_error();
    dl_signal_guard_begin(guard, SIGPIPE);
}

static void openssl_end(struct dl_signal_guard *guard)
{
    ERR_clear_error();
    dl_signal_guard_end(guard);
}

/* The library makes sockets without FD_CLOEXEC. */
static void socket_made(const struct my_connection *conn, const struct my_call *call)
{
    int fd = mysql_get_socket(conn->mysql);

    if (fd < 0)
        return;
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (call->on_socket != NULL)
        call->on_socket(call->on_socket_arg, fd);
}

/* The first step of a connection. No thread forks during this step, unless a name has to be
 * resolved first, which may take long. */
static int connect_start(struct my_connection *conn, struct my_call *call)
{
    const bool quick = conn->config->socket != NULL || conn->config->numeric;
    int wait = 0;

    if (quick)
        cloexec_lock();
    wait = call_start(conn, call);
    socket_made(conn, call);
    if (quick)
        cloexec_unlock();
    return wait;
}

#define CLIENT_TLS 0x0800u

#define GREETING_MAX 512u /* bytes; servers send about a hundred */

/* What a server sends first. */
enum greeting {
    GREETING_SHORT, /* more is to come; *want says how many bytes make it whole */
    GREETING_TLS,   /* it offers TLS, or refuses us: the library says why */
    GREETING_PLAIN  /* it offers none, and the library would go on and show the password's hash */
};

/* The library takes it for an error, and goes no further. It takes each version from 10 on for a
 * greeting, and goes on to the next packet after a report of progress, which is an error 65535. */
static bool is_refusal(const unsigned char *bytes, size_t len)
{
    const bool is_progress = len > 6 && bytes[5] == 0xff && bytes[6] == 0xff;

    return len > 4 && (bytes[4] < 10 || (bytes[4] == 0xff && !is_progress));
}

/* Four bytes of header, of which three are the length, the version of the protocol, the server's
 * version with a 0, the number of the connection (4), a part of the salt (8), 0, and what the
 * server offers (2). */
static enum greeting greeting_read(const unsigned char *bytes, size_t len, size_t *want)
{
    const unsigned char *end = NULL;
    size_t at = 0;

    *want = len < 4 ? 4 : 4 + ((size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16);
    if (*want > GREETING_MAX)
        *want = GREETING_MAX;
    if (len < *want || len < 4)
        return GREETING_SHORT;
    if (is_refusal(bytes, *want))
        return GREETING_TLS;
    end = *want > 5 && bytes[4] != 0xff ? memchr(bytes + 5, '\0', *want - 5) : NULL;
    at = end != NULL ? (size_t)(end - bytes) + 1 + 4 + 8 + 1 : 0;
    if (end == NULL || at + 2 > *want)
        return GREETING_PLAIN;
    return ((bytes[at] | (unsigned)bytes[at + 1] << 8) & CLIENT_TLS) != 0 ? GREETING_TLS
                                                                          : GREETING_PLAIN;
}

static bool connected(int fd)
{
    struct pollfd state = {.fd = fd, .events = POLLOUT};

    return poll(&state, 1, 0) == 1 && (state.revents & (POLLERR | POLLHUP)) == 0;
}

/* Waits for the whole of what a server sends first, which is left where it is. SHORT: it ended, or
 * something failed, which the library will meet as well. */
static enum dlock_status greeting_await(struct my_connection *conn, int fd, enum greeting *greeting)
{
    unsigned char bytes[GREETING_MAX];
    enum dlock_status status = DLOCK_OK;
    ssize_t got = 0, before = 0;
    size_t want = 1;
    int ready = 0;

    do {
        got = recv(fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN) || (got > 0 && got == before))
            break;
        before = got;
        *greeting = greeting_read(bytes, got > 0 ? (size_t)got : 0, &want);
        if (*greeting != GREETING_SHORT)
            break;
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &(int){(int)want}, sizeof(int));
        status = wait_for(conn, MYSQL_WAIT_READ, &ready);
    } while (status == DLOCK_OK);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &(int){1}, sizeof(int));
    return status;
}

/* With TLS, once there is a connection, and before the library reads and answers. CONFIG: the
 * server offers no TLS. */
static enum dlock_status greeting_check(struct my_connection *conn, struct my_call *call)
{
    const int fd = mysql_get_socket(conn->mysql);
    enum greeting greeting = GREETING_SHORT;
    enum dlock_status status = DLOCK_OK;

    if (call->kind != MY_CONNECT || !conn->tls || call->greeted || !connected(fd))
        return DLOCK_OK;
    status = greeting_await(conn, fd, &greeting);
    call->greeted = status == DLOCK_OK;
    if (status == DLOCK_OK && greeting == GREETING_SHORT)
        (void)shutdown(fd, SHUT_RDWR);
    return greeting == GREETING_PLAIN ? DLOCK_CONFIG : status;
}

/* A statement was sent. */
static void sent(struct my_connection *conn, const struct my_call *call)
{
    void (*on_sent)(void *arg) = conn->on_sent;

    if (on_sent == NULL || (call->kind != MY_QUERY && call->kind != MY_EXECUTE))
        return;
    conn->on_sent = NULL;
    on_sent(conn->on_sent_arg);
}

/* From the start, or from where it was left. */
static enum dlock_status run(struct my_connection *conn, struct my_call *call)
{
    int wait = call->pending;

    if (wait == 0)
        wait = call->kind == MY_CONNECT ? connect_start(conn, call) : call_start(conn, call);
    sent(conn, call);
    while (wait != 0) {
        int ready = 0;
        enum dlock_status status = DLOCK_INTERNAL;

        if (call->kind == MY_CONNECT)
            socket_made(conn, call);
        status = wait_for(conn, wait, &ready);
        if (status == DLOCK_OK)
            status = greeting_check(conn, call);
        if (status != DLOCK_OK) {
            call->pending = wait;
            return status;
        }
        wait = call_continue(conn->mysql, call, ready);
    }
    call->pending = 0;
    return DLOCK_OK;
}

enum dlock_status my_connection_resume(struct my_connection *conn, struct my_call *call)
{
    struct dl_signal_guard guard;
    enum dlock_status status = DLOCK_INTERNAL;

    if (!conn->tls)
        return run(conn, call);
    openssl_begin(&guard);
    status = run(conn, call);
    openssl_end(&guard);
    return status;
}

enum dlock_status my_connection_call(struct my_connection *conn, struct my_call *call)
{
    enum dlock_status status = my_connection_resume(conn, call);

    if (status != DLOCK_OK)
        conn->dead = true;
    return status;
}

void my_connection_drop(struct my_connection *conn)
{
    struct dl_signal_guard guard;
    MYSQL *mysql = conn->mysql;

    conn->mysql = NULL; /* first: a child that is forked meanwhile must not close another file */
    if (conn->tls)
        openssl_begin(&guard);
    mysql_close(mysql);
    if (conn->tls)
        openssl_end(&guard);
}

enum dlock_status my_connection_sleep(struct my_connection *conn, int64_t pause_ns)
{
    struct pollfd wake = {.fd = conn->wake_fd, .events = POLLIN};
    int64_t left_ns = conn->deadline_ns - my_connection_now(conn);
    int64_t ns = pause_ns < left_ns ? pause_ns : left_ns;
    const struct timespec span = dl_deadline_cond_slice(ns);

    if (ns > 0 && ppoll(&wake, 1, &span, NULL) > 0)
        wake_take(conn);
    if (conn->stop != NULL && atomic_load(conn->stop) != 0)
        return DLOCK_CANCELED;
    return pause_ns < left_ns ? DLOCK_OK : DLOCK_TIMEOUT;
}
