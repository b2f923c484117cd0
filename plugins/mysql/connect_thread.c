/* SPDX-License-Identifier: MIT */
/*
 * The name lookup (getaddrinfo) and the TLS handshake (poll) of libmariadb ignore deadlines.
 * Therefore a thread of its own makes a connection to a name or with TLS. It owns copies of its
 * inputs. A lookup first and a connection to the address would be simpler, but TLS has to know the
 * name.
 *
 * A caller whose time is over leaves its thread, which goes on for LOGIN_NS: the next call of that
 * client takes it over, so that also calls with less time than a login takes get a connection in
 * the end. After that, or when the client closes, the thread is abandoned: its socket is shut down,
 * and it frees itself. While an abandoned thread is busy with a server, no other thread is started
 * for that server: a silent resolver gets no more threads than there were calls when it fell
 * silent.
 */
#include "connect_thread.h"

#include "lib/deadline_cond.h"
#include "lib/secret.h"
#include "lib/thread.h"
#include "peer.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOGIN_NS (2 * DL_NS_PER_S)

static int64_t clock_now(void *ctx)
{
    (void)ctx;
    return dl_time_now_ns(CLOCK_BOOTTIME);
}

struct connect_thread {
    struct connect_thread *next; /* of those without a caller */
    const void *client;          /* compared only */
    int64_t until_ns;            /* when it is abandoned */
    struct dlock_host host;      /* nothing of the caller's */
    struct my_config config;
    struct my_connection conn;
    struct my_call call;
    enum dlock_status status;
    bool done;
    bool left;      /* without a caller, for the next one */
    bool abandoned; /* without a caller, for nobody */
    int socket;     /* + 1, a duplicate, which stays ours when the library closes its own */
    char *user, *password, *socket_path;
};

/* Of all threads. A leaf. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended;
static struct connect_thread *alone; /* the ones that are left, or abandoned and have not ended */

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
    for (struct connect_thread *thread = alone; thread != NULL; thread = thread->next) {
        if (thread->socket > 0)
            (void)close(thread->socket - 1);
        if (thread->done)
            (void)close(mysql_get_socket(thread->conn.mysql));
    }
    alone = NULL; /* these threads are the parent's */
    (void)dl_deadline_cond_init(&ended);
    unlock();
}

static void alone_add_locked(struct connect_thread *thread)
{
    thread->next = alone;
    alone = thread;
}

static void alone_remove_locked(struct connect_thread *thread)
{
    struct connect_thread **at = &alone;

    while (*at != thread)
        at = &(*at)->next;
    *at = thread->next;
}

static bool abandoned_at_locked(const char *endpoint)
{
    const struct connect_thread *thread = alone;

    while (thread != NULL && (!thread->abandoned || strcmp(thread->config.endpoint, endpoint) != 0))
        thread = thread->next;
    return thread != NULL;
}

/* One that is still at work. */
static void abandon_locked(struct connect_thread *thread)
{
    thread->left = false;
    thread->abandoned = true;
    if (thread->socket > 0)
        (void)shutdown(thread->socket - 1, SHUT_RDWR);
}

/* One that a caller of this client left, and that logs in with this password. */
static struct connect_thread *left_take_locked(const void *client, const char *password)
{
    struct connect_thread *found = NULL;

    for (struct connect_thread *thread = alone; thread != NULL; thread = thread->next) {
        if (thread->left && !thread->done && clock_now(NULL) >= thread->until_ns)
            abandon_locked(thread);
        if (thread->left && thread->client == client && strcmp(thread->password, password) == 0)
            found = thread;
    }
    if (found != NULL) {
        alone_remove_locked(found);
        found->left = false;
    }
    return found;
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
    free(thread->socket_path);
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
    bool unwanted = false;

    lock();
    thread->status = status;
    thread->done = true;
    unwanted =
        thread->abandoned || (thread->left && (status != DLOCK_OK || thread->call.failed != 0));
    if (unwanted)
        alone_remove_locked(thread);
    (void)pthread_cond_broadcast(&ended);
    unlock();
    if (unwanted)
        thread_free(thread);
    return NULL;
}

static struct connect_thread *thread_new(struct my_connection *conn, const char *password)
{
    struct connect_thread *thread = calloc(1, sizeof *thread);
    const int64_t now_ns = clock_now(NULL);
    const int64_t left_ns = conn->deadline_ns - my_connection_now(conn);

