/* SPDX-License-Identifier: MIT */
/*
 * The library resolves names by getaddrinfo and shakes hands for TLS by poll, and both keep no
 * deadline. A connection to a name or with TLS is made in a thread of its own, therefore, which is
 * left alone when it takes too long: its socket is shut down, it has copies of all it reads, ends
 * by itself and cleans up. Resolving first and connecting to the address would be simpler, but TLS
 * has to see the name.
 */
#include "my.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What may be asked of us; mysql_clear_password, above all, may not. */
#define AUTH_PLUGINS "mysql_native_password,client_ed25519,caching_sha2_password,sha256_password"

enum dlock_status my_dial_init(struct dlock_error *err)
{
    long before[16] = {0}; /* as the kernel has it: sigaction() would add a flag of its own */
    int failed = 0;

    /* The library ignores SIGPIPE for the whole process, which is not its business. */
    (void)syscall(SYS_rt_sigaction, SIGPIPE, NULL, before, _NSIG / 8);
    failed = mysql_library_init(0, NULL, NULL);
    (void)syscall(SYS_rt_sigaction, SIGPIPE, before, NULL, _NSIG / 8);
    if (failed)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "libmariadb does not start");
    return DLOCK_OK;
}

static int options_tls(MYSQL *mysql, const struct my_place *place)
{
    const my_bool on = 1;
    int bad = 0;

    if (!place->tls)
        return 0;
    bad |= mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &on);
    bad |= mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &on);
    bad |= mysql_options(mysql, MYSQL_OPT_TLS_VERSION, "TLSv1.2,TLSv1.3");
    if (place->tls_ca != NULL)
        bad |= mysql_options(mysql, MYSQL_OPT_SSL_CA, place->tls_ca);
    if (place->tls_cert != NULL) {
        bad |= mysql_options(mysql, MYSQL_OPT_SSL_CERT, place->tls_cert);
        bad |= mysql_options(mysql, MYSQL_OPT_SSL_KEY, place->tls_key);
    }
    return bad;
}

static MYSQL *handle_new(const struct my_place *place)
{
    const unsigned protocol = place->socket != NULL ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    const my_bool off = 0;
    const unsigned no = 0;
    MYSQL *mysql = mysql_init(NULL);
    int bad = 0;

    if (mysql == NULL)
        return NULL;
    bad |= mysql_options(mysql, MYSQL_OPT_NONBLOCK, NULL);
    bad |= mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
    bad |= mysql_options(mysql, MYSQL_OPT_RECONNECT, &off);
    bad |= mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &no);
    bad |= mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    bad |= mysql_options4(mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "dlock");
    bad |= mysql_options(mysql, MARIADB_OPT_RESTRICTED_AUTH, AUTH_PLUGINS);
    bad |= options_tls(mysql, place);
    if (bad) {
        mysql_close(mysql);
        return NULL;
    }
    return mysql;
}

static int64_t clock_now(void *ctx)
{
    struct timespec now;

    (void)ctx;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * MY_NS_PER_S + now.tv_nsec;
}

struct dial {
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
    if (abandoned)
        dial_free(dial);
    return NULL;
}

static struct dial *dial_new(struct my_conn *conn)
{
    struct dial *dial = calloc(1, sizeof *dial);
    pthread_condattr_t attr;

    if (dial == NULL)
        return NULL;
    (void)pthread_mutex_init(&dial->mutex, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&dial->ended, &attr);
    (void)pthread_condattr_destroy(&attr);
    dial->user = strdup(conn->place->user);
    dial->password = strdup(conn->place->password);
    if (dial->user == NULL || dial->password == NULL) {
        dial_free(dial);
        return NULL;
    }
    dial->host = (struct dlock_host){.struct_size = sizeof dial->host, .now_ns = clock_now};
    dial->place = *conn->place;
    dial->place.target = NULL;
    dial->place.user = dial->user;
    dial->place.password = dial->password;
    dial->conn = (struct my_conn){
        .mysql = conn->mysql,
        .place = &dial->place,
        .host = &dial->host,
        .tls = conn->tls,
        .wake_fd = -1,
        .deadline_ns = clock_now(NULL) + (conn->deadline_ns - conn->host->now_ns(conn->host->ctx)),
    };
    dial->call = (struct my_call){.what = MY_CONNECT, .seen = dial_seen, .seen_arg = dial};
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

static enum dlock_status dial_aside(struct my_conn *conn, struct my_call *call)
{
    struct dial *dial = dial_new(conn);
    enum dlock_status status = DLOCK_TIMEOUT;
    struct timespec until;
    int64_t left_ns = conn->deadline_ns - conn->host->now_ns(conn->host->ctx);
    int left_alone = 0;

