/* SPDX-License-Identifier: MIT */
/*
 * The library resolves names by getaddrinfo and shakes hands for TLS by poll, and both keep no
 * deadline. A connection to a name or with TLS is made in a thread of its own, therefore, which is
 * left alone when it takes too long: its socket is shut down, it has copies of all it reads, ends
 * by itself and cleans up. Resolving first and connecting to the address would be simpler, but TLS
 * has to see the name. While one that was left alone is at a host, no other is begun to that host:
 * a resolver that is silent gets no more threads than connections were being made when it fell
 * silent.
 */
#include "my.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int64_t clock_now(void *ctx)
{
    (void)ctx;
    return dl_time_now_ns(CLOCK_BOOTTIME);
}

struct dial {
    struct dial *next; /* of those that were left alone */
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    struct dlock_host host; /* nothing of the caller's */
    struct my_place place;
    struct my_conn conn;
    struct my_call call;
    enum dlock_status status;
    int done, abandoned;
    int socket; /* + 1, a duplicate, which stays ours when the library closes its own */
    char *user, *password;
};

/* Those that were left alone and have not ended. The mutex is a leaf. */
static pthread_mutex_t alone_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t alone_ended;
static struct dial *alone;

static void alone_lock(void)
{
    (void)pthread_mutex_lock(&alone_mutex);
}

static void alone_unlock(void)
{
    (void)pthread_mutex_unlock(&alone_mutex);
}

/* Their threads are the parent's. */
static void alone_forget(void)
{
    alone = NULL;
    (void)dl_deadline_cond_init(&alone_ended);
    alone_unlock();
}

static void alone_add(struct dial *dial)
{
    alone_lock();
    dial->next = alone;
    alone = dial;
    alone_unlock();
}

static void alone_remove(struct dial *dial)
{
    struct dial **link = &alone;

    alone_lock();
    while (*link != NULL && *link != dial)
        link = &(*link)->next;
    if (*link != NULL)
        *link = dial->next;
    (void)pthread_cond_broadcast(&alone_ended);
    alone_unlock();
}

static int alone_at(const char *endpoint)
{
    const struct dial *dial = alone;

    while (dial != NULL && strcmp(dial->place.endpoint, endpoint) != 0)
        dial = dial->next;
    return dial != NULL;
}

static int time_is_left(const struct my_conn *conn)
{
    return conn->host->now_ns(conn->host->ctx) < conn->deadline_ns;
}

/* Non-zero: there is one still. */
static int alone_await(const struct my_conn *conn)
{
    const char *endpoint = conn->place->endpoint;
    int there = 0;

    alone_lock();
    while (alone_at(endpoint) && time_is_left(conn))
        dl_deadline_cond_wait(&alone_ended, &alone_mutex,
                              conn->deadline_ns - conn->host->now_ns(conn->host->ctx));
    there = alone_at(endpoint);
    alone_unlock();
    return there;
}

static void dial_free(struct dial *dial)
{
    if (dial->socket > 0)
        (void)close(dial->socket - 1);
    if (dial->conn.mysql != NULL)
        my_drive_close(&dial->conn);
    if (dial->password != NULL)
        explicit_bzero(dial->password, strlen(dial->password));
    free(dial->password);
    free(dial->user);
    (void)pthread_cond_destroy(&dial->ended);
    (void)pthread_mutex_destroy(&dial->mutex);
    free(dial);
}

/* The next address has another socket. */
static void dial_seen(void *arg, int fd)
{
    struct dial *dial = arg;

    (void)pthread_mutex_lock(&dial->mutex);
    if (dial->socket > 0)
        (void)close(dial->socket - 1);
    dial->socket = fcntl(fd, F_DUPFD_CLOEXEC, 0) + 1;
    if (dial->abandoned)
        (void)shutdown(fd, SHUT_RDWR);
    (void)pthread_mutex_unlock(&dial->mutex);
}

static void *dial_run(void *arg)
{
    struct dial *dial = arg;
    enum dlock_status status = my_drive(&dial->conn, &dial->call);
    int abandoned = 0;

    (void)pthread_mutex_lock(&dial->mutex);
    dial->status = status;
    dial->done = 1;
    abandoned = dial->abandoned;
    (void)pthread_cond_signal(&dial->ended);
    (void)pthread_mutex_unlock(&dial->mutex);
    if (abandoned) {
        alone_remove(dial);
        dial_free(dial);
    }
    return NULL;
}

static struct dial *dial_new(struct my_conn *conn, const char *password)
{
    struct dial *dial = calloc(1, sizeof *dial);

    if (dial == NULL)
        return NULL;
    (void)pthread_mutex_init(&dial->mutex, NULL);
    (void)dl_deadline_cond_init(&dial->ended);
    dial->user = strdup(conn->place->user);
    dial->password = strdup(password);
    if (dial->user == NULL || dial->password == NULL) {
        dial_free(dial);
        return NULL;
    }
    dial->host = (struct dlock_host){.struct_size = sizeof dial->host, .now_ns = clock_now};
    dial->place = *conn->place;
    dial->place.target = NULL;
    dial->place.user = dial->user;
    dial->conn = (struct my_conn){
        .mysql = conn->mysql,
        .place = &dial->place,
        .host = &dial->host,
        .tls = conn->tls,
        .wake_fd = -1,
        .deadline_ns = clock_now(NULL) + (conn->deadline_ns - conn->host->now_ns(conn->host->ctx)),
    };
    dial->call = (struct my_call){
        .what = MY_CONNECT, .text = dial->password, .seen = dial_seen, .seen_arg = dial};
    conn->mysql = NULL;
    return dial;
}

static int thread_start(struct dial *dial)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int failed = 0;

    (void)sigfillset(&all);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&thread, &attr, dial_run, dial);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return failed;
}

enum dlock_status my_aside(struct my_conn *conn, struct my_call *call)
{
    struct dial *dial = NULL;
    enum dlock_status status = DLOCK_TIMEOUT;
    int left_alone = 0;

    if (alone_await(conn))
        return DLOCK_TIMEOUT;
    dial = dial_new(conn, call->text);
    if (dial == NULL)
        return DLOCK_NOMEM;
    if (thread_start(dial) != 0) {
        dial_free(dial);
        return DLOCK_NOMEM;
    }
    (void)pthread_mutex_lock(&dial->mutex);
    while (!dial->done && time_is_left(conn))
        dl_deadline_cond_wait(&dial->ended, &dial->mutex,
                              conn->deadline_ns - conn->host->now_ns(conn->host->ctx));
    if (dial->done) {
        status = dial->status;
        call->failed = dial->call.failed;
        conn->mysql = dial->conn.mysql;
        conn->dead = dial->conn.dead;
        dial->conn.mysql = NULL;
    }
    left_alone = dial->abandoned = !dial->done;
    if (left_alone)
        alone_add(dial);
    if (left_alone && dial->socket > 0)
        (void)shutdown(dial->socket - 1, SHUT_RDWR);
    (void)pthread_mutex_unlock(&dial->mutex);
    if (!left_alone)
        dial_free(dial);
    return status;
}

int my_aside_init(void)
{
    (void)dl_deadline_cond_init(&alone_ended);
    return pthread_atfork(alone_lock, alone_unlock, alone_forget);
}
