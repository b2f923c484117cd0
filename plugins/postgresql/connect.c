/* SPDX-License-Identifier: MIT */
#include "connect.h"

#include "net/cloexec.h"
#include "net/resolve.h"

#include <errno.h>
#include <locale.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECRET_SIZE 1024

/* A login that takes longer is begun anew, or the end of an outage would be found late. */
#define LOGIN_NS (2 * DL_NS_PER_S)

/* With less time after a login that has gone on, the next call sets the session up. */
#define SETUP_NS (20 * DL_NS_PER_MS)

/* From one try to the next, at a socket that a server may be making. */
#define SOCKET_PAUSE_MS 20

/* For the rest of what a pooler owes to a client. */
#define OWED_NS (100 * DL_NS_PER_MS)

/* The library reads files of the user where it is given no name: this name is no file. */
#define NO_FILE "/dev/null/none"

/* For the library's messages, which connection.c reads. */
static locale_t plain_locale;

/* The library takes settings from the environment. In a program with more rights than its caller
 * the caller chooses the environment. Therefore these names are removed, as the dynamic linker
 * removes its own. */
static void environment_clear(void)
{
    static const char *const names[] = {
        "PGSERVICE",    "PGSERVICEFILE", "PGSYSCONFDIR", "PGOPTIONS", "PGPASSWORD", "PGSSLCRLDIR",
        "PGKRBSRVNAME", "PGREQUIREPEER", "PGLOCALEDIR",  "PGGEQO",    "PGTZ",       "PGDATESTYLE"};

    for (size_t i = 0; getauxval(AT_SECURE) != 0 && i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]);
}

