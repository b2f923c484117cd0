/* SPDX-License-Identifier: MIT */
#include "connect.h"

#include "async.h"
#include "connect_thread.h"
#include "net/cloexec.h"
#include "net/stream.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECRET_SIZE 4096

/* The methods of login that a server may ask for: not mysql_clear_password. */
#define AUTH_PLUGINS "mysql_native_password,client_ed25519,caching_sha2_password,sha256_password"

/* The library runs code of a directory that the environment names, when it starts and when a server
 * asks for a method of logging in. The user of a set-user-ID program chooses its environment.
 * Therefore these names are removed, as the dynamic linker removes its own. */
static void environment_clear(void)
{
    static const char *const names[] = {"LIBMYSQL_PLUGINS", "MARIADB_PLUGIN_DIR"};

    for (size_t i = 0; getauxval(AT_SECURE) != 0 && i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]);
}

/* The library ignores SIGPIPE for the whole process; this undoes it. A handler that another thread
 * sets during the start stays. */
static int library_start(void)
{
    long before[16] = {0}; /* as the kernel has it: sigaction() would add a flag of its own */
    struct sigaction after = {.sa_handler = SIG_DFL};
    int failed = 0;

    (void)syscall(SYS_rt_sigaction, SIGPIPE, NULL, before, _NSIG / 8);
    failed = mysql_library_init(0, NULL, NULL);
    (void)sigaction(SIGPIPE, NULL, &after);
    if (after.sa_handler == SIG_IGN)
        (void)syscall(SYS_rt_sigaction, SIGPIPE, before, NULL, _NSIG / 8);
    return failed;
}

enum dlock_status my_connect_init(struct dlock_error *err)
{
    environment_clear();
    /* A connecting thread takes the mutex of connect_thread.c inside the one of cloexec.c. fork
     * takes the mutexes in the reverse of this order. */
    if (library_start() != 0 || my_connect_thread_init() != 0 || cloexec_init() != 0)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "libmariadb does not start");
    return DLOCK_OK;
}

static MYSQL *handle_new(const struct my_config *config)
{
    const unsigned protocol = config->socket != NULL ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    const my_bool off = 0;
    const unsigned no = 0;
    MYSQL *mysql = mysql_init(NULL);
    bool bad = false;

    if (mysql == NULL)
        return NULL;
    bad |= mysql_options(mysql, MYSQL_OPT_NONBLOCK, NULL) != 0;
    bad |= mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol) != 0;
    bad |= mysql_options(mysql, MYSQL_OPT_RECONNECT, &off) != 0;
    bad |= mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &no) != 0;
    bad |= mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4") != 0;
    bad |= mysql_options4(mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "dlock") != 0;
    bad |= mysql_options(mysql, MARIADB_OPT_RESTRICTED_AUTH, AUTH_PLUGINS) != 0;
    if (bad) {
        mysql_close(mysql);
        return NULL;
    }
    return mysql;
}

/* The library has one number for a bad certificate and for a broken connection. */
static enum dlock_status tls_status(const char *text)
{
    if (strstr(text, "does not support") != NULL)
        return DLOCK_CONFIG;
    if (strcasestr(text, "certificate") != NULL || strcasestr(text, "validation") != NULL)
        return DLOCK_AUTH;
    return DLOCK_UNAVAILABLE;
}

/* The library's text ends with a number, of errno.h or, below 0, of netdb.h. 0: it does not. */
static int text_number(const char *text)
{
    const char *at = strrchr(text, '(');

    return at != NULL && at > text ? (int)strtol(at + 1, NULL, 10) : 0;
}

static void text_fill(char *out, size_t size, const char *text)
{
    const int number = text_number(text);
    const char *reason = number > 0 ? strerrordesc_np(number) : NULL;

    if (number < 0)
        reason = gai_strerror(number);
    if (reason == NULL)
        (void)snprintf(out, size, "%s", text);
    else
        (void)snprintf(out, size, "%.*s: %s", (int)(strrchr(text, '(') - 1 - text), text, reason);
}

/* A unix socket that is there, and that this user may not open. */
static bool is_forbidden(const struct my_config *config, const char *text)
{
    const int number = text_number(text);

    return config->socket != NULL && (number == EACCES || number == EPERM);
}

/* Why a connection was not made, in the words of the server or of the library. */
static enum dlock_status connect_failed(const struct my_connection *conn, struct dlock_error *err)
{
    unsigned code = mysql_errno(conn->mysql);
    enum dlock_status status = my_errmap_status(code, 1);
    char text[192];