    if (dial == NULL)
        return DLOCK_NOMEM;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    left_ns += until.tv_nsec;
    if (left_ns > 0) {
        until.tv_sec += left_ns / MY_NS_PER_S;
        until.tv_nsec = left_ns % MY_NS_PER_S;
    }
    if (thread_start(dial) != 0) {
        dial_free(dial);
        return DLOCK_NOMEM;
    }
    (void)pthread_mutex_lock(&dial->mutex);
    while (!dial->done && pthread_cond_timedwait(&dial->ended, &dial->mutex, &until) == 0)
        ;
    if (dial->done) {
        status = dial->status;
        call->failed = dial->call.failed;
        conn->mysql = dial->conn.mysql;
        conn->dead = dial->conn.dead;
        dial->conn.mysql = NULL;
    }
    left_alone = dial->abandoned = !dial->done;
    if (left_alone && dial->socket > 0)
        (void)shutdown(dial->socket - 1, SHUT_RDWR);
    (void)pthread_mutex_unlock(&dial->mutex);
    if (!left_alone)
        dial_free(dial);
    return status;
}

/* One number stands for a certificate that is no good, and for a link that broke. */
static enum dlock_status tls_status(const char *text)
{
    if (strstr(text, "does not support") != NULL)
        return DLOCK_CONFIG;
    if (strcasestr(text, "certificate") != NULL || strcasestr(text, "validation") != NULL)
        return DLOCK_AUTH;
    return DLOCK_UNAVAILABLE;
}

/* What is the matter with a connection that was not made, in the server's or the library's words.
 */
static enum dlock_status dial_fail(const struct my_conn *conn, struct dlock_error *err)
{
    unsigned code = mysql_errno(conn->mysql);
    enum dlock_status status = my_status_of(code, 1);

    if (code == 1130 || code == 1698 || code == 2059) /* host not allowed, user, plugin */
        status = DLOCK_AUTH;
    if (code == 2026)
        status = tls_status(mysql_error(conn->mysql));
    return dlock_fail(err, MY_ORIGIN, status, (int32_t)code, "%s: %.180s", conn->place->endpoint,
                      mysql_error(conn->mysql));
}

enum dlock_status my_dial(struct my_conn *conn, struct dlock_error *err)
{
    const struct my_place *place = conn->place;
    struct my_call call = {.what = MY_CONNECT};
    const int aside = place->tls || (place->socket == NULL && !place->numeric);
    enum dlock_status status = DLOCK_INTERNAL;

    conn->mysql = handle_new(place);
    if (conn->mysql == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a connection");
    status = aside ? dial_aside(conn, &call) : my_drive(conn, &call);
    if (status == DLOCK_NOMEM)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory or thread to connect");
    if (status != DLOCK_OK)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: no connection in time",
                          place->endpoint);
    if (call.failed) {
        conn->dead = 1;
        return dial_fail(conn, err);
    }
    conn->socket = mysql_get_socket(conn->mysql) + 1;
    /* With TLS the library reads whole records, by read(2). */
    if (conn->tls)
        (void)fcntl(conn->socket - 1, F_SETFL, fcntl(conn->socket - 1, F_GETFL) | O_NONBLOCK);
    conn->id = mysql_thread_id(conn->mysql);
    return DLOCK_OK;
}