int pg_connect_init(void)
{
    environment_clear();
    /* A handler at exit would take OpenSSL away from threads that still log in. */
    (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return plain_locale == (locale_t)0 || cloexec_init() != 0;
}

#define SETTINGS_MAX 40

struct settings {
    const char *names[SETTINGS_MAX + 1], *values[SETTINGS_MAX + 1];
    size_t count;
    char ca[TLS_PATH_SIZE], cert[TLS_PATH_SIZE], key[TLS_PATH_SIZE];
};

static void add(struct settings *settings, const char *name, const char *value)
{
    if (settings->count < SETTINGS_MAX) {
        settings->names[settings->count] = name;
        settings->values[settings->count++] = value;
    }
}

/* The system's certificates: this version of the library has no word for them. */
static const char *system_ca(void)
{
    static const char *const files[] = {"/etc/ssl/certs/ca-certificates.crt",
                                        "/etc/pki/tls/certs/ca-bundle.crt",
                                        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (access(files[i], R_OK) == 0)
            return files[i];
    return NO_FILE;
}

static void settings_tls(struct settings *settings, const struct pg_config *config)
{
    const struct tls_options *tls = &config->tls_options;
    const bool checks = config->tls && tls->verify != TLS_VERIFY_NONE;
    static const char *const modes[] = {[TLS_VERIFY_FULL] = "verify-full",
                                        [TLS_VERIFY_CA] = "verify-ca",
                                        [TLS_VERIFY_NONE] = "require"};
    const bool shows = config->tls && tls->cert != NULL;
    const char *ca =
        tls->ca != NULL ? tls_file_from(tls->directory, tls->ca, settings->ca) : system_ca();

    add(settings, "sslmode", config->tls ? modes[tls->verify] : "disable");
    add(settings, "sslrootcert", checks ? ca : NO_FILE); /* with a file it would check */
    add(settings, "sslcert",
        shows ? tls_file_from(tls->directory, tls->cert, settings->cert) : NO_FILE);
    add(settings, "sslkey",
        shows ? tls_file_from(tls->directory, tls->key, settings->key) : NO_FILE);
    add(settings, "sslpassword", "-"); /* without one OpenSSL asks at the terminal */
    add(settings, "sslcrl", NO_FILE);
    add(settings, "sslcompression", "0");
    add(settings, "ssl_min_protocol_version", "TLSv1.2");
    add(settings, "gssencmode", "disable");
}

/* Whether the library would take a value for `keyword` from this variable, or from the service that
 * PGSERVICE names. */
static bool is_preset(const char *keyword, const char *variable)
{
    PQconninfoOption *all = NULL;
    bool is = false;

    if (getenv(variable) == NULL && getenv("PGSERVICE") == NULL)
        return false;
    all = PQconndefaults();
    is = all == NULL; /* no memory */
    for (const PQconninfoOption *one = all; one != NULL && one->keyword != NULL; one++)
        is |= strcmp(one->keyword, keyword) == 0 && one->val != NULL && one->val[0] != '\0';
    PQconninfoFree(all);
    return is;
}

/* What else the environment or a service may set, where the library knows it, and what is as if
 * nothing did: an empty value would not count. A pooler refuses any options. */
static const struct {
    const char *keyword, *variable, *value;
} unset[] = {
    {"options", "PGOPTIONS", " "},
    {"replication", "PGSERVICE", "false"},
    {"require_auth", "PGREQUIREAUTH", "password,md5,gss,sspi,scram-sha-256,none"},
    {"ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", "TLSv1.3"},
    {"sslcertmode", "PGSSLCERTMODE", "allow"},
    {"sslnegotiation", "PGSSLNEGOTIATION", "postgres"},
    {"sslsni", "PGSSLSNI", "1"},
    {"load_balance_hosts", "PGLOADBALANCEHOSTS", "disable"},
    {"min_protocol_version", "PGMINPROTOCOLVERSION", "3.0"},
    {"max_protocol_version", "PGMAXPROTOCOLVERSION", "3.0"},
};

/* Each one that the environment could set otherwise, and the kernel's limits: it notices in
 * seconds, not in hours, that a server has vanished. */
static void settings_make(struct settings *settings, const struct pg_config *config,
                          const char *port, const char *number, const char *password)
{
    const bool is_socket = config->socket[0] != '\0';

    settings->count = 0;
    add(settings, "host", is_socket ? config->socket : config->address.host);
    if (!is_socket)
        add(settings, "hostaddr", number);
    add(settings, "port", port);
    add(settings, "user", config->user);
    add(settings, "dbname", config->database);
    add(settings, "password", password);
    add(settings, "passfile", NO_FILE);
    add(settings, "application_name", "dlock");
    add(settings, "client_encoding", "UTF8");
    add(settings, "target_session_attrs", "any");
    add(settings, "channel_binding", "prefer");
    add(settings, "keepalives", "1");
    add(settings, "keepalives_idle", "5");
    add(settings, "keepalives_interval", "2");
    add(settings, "keepalives_count", "3");
    add(settings, "tcp_user_timeout", "12000");
    for (size_t i = 0; i < sizeof unset / sizeof unset[0]; i++)
        if (is_preset(unset[i].keyword, unset[i].variable))
            add(settings, unset[i].keyword, unset[i].value);
    settings_tls(settings, config);
    settings->names[settings->count] = NULL;
}

/* "connection to server at "h" (1.2.3.4), port 5432 failed: FATAL:  28P01: text". */
static const char *reason_of(const char *text)
{
    static const char failed[] = " failed: ";
    const char *at = strstr(text, failed);

    return at != NULL ? at + sizeof failed - 1 : text;
}

/* Copies the SQLSTATE of a verbose message, and returns the text after it; NULL: it has none. */
static const char *state_of(const char *text, char state[6])
{
    const char *at = strstr(text, ":  ");

    if (at == NULL || strspn(at + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != 5 ||
        strncmp(at + 8, ":", 1) != 0)
        return NULL;
    memcpy(state, at + 3, 5);
    state[5] = '\0';
    return at + 9 + strspn(at + 9, " ");
}

/* A unix socket that this user may not open. */
static bool is_barred(const struct pg_connection *conn)
{
    const char *text = reason_of(PQerrorMessage(conn->pq));

    return conn->config->socket[0] != '\0' && PQstatus(conn->pq) == CONNECTION_BAD &&
           (strncmp(text, strerrordesc_np(EACCES), strlen(strerrordesc_np(EACCES))) == 0 ||
            strncmp(text, strerrordesc_np(EPERM), strlen(strerrordesc_np(EPERM))) == 0);
}

/* Why a connection was not made, in the words of the server or of the library. */
static enum dlock_status failed(struct pg_connection *conn, struct dlock_error *err)
{
    const char *text = reason_of(PQerrorMessage(conn->pq));
    char state[6] = "";
    const char *said = state_of(text, state);
    enum dlock_status status = pg_connection_login_status(said != NULL ? state : NULL, text);

    conn->dead = true;
    if (is_barred(conn))
        return dlock_fail(err, PG_ORIGIN, DLOCK_AUTH, 0,
                          "%s/.s.PGSQL.%u: %.*s: this user may not open the socket",
                          conn->config->socket, (unsigned)conn->config->address.port,
                          (int)strcspn(text, "\n"), text);
    if (strstr(text, "unsupported startup parameter: geqo") != NULL)
        return dlock_fail(err, PG_ORIGIN, DLOCK_CONFIG, 0,
                          "%s: the pooler refuses PGGEQO, which libpq takes from the environment: "
                          "remove it, or add geqo to ignore_startup_parameters of the pooler",
                          conn->config->endpoint);
    if (said == NULL)
        said = text;
    if (strcmp(state, "3D000") == 0 && !conn->config->create)
        status = DLOCK_NO_STORE;
    return dlock_fail(err, PG_ORIGIN, status, pg_connection_error_code(state), "%s: %.*s%s%s%s",
                      conn->config->endpoint, (int)strcspn(said, "\n"), said,
                      state[0] != '\0' ? " (" : "", state, state[0] != '\0' ? ")" : "");
}

static PGconn *start(const struct settings *settings)
{
    PGconn *pq = NULL;

    cloexec_lock();
    pq = PQconnectStartParams(settings->names, settings->values, 0);
    cloexec_unlock();
    return pq;
}

static void quiet(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

/* Until the library has a connection or an error. */
static enum dlock_status poll_on(struct pg_connection *conn)
{
    if (PQstatus(conn->pq) == CONNECTION_BAD)
        return DLOCK_OK;
    while (conn->step == PGRES_POLLING_READING || conn->step == PGRES_POLLING_WRITING) {
        enum dlock_status status =
            pg_connection_wait(conn, conn->step == PGRES_POLLING_READING ? POLLIN : POLLOUT);

        if (status != DLOCK_OK)
            return status;
        conn->step = PQconnectPoll(conn->pq);
    }
    return DLOCK_OK;
}

static enum dlock_status not_in_time(const struct pg_connection *conn, struct dlock_error *err)
{
    return dlock_fail(err, PG_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: no connection in time",
                      conn->config->endpoint);
}

/* Goes on with a login. If its time ends, conn->login_ns stays, for the next call. */
static enum dlock_status log_in(struct pg_connection *conn, struct dlock_error *err)
{
    const enum dlock_status status = poll_on(conn);

    if (status == DLOCK_CANCELED)
        return dlock_fail(err, PG_ORIGIN, status, 0, "the wait was cancelled");
    if (status == DLOCK_OK || PQstatus(conn->pq) == CONNECTION_STARTED)
        conn->login_ns = 0; /* if nobody has answered yet, a new attempt may be faster */
    if (status != DLOCK_OK)
        return not_in_time(conn, err);
    if (PQstatus(conn->pq) != CONNECTION_OK)
        return failed(conn, err);
    (void)PQsetErrorVerbosity(conn->pq, PQERRORS_DEFAULT);
    return PQsetnonblocking(conn->pq, 1) == 0 ? DLOCK_OK : failed(conn, err);
}

/* One attempt, with one address (a number; NULL with a socket) and one password. */
static enum dlock_status attempt(struct pg_connection *conn, const char *number,
                                 const char *password, struct dlock_error *err)
{
    struct settings settings;
    char port[8];

    (void)snprintf(port, sizeof port, "%u", (unsigned)conn->config->address.port);
    settings_make(&settings, conn->config, port, number, password);
    conn->pq = start(&settings);
    if (conn->pq == NULL)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOMEM, 0, "no memory for a connection");
    (void)PQsetNoticeProcessor(conn->pq, quiet, NULL);
    (void)PQsetErrorVerbosity(conn->pq, PQERRORS_VERBOSE); /* with the SQLSTATE */
    conn->step = PGRES_POLLING_WRITING;
    conn->login_ns = pg_connection_now(conn);
    return log_in(conn, err);
}

static void drop(struct pg_connection *conn)
{
    PGconn *pq = conn->pq;

    conn->pq = NULL; /* first: another thread may fork meanwhile */
    if (pq != NULL && conn->dead && PQsocket(pq) >= 0)
        (void)shutdown(PQsocket(pq), SHUT_RDWR);
    PQfinish(pq);
    conn->dead = false;
    conn->login_ns = 0;
}

static unsigned addresses_count(const struct addrinfo *list)
{
    unsigned count = 0;

    for (; list != NULL; list = list->ai_next)
        count++;
    return count;
}

static enum dlock_status attempt_each(struct pg_connection *conn, const struct addrinfo *list,
                                      const char *password, struct dlock_error *err)
{
    const int64_t deadline_ns = conn->deadline_ns;
    unsigned left = addresses_count(list);
    enum dlock_status status = DLOCK_UNAVAILABLE;

    for (; list != NULL && status == DLOCK_UNAVAILABLE; list = list->ai_next) {
        const int64_t now_ns = pg_connection_now(conn);
        char number[NI_MAXHOST];

        drop(conn);
        conn->deadline_ns = now_ns + (deadline_ns - now_ns) / left--;
        if (getnameinfo(list->ai_addr, list->ai_addrlen, number, sizeof number, NULL, 0,
                        NI_NUMERICHOST) == 0)
            status = attempt(conn, number, password, err);
    }
    conn->deadline_ns = deadline_ns;
    return status;
}

/* A server that starts makes its socket first, and sets its rights then. */
static enum dlock_status attempt_socket(struct pg_connection *conn, const char *password,
                                        struct dlock_error *err)
{
    enum dlock_status status = attempt(conn, NULL, password, err);

    if (status != DLOCK_AUTH || !is_barred(conn))
        return status;
    (void)poll(NULL, 0, SOCKET_PAUSE_MS);
    drop(conn);
    return attempt(conn, NULL, password, err);
}

/* Both host= and hostaddr= are given, so that the library looks up nothing and TLS knows the name.
 */
static enum dlock_status connect_with(struct pg_connection *conn, const char *password,
                                      struct dlock_error *err)
{
    const struct address *address = &conn->config->address;
    struct addrinfo *list = NULL;
    int failure = 0;
    enum dlock_status status = DLOCK_INTERNAL;

    if (conn->config->socket[0] != '\0' && is_preset("hostaddr", "PGHOSTADDR"))
        return dlock_fail(err, PG_ORIGIN, DLOCK_INVALID, 0,
                          "%s: PGHOSTADDR, or the service of PGSERVICE, has an address in place of "
                          "the socket: remove it from the environment",
                          conn->config->endpoint);
    if (conn->config->socket[0] != '\0')
        return attempt_socket(conn, password, err);
    failure = resolve_host(address->host, address->port, conn->host, conn->deadline_ns, &list);
    if (failure != 0)
        return dlock_fail(err, PG_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: looking up the host: %s",
                          conn->config->endpoint,
                          failure == EAI_AGAIN ? "no answer in time" : gai_strerror(failure));
    status = attempt_each(conn, list, password, err);
    freeaddrinfo(list);
    return status;
}

/* secret has SECRET_SIZE bytes; "": there is none. */
static enum dlock_status secret_read(const struct pg_connection *conn, char *secret,
                                     struct dlock_error *err)
{
    const struct dlock_target *target = conn->config->target;

    secret[0] = '\0';
    return target->read_secret(target, NULL, secret, SECRET_SIZE, err) == -2 ? err->status
                                                                             : DLOCK_OK;
}

/* A login that an earlier call had no time for; a new one if that has failed, or takes too long. */
static enum dlock_status go_on(struct pg_connection *conn, const char *password,
                               struct dlock_error *err)
{
    const int64_t begun_ns = conn->login_ns;
    enum dlock_status status = DLOCK_INTERNAL;

    if (begun_ns != 0 && pg_connection_now(conn) - begun_ns < LOGIN_NS) {
        const bool was_done = PQstatus(conn->pq) == CONNECTION_OK;

        status = log_in(conn, err);
        if (status == DLOCK_OK && !was_done &&
            conn->deadline_ns - pg_connection_now(conn) < SETUP_NS) {
            conn->login_ns = begun_ns;
            return not_in_time(conn, err);
        }
        if (status == DLOCK_OK || conn->login_ns != 0)
            return status;
    }
    drop(conn);
    return connect_with(conn, password, err);
}

enum dlock_status pg_connect(struct pg_connection *conn, struct dlock_error *err)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    char secret[SECRET_SIZE], again[SECRET_SIZE];
    locale_t before = uselocale(plain_locale);
    enum dlock_status status = secret_read(conn, secret, err);

    if (status == DLOCK_OK)
        status = go_on(conn, secret, err);
    /* [SEC-1] The secret may have changed between the two readings. */
    if (status == DLOCK_AUTH && conn->pq != NULL &&
        secret_read(conn, again, &ignored) == DLOCK_OK && strcmp(secret, again) != 0) {
        drop(conn);
        status = connect_with(conn, again, err);
    }
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(again, sizeof again);
    (void)uselocale(before);
    return status;
}

/* Until the server has answered this, the pooler takes the session for a busy one, and ends it with
 * its client; afterwards no message can come. */
static void unlisten(struct pg_connection *conn)
{
    if (conn->for_messages && conn->pooled && !conn->dead && conn->pq != NULL &&
        atomic_load(&conn->shared->pooler) == PG_POOLER_SESSION)
        (void)PQsendQuery(conn->pq, "UNLISTEN *");
}

bool pg_connect_again(struct pg_connection *conn)
{
    const int64_t deadline_ns = conn->deadline_ns, now_ns = pg_connection_now(conn);

    if (!conn->stray || now_ns >= deadline_ns)
        return false;
    if (deadline_ns > now_ns + OWED_NS)
        conn->deadline_ns = now_ns + OWED_NS;
    if (pg_connection_wait(conn, POLLIN) == DLOCK_OK)
        (void)PQconsumeInput(conn->pq);
    pg_connect_close(conn);
    conn->deadline_ns = deadline_ns;
    return true;
}

void pg_connect_close(struct pg_connection *conn)
{
    unlisten(conn);
    drop(conn);
    *conn = (struct pg_connection){.config = conn->config,
                                   .host = conn->host,
                                   .shared = conn->shared,
                                   .for_messages = conn->for_messages,
                                   .wake_fd = conn->wake_fd};
}

void pg_connect_after_fork(struct pg_connection *conn)
{
    if (conn->pq != NULL && PQsocket(conn->pq) >= 0)
        (void)close(PQsocket(conn->pq));
}
