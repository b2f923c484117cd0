/* SPDX-License-Identifier: MIT */
#include "my.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A step of the library: what it waits for next (MYSQL_WAIT_*), 0: it is through. */
static int call_start(const struct my_conn *conn, struct my_call *call)
{
    const struct my_place *place = conn->place;
    MYSQL *mysql = conn->mysql, *connected = NULL;
    int wait = 0;

    switch (call->what) {
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
        wait =
            mysql_real_connect_start(&connected, mysql, place->socket == NULL ? place->host : NULL,
                                     place->user, call->text, place->database, place->port,
                                     place->socket, CLIENT_FOUND_ROWS | CLIENT_MULTI_STATEMENTS);
        call->failed = wait == 0 && connected == NULL;
        return wait;
    }
    return wait;
}

static int call_go_on(MYSQL *mysql, struct my_call *call, int ready)
{
    MYSQL *connected = NULL;
    int wait = 0;

    switch (call->what) {
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

    if ((events & (POLLERR | POLLHUP | POLLNVAL)) != 0) /* its next call tells it so */
        ready |= wait & (MYSQL_WAIT_READ | MYSQL_WAIT_WRITE);
    return ready;
}

/* A stale wake-up, or the one that says stop. */
static void wake_take(const struct my_conn *conn)
{
    uint64_t sum = 0;
    ssize_t got = read(conn->wake_fd, &sum, sizeof sum);

    (void)got;
}

/* How many have something to say; 0: none of them at once. */
static int spin_for(struct my_conn *conn, struct pollfd fds[2])
{
    int count = 0;

    while (count == 0 && spin_more(&conn->spin, conn->host->now_ns(conn->host->ctx))) {
        (void)sched_yield();
        count = poll(fds, 2, 0);
    }
    return count;
}

/* *ready is what happened, of what the library waits for. */
static enum dlock_status sleep_for(struct my_conn *conn, int wait, int *ready)
{
    struct pollfd fds[2] = {{.fd = mysql_get_socket(conn->mysql), .events = events_of(wait)},
                            {.fd = conn->stop != NULL ? conn->wake_fd : -1, .events = POLLIN}};

    for (;;) {
        int64_t left_ns = conn->deadline_ns - conn->host->now_ns(conn->host->ctx);
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

/* How long others hold a row is not known from other answers. */
static enum dlock_status wait_for(struct my_conn *conn, int wait, int *ready)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if (conn->waits || conn->spin.processors < 2)
        return sleep_for(conn, wait, ready);
    spin_begin(&conn->spin, conn->host->now_ns(conn->host->ctx));
    status = sleep_for(conn, wait, ready);
    spin_end(&conn->spin, conn->host->now_ns(conn->host->ctx), status == DLOCK_OK);
    return status;
}

/* Around calls of OpenSSL, which writes without MSG_NOSIGNAL: a dead peer must not end the process.
 * And which takes an error for its own that any connection of this thread left behind. */
struct tls_guard {
    sigset_t pipe, before;
    int pending;
};

static void guard_begin(struct tls_guard *guard)
{
    sigset_t pending;

    ERR_clear_error();
    (void)sigemptyset(&guard->pipe);
    (void)sigaddset(&guard->pipe, SIGPIPE);
    (void)sigpending(&pending);
    guard->pending = sigismember(&pending, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &guard->pipe, &guard->before);
}

static void guard_end(const struct tls_guard *guard)
{
    const struct timespec none = {0};

    ERR_clear_error();
    if (!guard->pending) {
        while (sigtimedwait(&guard->pipe, NULL, &none) < 0 && errno == EINTR)
            ;
    }
    (void)pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

/* The library makes sockets that a program started meanwhile would keep. */
static void socket_seen(const struct my_conn *conn, const struct my_call *call)
{
    int fd = mysql_get_socket(conn->mysql);

    if (fd < 0)
        return;
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (call->seen != NULL)
        call->seen(call->seen_arg, fd);
}

/* Held while a socket is there that a program would keep. */
static pthread_mutex_t birth = PTHREAD_MUTEX_INITIALIZER;

static void birth_lock(void)
{
    (void)pthread_mutex_lock(&birth);
}

static void birth_unlock(void)
{
    (void)pthread_mutex_unlock(&birth);
}

int my_drive_init(void)
{
    return pthread_atfork(birth_lock, birth_unlock, birth_unlock);
}

/* The first step of a connection. Nobody forks meanwhile, unless a name has to be resolved first,
 * which may take its time. */
static int connect_start(struct my_conn *conn, struct my_call *call)
{
    const int quick = conn->place->socket != NULL || conn->place->numeric;
    int wait = 0;

    if (quick)
        birth_lock();
    wait = call_start(conn, call);
    socket_seen(conn, call);
    if (quick)
        birth_unlock();
    return wait;
}

/* A statement is on its way. */
static void sent(struct my_conn *conn, const struct my_call *call)
{
    void (*meanwhile)(void *arg) = conn->meanwhile;

    if (meanwhile == NULL || (call->what != MY_QUERY && call->what != MY_EXECUTE))
        return;
    conn->meanwhile = NULL;
    meanwhile(conn->meanwhile_arg);
}

/* From the start, or from where it was left. */
static enum dlock_status run(struct my_conn *conn, struct my_call *call)
{
    int wait = call->pending;

    if (wait == 0)
        wait = call->what == MY_CONNECT ? connect_start(conn, call) : call_start(conn, call);
    sent(conn, call);
    while (wait != 0) {
        int ready = 0;
        enum dlock_status status = DLOCK_INTERNAL;

        if (call->what == MY_CONNECT)
            socket_seen(conn, call);
        status = wait_for(conn, wait, &ready);
        if (status != DLOCK_OK) {
            call->pending = wait;
            return status;
        }
        wait = call_go_on(conn->mysql, call, ready);
    }
    call->pending = 0;
    return DLOCK_OK;
}

enum dlock_status my_drive_part(struct my_conn *conn, struct my_call *call)
{
    struct tls_guard guard;
    enum dlock_status status = DLOCK_INTERNAL;

    if (!conn->tls)
        return run(conn, call);
    guard_begin(&guard);
    status = run(conn, call);
    guard_end(&guard);
    return status;
}

enum dlock_status my_drive(struct my_conn *conn, struct my_call *call)
{
    enum dlock_status status = my_drive_part(conn, call);

    if (status != DLOCK_OK)
        conn->dead = 1;
    return status;
}

void my_drive_close(struct my_conn *conn)
{
    struct tls_guard guard;

    if (conn->tls)
        guard_begin(&guard);
    mysql_close(conn->mysql);
    if (conn->tls)
        guard_end(&guard);
    conn->mysql = NULL;
}

enum dlock_status my_pause(struct my_conn *conn, int64_t pause_ns)
{
    struct pollfd wake = {.fd = conn->wake_fd, .events = POLLIN};
    int64_t left_ns = conn->deadline_ns - conn->host->now_ns(conn->host->ctx);
    int64_t ns = pause_ns < left_ns ? pause_ns : left_ns;
    const struct timespec span = dl_deadline_cond_slice(ns);

    if (ns > 0 && ppoll(&wake, 1, &span, NULL) > 0)
        wake_take(conn);
    if (conn->stop != NULL && atomic_load(conn->stop) != 0)
        return DLOCK_CANCELED;
    return pause_ns < left_ns ? DLOCK_OK : DLOCK_TIMEOUT;
}
