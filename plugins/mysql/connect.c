/* SPDX-License-Identifier: MIT */
#include "connect.h"

#include "lib/text.h"
#include "lib/thread.h"
#include "lib/time.h"
#include "net/cloexec.h"
#include "net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * ---- TLS: whether the server is the one that the URI means, before it is told anything ----
 *
 * libmariadb 3.3 checks a certificate as its options say. 3.4 has rules of its own: a program that
 * does not want the host to be checked gets no check at all, a server at a local address may show
 * any certificate, and a variable of the environment switches the check off. But it lets a program
 * replace the check, which is between the handshake and the login.
 */

/* MARIADB_OPT_TLS_VERIFICATION_CALLBACK: the headers of 3.3 do not have it, but a program that was
 * built with them may run with 3.4. */
#define OPT_VERIFICATION_CALLBACK 7031

static char verdict_name[] = "dlock_verdict"; /* not const: what the library wants */

/* How MARIADB_TLS begins. Its header, ma_tls.h, includes one that is not installed. */
struct library_tls {
    void *data;
    void *pvio;
    SSL *ssl;
};

static bool host_expect(X509_VERIFY_PARAM *rules, const char *host)
{
    X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_ip_asc(rules, host) == 1 ||
           X509_VERIFY_PARAM_set1_host(rules, host, 0) == 1;
}

/* X509_V_OK, or why not. ca: NULL: the system's; host: NULL: any. */
static int chain_verify(SSL *ssl, X509_STORE *store, X509_STORE_CTX *check, const char *host)
{
    X509 *certificate = SSL_get0_peer_certificate(ssl);
    X509_VERIFY_PARAM *rules = NULL;

    if (certificate == NULL)
        return X509_V_ERR_UNSPECIFIED;
    if (X509_STORE_CTX_init(check, store, certificate, SSL_get_peer_cert_chain(ssl)) != 1 ||
        X509_STORE_CTX_set_default(check, "ssl_server") != 1)
        return X509_V_ERR_OUT_OF_MEM;
    rules = X509_STORE_CTX_get0_param(check);
    X509_VERIFY_PARAM_set_auth_level(rules, SSL_get_security_level(ssl));
    if (host != NULL && !host_expect(rules, host))
        return X509_V_ERR_OUT_OF_MEM;
    if (X509_verify_cert(check) == 1)
        return X509_V_OK;
    if (X509_STORE_CTX_get_error(check) == X509_V_OK)
        return X509_V_ERR_UNSPECIFIED;
    return X509_STORE_CTX_get_error(check);
}

static int peer_verify(SSL *ssl, const char *ca, const char *host)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    int result = X509_V_ERR_OUT_OF_MEM;

    if (store != NULL && check != NULL &&
        (ca != NULL ? X509_STORE_load_file(store, ca) : X509_STORE_set_default_paths(store)) == 1)
        result = chain_verify(ssl, store, check, host);
    X509_STORE_CTX_free(check);
    X509_STORE_free(store);
    return result;
}

/* 0: the library goes on. After a 1 it may go on, too: with a local server, or if the password can
 * prove the certificate afterwards. Therefore nothing can be sent any more. */
static int peer_check(const struct library_tls *tls, bool any_host)
{
    MYSQL *mysql = SSL_get_app_data(tls->ssl);
    const char *ca = NULL, *host = NULL;
    int *verdict = NULL;
    int result = X509_V_ERR_UNSPECIFIED;

    if (mysql_get_option(mysql, MYSQL_OPT_SSL_CA, &ca) == 0 &&
        mariadb_get_infov(mysql, MARIADB_CONNECTION_HOST, &host) == 0 && host != NULL)
        result = peer_verify(tls->ssl, ca, any_host ? NULL : host);
    if (result == X509_V_OK)
        return 0;
    if (mysql_get_optionv(mysql, MARIADB_OPT_USERDATA, verdict_name, &verdict) == 0 &&
        verdict != NULL)
        *verdict = result;
    (void)shutdown(mysql_get_socket(mysql), SHUT_RDWR);
    return 1;
}

static int peer_check_full(void *tls, unsigned flags)
{
    (void)flags;
    return peer_check(tls, false);
}

static int peer_check_ca(void *tls, unsigned flags)
{
    (void)flags;
    return peer_check(tls, true);
}

/* In 3.3 the signature is checked if there is SSL_CA, for any host; with VERIFY_SERVER_CERT it is
 * checked for the host of the connection. */
static bool verifies_as_asked(void)
{
    return strncmp(mysql_get_client_info(), "3.3.", 4) == 0;
}

