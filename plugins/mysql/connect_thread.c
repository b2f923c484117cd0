/* SPDX-License-Identifier: MIT */
/*
 * The name lookup (getaddrinfo) and the TLS handshake (poll) of libmariadb ignore deadlines.
 * Therefore a thread of its own makes a connection to a name or with TLS. On timeout the thread is
 * abandoned: its socket is shut down, it owns copies of its inputs and frees itself. A lookup first
 * and a connection to the address would be simpler, but TLS has to know the name. While an
 * abandoned thread is busy with a server, no other thread is started for that server: a silent
 * resolver gets no more threads than there were calls when it fell silent.
 */
#include "connect_thread.h"

#include "lib/deadline_cond.h"
#include "lib/secret.h"
#include "lib/thread.h"
#include "peer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int64_t clock_now(void *ctx)
{
    (void)ctx;
    return dl_time_now_ns(CLOCK_BOOTTIME);
}

struct connect_thread {
    struct connect_thread *next; /* of the abandoned ones */
    struct dlock_host host;      /* nothing of the caller's */
    struct my_config config;
    struct my_connection conn;
    struct my_call call;
    enum dlock_status status;
    bool done, abandoned;
    int socket; /* + 1, a duplicate, which stays ours when the library closes its own */
    char *user, *password;
};

/* Of all threads. A leaf. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended;
static struct connect_thread *abandoned; /* the ones that have not ended */

static void lock(void)
{
    (void)pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&mutex);
}

static void unlock_after_fork(void)
{
    abandoned = NULL; /* these threads are the parent's */
    (void)dl_deadline_cond_init(&ended);
    unlock();
}

static void abandoned_remove_locked(struct connect_thread *thread)
{
    struct connect_thread **at = &abandoned;

    while (*at != thread)
        at = &(*at)->next;
    *at = thread->next;
}

static bool abandoned_at_locked(const char *endpoint)
{
    const struct connect_thread *thread = abandoned;

    while (thread != NULL && strcmp(thread->config.endpoint, endpoint) != 0)
        thread = thread->next;
    return thread != NULL;
}

/* Sleeps until a thread ends or for a moment. false: the deadline is over. */
static bool sleep_locked(const struct my_connection *conn)
{
    if (my_connection_now(conn) >= conn->deadline_ns)
        return false;
    dl_deadline_cond_wait(&ended, &mutex, conn->deadline_ns - my_connection_now(conn));
    return true;
}

static void thread_free(struct connect_thread *thread)
{
    if (thread->socket > 0)
        (void)close(thread->socket - 1);
    if (thread->conn.mysql != NULL)
        my_async_close(&thread->conn);
    dl_secret_free(thread->password);
    free(thread->user);
    free(thread);
}

/* The next address has another socket. */
static void thread_socket(void *arg, int fd)
{
    struct connect_thread *thread = arg;

    lock();
    if (thread->socket > 0)
        (void)close(thread->socket - 1);
    thread->socket = fcntl(fd, F_DUPFD_CLOEXEC, 0) + 1;
    if (thread->abandoned)
        (void)shutdown(fd, SHUT_RDWR);
    unlock();
}

static void *thread_run(void *arg)
{
    struct connect_thread *thread = arg;
    enum dlock_status status = my_async_run(&thread->conn, &thread->call);
    bool was_abandoned = false;

    lock();
    thread->status = status;
    thread->done = true;
    was_abandoned = thread->abandoned;
    if (was_abandoned)
        abandoned_remove_locked(thread);
    (void)pthread_cond_broadcast(&ended);
    unlock();
    if (was_abandoned)
        thread_free(thread);
    return NULL;
}

static struct connect_thread *thread_new(struct my_connection *conn, const char *password)
{
    struct connect_thread *thread = calloc(1, sizeof *thread);

    if (thread == NULL)
        return NULL;
    thread->user = strdup(conn->config->user);
    thread->password = strdup(password);
    if (thread->user == NULL || thread->password == NULL) {
        thread_free(thread);
        return NULL;
    }
    thread->host = (struct dlock_host){.struct_size = sizeof thread->host, .now_ns = clock_now};
    thread->config = *conn->config;
    thread->config.target = NULL;
    thread->config.user = thread->user;
    thread->conn = (struct my_connection){
        .mysql = conn->mysql,
        .config = &thread->config,
        .host = &thread->host,
        .tls = conn->tls,
        .wake_fd = -1,
        .deadline_ns = clock_now(NULL) + (conn->deadline_ns - my_connection_now(conn)),
    };
    thread->call = (struct my_call){.kind = MY_CONNECT,
                                    .text = thread->password,
                                    .on_socket = thread_socket,
                                    .on_socket_arg = thread};
    if (conn->tls && !my_peer_verdict_keep(conn->mysql, &thread->call.verdict)) {
        thread->conn.mysql = NULL;
        thread_free(thread);
        return NULL;
    }
    conn->mysql = NULL;
    return thread;
}

/* true: the thread has ended, and its outcome is in conn and call. */
static bool thread_await_locked(struct connect_thread *thread, struct my_connection *conn,
                                struct my_call *call)
{
    while (!thread->done && sleep_locked(conn))
        ;
    if (thread->done) {
        call->failed = thread->call.failed;
        call->verdict = thread->call.verdict;
        conn->mysql = thread->conn.mysql;
        conn->dead = thread->conn.dead;
        thread->conn.mysql = NULL;
        return true;
    }
    thread->abandoned = true;
    thread->next = abandoned;
    abandoned = thread;
    if (thread->socket > 0)
        (void)shutdown(thread->socket - 1, SHUT_RDWR);
    return false;
}

enum dlock_status my_connect_thread_run(struct my_connection *conn, struct my_call *call)
{
    struct connect_thread *thread = NULL;
    enum dlock_status status = DLOCK_TIMEOUT;
    bool other = false, done = false;

    lock();
    while (abandoned_at_locked(conn->config->endpoint) && sleep_locked(conn))
        ;
    other = abandoned_at_locked(conn->config->endpoint);
    unlock();
    if (other)
        return DLOCK_TIMEOUT;
    thread = thread_new(conn, call->text);
    if (thread == NULL)
        return DLOCK_NOMEM;
    if (dl_thread_start(NULL, NULL, thread_run, thread) != 0) {
        thread_free(thread);
        return DLOCK_NOMEM;
    }
    lock();
    done = thread_await_locked(thread, conn, call);
    if (done)
        status = thread->status;
    unlock();
    if (done)
        thread_free(thread);
    return status;
}

int my_connect_thread_init(void)
{
    (void)dl_deadline_cond_init(&ended);
    return pthread_atfork(lock, unlock, unlock_after_fork);
}
