/* SPDX-License-Identifier: MIT */
#include "async.h"

#include "lib/deadline_cond.h"
#include "lib/signal_guard.h"
#include "net/cloexec.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

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
static void guard_begin(struct dl_signal_guard *guard)
{
    ERR_clear_error();
    dl_signal_guard_begin(guard, SIGPIPE);
}

static void guard_end(struct dl_signal_guard *guard)
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

static bool connected(int fd)
{
    struct pollfd state = {.fd = fd, .events = POLLOUT};

    return poll(&state, 1, 0) == 1 && (state.revents & (POLLERR | POLLHUP)) == 0;
}

/* Waits for the whole of what a server sends first, which is left where it is. SHORT: it ended, or
 * something failed, which the library will meet as well. */
static enum dlock_status greeting_await(struct my_connection *conn, int fd,
                                        enum my_greeting *greeting)
{
    unsigned char bytes[MY_GREETING_MAX];
    enum dlock_status status = DLOCK_OK;
    ssize_t got = 0, before = 0;
    size_t want = 1;
    int ready = 0;

    do {
        got = recv(fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN) || (got > 0 && got == before))
            break;
        before = got;
        *greeting = my_peer_greeting(bytes, got > 0 ? (size_t)got : 0, &want);
        if (*greeting != MY_GREETING_SHORT)
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
    enum my_greeting greeting = MY_GREETING_SHORT;
    enum dlock_status status = DLOCK_OK;

    if (call->kind != MY_CONNECT || !conn->tls || call->greeted || !connected(fd))
        return DLOCK_OK;
    status = greeting_await(conn, fd, &greeting);
    call->greeted = status == DLOCK_OK;
    if (status == DLOCK_OK && greeting == MY_GREETING_SHORT)
        (void)shutdown(fd, SHUT_RDWR);
    return greeting == MY_GREETING_PLAIN ? DLOCK_CONFIG : status;
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

enum dlock_status my_async_resume(struct my_connection *conn, struct my_call *call)
{
    struct dl_signal_guard guard;
    enum dlock_status status = DLOCK_INTERNAL;

    if (!conn->tls)
        return run(conn, call);
    guard_begin(&guard);
    status = run(conn, call);
    guard_end(&guard);
    return status;
}

enum dlock_status my_async_run(struct my_connection *conn, struct my_call *call)
{
    enum dlock_status status = my_async_resume(conn, call);

    if (status != DLOCK_OK)
        conn->dead = true;
    return status;
}

void my_async_close(struct my_connection *conn)
{
    struct dl_signal_guard guard;
    MYSQL *mysql = conn->mysql;

    conn->mysql = NULL; /* first: a child that is forked meanwhile must not close another file */
    if (conn->tls)
        guard_begin(&guard);
    mysql_close(mysql);
    if (conn->tls)
        guard_end(&guard);
}

enum dlock_status my_async_sleep(struct my_connection *conn, int64_t pause_ns)
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