    if (code == 1130 || code == 1698 || code == 2059) /* host not allowed, user, plugin */
        status = DLOCK_AUTH;
    if (code == 2002 && is_forbidden(conn->config, mysql_error(conn->mysql)))
        status = DLOCK_AUTH;
    if (code == 1049 && !conn->config->create)
        status = DLOCK_NO_STORE;
    if (code == 2026)
        status = tls_status(mysql_error(conn->mysql));
    if (code == 2002 || code == 2003 || code == 2005)
        text_fill(text, sizeof text, mysql_error(conn->mysql));
    else
        (void)snprintf(text, sizeof text, "%s", mysql_error(conn->mysql));
    return dlock_fail(err, MY_ORIGIN, status, (int32_t)code, "%s: %.180s", conn->config->endpoint,
                      text);
}

static enum dlock_status no_tls(struct my_connection *conn, struct dlock_error *err)
{
    conn->dead = true;
    return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                      "%s: tls=on, but the server does not support TLS", conn->config->endpoint);
}

static enum dlock_status connect_with(struct my_connection *conn, const char *password,
                                      struct dlock_error *err)
{
    const struct my_config *config = conn->config;
    struct my_call call = {.kind = MY_CONNECT, .text = password};
    /* With strategy session each wait needs a connection, also one that is shorter than a login. */
    const bool by_thread = config->tls || (config->socket == NULL && !config->numeric) ||
                           config->strategy == MY_SESSION;
    enum dlock_status status = DLOCK_INTERNAL;

    conn->mysql = handle_new(config);
    if (conn->mysql == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a connection");
    status = config->tls ? my_peer_options(conn->mysql, config, err) : DLOCK_OK;
    if (status != DLOCK_OK)
        return status;
    status = by_thread ? my_connect_thread_run(conn, &call) : my_async_run(conn, &call);
    if (status == DLOCK_NOMEM)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory or thread to connect");
    if (status == DLOCK_CONFIG)
        return no_tls(conn, err);
    if (status != DLOCK_OK)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: no connection in time",
                          config->endpoint);
    if (call.failed) {
        conn->dead = true;
        return call.verdict != 0 ? my_peer_refused(config->endpoint, call.verdict, err)
                                 : connect_failed(conn, err);
    }
    conn->socket = mysql_get_socket(conn->mysql) + 1;
    if (conn->for_queue) /* which waits for long, and has no deadline that would end it */
        stream_keep_alive(conn->socket - 1);
    /* With TLS the library reads whole records, by read(2). */
    if (conn->tls)
        (void)fcntl(conn->socket - 1, F_SETFL, fcntl(conn->socket - 1, F_GETFL) | O_NONBLOCK);
    conn->id = mysql_thread_id(conn->mysql);
    return conn->tls && mysql_get_ssl_cipher(conn->mysql) == NULL ? no_tls(conn, err) : DLOCK_OK;
}

/* secret has SECRET_SIZE bytes; "": there is none. */
static enum dlock_status secret_read(const struct my_connection *conn, char *secret,
                                     struct dlock_error *err)
{
    const struct dlock_target *target = conn->config->target;

    secret[0] = '\0';
    return target->read_secret(target, NULL, secret, SECRET_SIZE, err) == -2 ? err->status
                                                                             : DLOCK_OK;
}

/* [SEC-1] The secret may be changed between the two readings. */
enum dlock_status my_connect(struct my_connection *conn, struct dlock_error *err)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    char secret[SECRET_SIZE], again[SECRET_SIZE];
    enum dlock_status status = secret_read(conn, secret, err);

    if (status == DLOCK_OK)
        status = connect_with(conn, secret, err);
    if (status == DLOCK_AUTH && conn->mysql != NULL &&
        secret_read(conn, again, &ignored) == DLOCK_OK && strcmp(secret, again) != 0) {
        my_async_close(conn);
        conn->dead = false;
        status = connect_with(conn, again, err);
    }
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(again, sizeof again);
    return status;
}

void my_connect_close(struct my_connection *conn)
{
    if (conn->mysql != NULL && (conn->dead || conn->ping_wait != 0) && conn->socket > 0)
        (void)shutdown(conn->socket - 1, SHUT_RDWR);
    if (conn->mysql != NULL)
        my_async_close(conn);
    for (int i = 0; i < MY_STATEMENTS; i++) {
        if (conn->statements[i] != NULL)
            (void)mysql_stmt_close(conn->statements[i]);
        mysql_free_result(conn->answers[i]);
    }
    explicit_bzero(&conn->input, sizeof conn->input);
    *conn = (struct my_connection){.config = conn->config,
                                   .host = conn->host,
                                   .tables = conn->tables,
                                   .for_queue = conn->for_queue,
                                   .for_row_lock = conn->for_row_lock,
                                   .wake_fd = conn->wake_fd};
}

void my_connect_after_fork(struct my_connection *conn)
{
    if (conn->mysql != NULL && conn->socket > 0)
        (void)close(conn->socket - 1);
}