static enum dlock_status check_set(MYSQL *mysql, enum tls_verify verify, struct dlock_error *err)
{
    int (*check)(void *, unsigned) = verify == TLS_VERIFY_CA ? peer_check_ca : peer_check_full;
    my_bool strict = verify == TLS_VERIFY_FULL;

    if (verify != TLS_VERIFY_NONE && !verifies_as_asked()) {
        if (mysql_optionsv(mysql, (enum mysql_option)OPT_VERIFICATION_CALLBACK, check) != 0)
            return dlock_fail(err, MY_ORIGIN, DLOCK_CONFIG, 0,
                              "libmariadb %s does not let dlock check the server's certificate: "
                              "want 3.3, or 3.4.2 or newer",
                              mysql_get_client_info());
        strict = 1;
    }
    return mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &strict) == 0
               ? DLOCK_OK
               : dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for TLS");
}

static bool file_set(MYSQL *mysql, enum mysql_option option, const struct tls_options *tls,
                     const char *path)
{
    char buf[TLS_PATH_SIZE];

    return path == NULL ||
           mysql_options(mysql, option, tls_file_from(tls->directory, path, buf)) == 0;
}

/* Before the connection: its options of TLS. NOMEM; CONFIG: this libmariadb has the rules of 3.4,
 * and lets nobody replace them. */
static enum dlock_status peer_options(MYSQL *mysql, const struct my_config *config,
                                      struct dlock_error *err)
{
    const struct tls_options *tls = &config->tls_options;
    const my_bool on = 1;
    enum dlock_status status = check_set(mysql, tls->verify, err);
    bool bad = false;

    bad |= mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &on) != 0;
    bad |= mysql_options(mysql, MYSQL_OPT_TLS_VERSION, "TLSv1.2,TLSv1.3") != 0;
    if (tls->verify != TLS_VERIFY_NONE)
        bad |= !file_set(mysql, MYSQL_OPT_SSL_CA, tls, tls->ca);
    bad |= !file_set(mysql, MYSQL_OPT_SSL_CERT, tls, tls->cert);
    bad |= !file_set(mysql, MYSQL_OPT_SSL_KEY, tls, tls->key);
    return status == DLOCK_OK && bad
               ? dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for TLS")
               : status;
}

/* The check of 3.4 says in *verdict why it refused a server; 0: it did not. It has to live as long
 * as the connection is being made. false: no memory. */
static bool verdict_keep(MYSQL *mysql, int *verdict)
{
    return mysql_options4(mysql, MARIADB_OPT_USERDATA, verdict_name, verdict) == 0;
}

static enum dlock_status peer_refused(const char *endpoint, int verdict, struct dlock_error *err)
{
    if (verdict == X509_V_ERR_OUT_OF_MEM)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "%s: the certificate could not be checked", endpoint);
    return dlock_fail(err, MY_ORIGIN, DLOCK_AUTH, 0, "%s: the server's certificate: %s", endpoint,
                      X509_verify_cert_error_string(verdict));
}

/*
 * ---- threads ----
 *
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
        my_connection_drop(&thread->conn);
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
    enum dlock_status status = my_connection_call(&thread->conn, &thread->call);
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
    if (conn->tls && !verdict_keep(conn->mysql, &thread->call.verdict)) {
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
        my_connection_drop(conn);
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

/* my_connection_call of MY_CONNECT. NOMEM: no memory or no thread. TIMEOUT: the thread goes on for
 * a while, and the next call for that client may get its connection. */
static enum dlock_status thread_connect(struct my_connection *conn, struct my_call *call)
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

void my_connect_end(const void *client)
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

/* Once in a process; non-zero: no memory. */
static int threads_init(void)
{
    (void)dl_deadline_cond_init(&ended);
    return pthread_atfork(lock, unlock, unlock_after_fork);
}

/* ---- connections ---- */

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
    /* A connecting thread takes the mutex of the threads inside the one of cloexec.c. fork
     * takes the mutexes in the reverse of this order. */
    if (library_start() != 0 || threads_init() != 0 || cloexec_init() != 0)
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
    enum dlock_status status = my_connection_error_status(code, 1);
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
    status = config->tls ? peer_options(conn->mysql, config, err) : DLOCK_OK;
    if (status != DLOCK_OK)
        return status;
    status = by_thread ? thread_connect(conn, &call) : my_connection_call(conn, &call);
    if (status == DLOCK_NOMEM)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory or thread to connect");
    if (status == DLOCK_CONFIG)
        return no_tls(conn, err);
    if (status != DLOCK_OK)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: no connection in time",
                          config->endpoint);
    if (call.failed) {
        conn->dead = true;
        return call.verdict != 0 ? peer_refused(config->endpoint, call.verdict, err)
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
        my_connection_drop(conn);
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
        my_connection_drop(conn);
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