    if (thread == NULL)
        return NULL;
    thread->client = conn->host;
    thread->until_ns = now_ns + LOGIN_NS;
    thread->user = strdup(conn->config->user);
    thread->password = strdup(password);
    if (conn->config->socket != NULL)
        thread->socket_path = strdup(conn->config->socket);
    if (thread->user == NULL || thread->password == NULL ||
        (conn->config->socket != NULL && thread->socket_path == NULL)) {
        thread_free(thread);
        return NULL;
    }
    thread->host = (struct dlock_host){.struct_size = sizeof thread->host, .now_ns = clock_now};
    thread->config = *conn->config;
    thread->config.target = NULL;
    thread->config.user = thread->user;
    thread->config.socket = thread->socket_path;
    thread->conn = (struct my_connection){
        .mysql = conn->mysql,
        .config = &thread->config,
        .host = &thread->host,
        .tls = conn->tls,
        .wake_fd = -1,
        .deadline_ns = now_ns + (left_ns > LOGIN_NS ? left_ns : LOGIN_NS),
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

/* Waits for the thread, which is not the caller's any more then. If conn has a handle already, it
 * keeps that unless the thread has made a connection. */
static enum dlock_status thread_await(struct connect_thread *thread, struct my_connection *conn,
                                      struct my_call *call)
{
    enum dlock_status status = DLOCK_TIMEOUT;
    bool done = false;

    lock();
    while (!thread->done && sleep_locked(conn))
        ;
    done = thread->done;
    if (!done) {
        alone_add_locked(thread);
        if (clock_now(NULL) < thread->until_ns)
            thread->left = true;
        else
            abandon_locked(thread);
    }
    unlock();
    if (!done)
        return DLOCK_TIMEOUT;
    status = thread->status;
    if (conn->mysql != NULL && status == DLOCK_OK)
        my_async_close(conn);
    if (conn->mysql == NULL) {
        call->failed = thread->call.failed;
        call->verdict = thread->call.verdict;
        conn->mysql = thread->conn.mysql;
        conn->dead = thread->conn.dead;
        thread->conn.mysql = NULL;
    }
    thread_free(thread);
    return status;
}

static enum dlock_status thread_start(struct my_connection *conn, const char *password,
                                      struct connect_thread **out)
{
    struct connect_thread *thread = NULL;
    bool other = false;

    lock();
    while (abandoned_at_locked(conn->config->endpoint) && sleep_locked(conn))
        ;
    other = abandoned_at_locked(conn->config->endpoint);
    unlock();
    if (other)
        return DLOCK_TIMEOUT;
    thread = thread_new(conn, password);
    if (thread == NULL)
        return DLOCK_NOMEM;
    if (dl_thread_start(NULL, NULL, thread_run, thread) != 0) {
        thread_free(thread);
        return DLOCK_NOMEM;
    }
    *out = thread;
    return DLOCK_OK;
}

/* The server ends a connection that nobody uses, or itself. */
static bool is_over(struct connect_thread *thread)
{
    struct pollfd end = {.events = POLLIN};
    bool over = false;

    lock();
    end.fd = thread->socket - 1;
    over = thread->done && poll(&end, 1, 0) != 0;
    unlock();
    return over;
}

static struct connect_thread *left_take(const struct my_connection *conn, const char *password)
{
    struct connect_thread *thread = NULL;

    for (;;) {
        lock();
        thread = left_take_locked(conn->host, password);
        unlock();
        if (thread == NULL || !is_over(thread))
            return thread;
        thread_free(thread);
    }
}

enum dlock_status my_connect_thread_run(struct my_connection *conn, struct my_call *call)
{
    struct connect_thread *thread = left_take(conn, call->text);
    enum dlock_status status = DLOCK_TIMEOUT;

    if (thread != NULL)
        status = thread_await(thread, conn, call);
    if (status != DLOCK_TIMEOUT || (thread != NULL && my_connection_now(conn) >= conn->deadline_ns))
        return status;
    status = thread_start(conn, call->text, &thread);
    return status == DLOCK_OK ? thread_await(thread, conn, call) : status;
}

void my_connect_thread_end(const void *client)
{
    struct connect_thread *unused = NULL, *next = NULL;

    lock();
    for (struct connect_thread *thread = alone; thread != NULL; thread = next) {
        next = thread->next;
        if (!thread->left || thread->client != client)
            continue;
        if (!thread->done) {
            abandon_locked(thread);
            continue;
        }
        alone_remove_locked(thread);
        thread->next = unused;
        unused = thread;
    }
    unlock();
    for (; unused != NULL; unused = next) {
        next = unused->next;
        thread_free(unused);
    }
}

int my_connect_thread_init(void)
{
    (void)dl_deadline_cond_init(&ended);
    return pthread_atfork(lock, unlock, unlock_after_fork);
}
