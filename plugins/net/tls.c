/* SPDX-License-Identifier: MIT */
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#define TLS_NO_MEMORY "TLS: no memory"

/* ---- a BIO on a socket: OpenSSL's own raises SIGPIPE ---- */

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static int bio_fd(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static int bio_write(BIO *bio, const char *bytes, int len)
{
    ssize_t sent = send(bio_fd(bio), bytes, (size_t)len, MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)sent;
}

static int bio_read(BIO *bio, char *bytes, int size)
{
    ssize_t got = recv(bio_fd(bio), bytes, (size_t)size, 0);

    BIO_clear_retry_flags(bio);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    return (int)got;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static void method_make(void)
{
    int type = BIO_get_new_index();

    if (type < 0)
        return;
    method = BIO_meth_new(type | BIO_TYPE_SOURCE_SINK, "dlock socket");
    if (method == NULL)
        return;
    (void)BIO_meth_set_write(method, bio_write);
    (void)BIO_meth_set_read(method, bio_read);
    (void)BIO_meth_set_ctrl(method, bio_ctrl);
    (void)BIO_meth_set_create(method, bio_create);
}

static BIO *bio_new(int fd)
{
    BIO *bio = NULL;

    (void)pthread_once(&method_once, method_make);
    bio = method != NULL ? BIO_new(method) : NULL;
    if (bio != NULL)
        BIO_set_data(bio, (void *)(intptr_t)fd);
    return bio;
}

/* ---- the files and rules of the options, as OpenSSL wants them ---- */

#define TEXTS   4 /* of the options */
#define WATCHED 4 /* files, or directories */

/* Which file this was. */
struct version {
    bool is_there; /* and no pipe */
    bool is_old;   /* else a further change might leave the same time */
    dev_t device;
    ino_t number;
    struct timespec changed;
};

struct tls_context {
    struct tls_options options; /* its texts are these: */
    char *texts[TEXTS];
    pthread_mutex_t mutex; /* guards the rest; a leaf */
    SSL_CTX *made;
    bool for_good;                /* a pipe gave what was in it, once */
    struct version from[WATCHED]; /* what it was made from */
};

/* An error in OpenSSL's queue of this thread is about memory, perhaps as the cause of others. */
static bool is_memory(unsigned long code)
{
    return ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE ||
           ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE;
}

/* A file that OpenSSL reads. */
struct taking {
    const char *option, *path;
    const char *wanted; /* in the file */
    bool locked;        /* a passphrase was asked for */
};

/* The library would ask at the terminal. */
static int passphrase_none(char *text, int size, int writing, void *arg)
{
    struct taking *taking = arg;

    (void)text;
    (void)size;
    (void)writing;
    taking->locked = true;
    return -1;
}

/* OpenSSL's words, unless they are hard to understand. */
static void taking_complain(const struct taking *taking, char *text, size_t size)
{
    int reason = ERR_GET_REASON(ERR_peek_error());
    const char *words = ERR_reason_error_string(ERR_peek_error());

    if (taking->locked)
        (void)snprintf(text, size, "it has a passphrase");
    else if (reason == X509_R_KEY_VALUES_MISMATCH || reason == X509_R_KEY_TYPE_MISMATCH)
        (void)snprintf(text, size, "not the key of cert=");
    else if (reason == PEM_R_NO_START_LINE || reason == X509_R_NO_CERTIFICATE_OR_CRL_FOUND ||
             reason == ERR_R_UNSUPPORTED || words == NULL)
        (void)snprintf(text, size, "no %s in it", taking->wanted);
    else
        (void)snprintf(text, size, "%s", words);
}

static bool taken(const struct taking *taking, bool done, char *why, size_t why_size)
{
    char text[80];

    if (done || !tls_file_check(taking->option, taking->path, why, why_size))
        return done;
    taking_complain(taking, text, sizeof text);
    tls_file_why(taking->option, taking->path, text, why, why_size);
    return false;
}

static bool authorities_load(SSL_CTX *context, const char *path, char *why, size_t size)
{
    const struct taking taking = {"ca", path, "certificate", false};

    (void)snprintf(why, size, "TLS: the system's certificates cannot be had");
    if (path == NULL)
        return SSL_CTX_set_default_verify_paths(context) == 1;
    return taken(&taking, SSL_CTX_load_verify_locations(context, path, NULL) == 1, why, size);
}

static bool certificate_load(SSL_CTX *context, const struct tls_options *options, char *why,
                             size_t size)
{
    const struct taking taking = {"cert", options->cert, "certificate", false};
    struct taking key = {"key_file", options->key, "private key", false};
    bool done = false;

    if (!taken(&taking, SSL_CTX_use_certificate_chain_file(context, options->cert) == 1, why, size))
        return false;
    SSL_CTX_set_default_passwd_cb(context, passphrase_none);
    SSL_CTX_set_default_passwd_cb_userdata(context, &key);
    done = SSL_CTX_use_PrivateKey_file(context, options->key, SSL_FILETYPE_PEM) == 1 &&
           SSL_CTX_check_private_key(context) == 1;
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    return taken(&key, done, why, size);
}

static bool alpn_set(SSL_CTX *context, const char *alpn)
{
    unsigned char list[32];
    size_t len = alpn != NULL ? strlen(alpn) : 0;

    if (len == 0 || len >= sizeof list)
        return alpn == NULL;
    list[0] = (unsigned char)len;
    memcpy(list + 1, alpn, len);
    return SSL_CTX_set_alpn_protos(context, list, (unsigned)len + 1) == 0;
}

/* A server that wants a certificate may just hang up when there is none. */
static int certificate_asked(SSL *ssl, X509 **certificate, EVP_PKEY **key)
{
    struct stream *stream = SSL_get_app_data(ssl);

    (void)certificate;
    (void)key;
    stream->asked = true;
    return 0;
}

/* NULL: why has the reason. */
static SSL_CTX *context_new(const struct tls_options *options, char *why, size_t why_size)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());

    (void)snprintf(why, why_size, "TLS: OpenSSL does not start");
    if (context == NULL || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        !alpn_set(context, options->alpn) ||
        !authorities_load(context, options->ca, why, why_size) ||
        (options->cert != NULL && !certificate_load(context, options, why, why_size))) {
        SSL_CTX_free(context);
        return NULL;
    }
    SSL_CTX_set_verify(
        context, options->verify == TLS_VERIFY_NONE ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    (void)SSL_CTX_set_mode(context,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (options->cert == NULL)
        SSL_CTX_set_client_cert_cb(context, certificate_asked);
    return context;
}

static const char *system_path(const char *variable, const char *fallback)
{
    const char *set = secure_getenv(variable);

    return set != NULL ? set : fallback;
}

static struct version version_of(const char *path)
{
    struct version version = {.is_there = false};
    struct timespec now;
    struct stat st;

    if (path == NULL || stat(path, &st) != 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return version;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (struct version){
        .is_there = true,
        .is_old = st.st_ctim.tv_sec + 1 < now.tv_sec,
        .device = st.st_dev,
        .number = st.st_ino,
        .changed = st.st_ctim,
    };
}

static void versions_take(const struct tls_options *options, struct version out[WATCHED])
{
    const char *paths[WATCHED] = {options->ca, NULL, options->cert, options->key};

    if (options->ca == NULL) {
        paths[0] = system_path(X509_get_default_cert_file_env(), X509_get_default_cert_file());
        paths[1] = system_path(X509_get_default_cert_dir_env(), X509_get_default_cert_dir());
    }
    for (size_t i = 0; i < WATCHED; i++)
        out[i] = version_of(paths[i]);
}

/* A file that is not there, or not to be seen any more, as by a process that gave up its rights, is
 * the one of before. */
static bool is_same(const struct version *a, const struct version *now)
{
    if (!now->is_there)
        return true;
    return a->is_there && a->device == now->device && a->number == now->number &&
           a->changed.tv_sec == now->changed.tv_sec && a->changed.tv_nsec == now->changed.tv_nsec;
}

/* With the mutex held, as the next function. certain: a file that was new when it was read may have
 * been changed since. */
static bool is_from(const struct tls_context *context, const struct version now[WATCHED],
                    bool certain)
{
    for (size_t i = 0; i < WATCHED; i++)
        if (!is_same(&context->from[i], &now[i]) ||
            (certain && now[i].is_there && !context->from[i].is_old))
            return false;
    return true;
}

/* The versions are from before the reading: what changes meanwhile is read again. */
static bool renew(struct tls_context *context, char *why, size_t why_size)
{
    struct version now[WATCHED];
    SSL_CTX *made = NULL;

    versions_take(&context->options, now);
    if (context->made != NULL && (context->for_good || is_from(context, now, true)))
        return true;
    made = context_new(&context->options, why, why_size);
    if (made == NULL)
        return context->made != NULL && is_from(context, now, false);
    SSL_CTX_free(context->made); /* its connections keep it */
    context->made = made;
    memcpy(context->from, now, sizeof now);
    return true;
}

static bool is_pipe(const char *path, const struct version *version)
{
    return path != NULL && !version->is_there;
}

static bool options_copy(struct tls_context *context, const struct tls_options *options)
{
    const char **const texts[TEXTS] = {&context->options.ca, &context->options.cert,
                                       &context->options.key, &context->options.alpn};

    char path[TLS_PATH_SIZE];

    context->options = *options;
    for (size_t i = 0; i < TEXTS; i++) {
        if (*texts[i] == NULL)
            continue;
        context->texts[i] = texts[i] == &context->options.alpn
                                ? strdup(*texts[i])
                                : strdup(tls_file_from(options->directory, *texts[i], path));
        if (context->texts[i] == NULL)
            return false;
        *texts[i] = context->texts[i];
    }
    return true;
}

/* NULL is fine. Streams may still use what context_begin returned. */
static void context_free(struct tls_context *context)
{
    if (context == NULL)
        return;
    SSL_CTX_free(context->made);
    for (size_t i = 0; i < TEXTS; i++)
        free(context->texts[i]);
    (void)pthread_mutex_destroy(&context->mutex);
    free(context);
}

/* Copies the options. NULL: *status and why are set, as by tls_new. */
static struct tls_context *tls_context_new(const struct tls_options *options,
                                           enum dlock_status *status, char *why, size_t why_size)
{
    struct tls_context *context = calloc(1, sizeof *context);
    bool copied = context != NULL && options_copy(context, options);

    ERR_clear_error();
    *status = DLOCK_OK;
    if (context != NULL)
        (void)pthread_mutex_init(&context->mutex, NULL);
    if (copied && renew(context, why, why_size)) {
        context->for_good = is_pipe(options->ca, &context->from[0]) ||
                            is_pipe(options->cert, &context->from[2]) ||
                            is_pipe(options->key, &context->from[3]);
        return context;
    }
    *status = !copied || is_memory(ERR_peek_error()) ? DLOCK_NOMEM : DLOCK_INVALID;
    if (*status == DLOCK_NOMEM)
        (void)snprintf(why, why_size, TLS_NO_MEMORY);
    ERR_clear_error();
    context_free(context);
    return NULL;
}

static SSL *context_begin(struct tls_context *context, char *why, size_t why_size)
{
    SSL *ssl = NULL;

    ERR_clear_error();
    (void)pthread_mutex_lock(&context->mutex);
    if (renew(context, why, why_size)) {
        (void)snprintf(why, why_size, TLS_NO_MEMORY);
        ssl = SSL_new(context->made);
    }
    (void)pthread_mutex_unlock(&context->mutex);
    ERR_clear_error();
    return ssl;
}

/* False: a file was changed since the last context_begin. Any thread. */
static bool context_is_current(struct tls_context *context)
{
    struct version now[WATCHED];
    bool current = false;

    versions_take(&context->options, now);
    (void)pthread_mutex_lock(&context->mutex);
    current = context->for_good || is_from(context, now, false);
    (void)pthread_mutex_unlock(&context->mutex);
    return current;
}

struct tls {
    struct tls_context *context;
    enum tls_verify verify;
};

/* ---- streams ---- */

/* Takes the first error from OpenSSL's queue of this thread, and empties the queue. */
static unsigned long complaint(char *text, size_t size)
{
    unsigned long code = ERR_get_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;

    (void)snprintf(text, size, "%s", reason != NULL ? reason : "no reason given");
    ERR_clear_error();
    return code;
}

static const char *hint(const struct stream *stream)
{
    return stream->asked ? " (it had asked for a certificate of ours)" : "";
}

struct tls *tls_new(const struct tls_options *options, enum dlock_status *status, char *why,
                    size_t why_size)
{
    struct tls *tls = calloc(1, sizeof *tls);

    *status = DLOCK_NOMEM;
    (void)snprintf(why, why_size, TLS_NO_MEMORY);
    if (tls == NULL)
        return NULL;
    /* A handler at exit would take the library away from threads that still use it. */
    (void)OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
    tls->verify = options->verify;
    tls->context = tls_context_new(options, status, why, why_size);
    if (tls->context != NULL)
        return tls;
    free(tls);
    return NULL;
}

void tls_free(struct tls *tls)
{
    if (tls == NULL)
        return;
    context_free(tls->context);
    free(tls);
}

/* A call of OpenSSL on this stream returned `result` <= 0. STREAM_TIMEOUT: it wants *events. */
static enum stream_result failure(struct stream *stream, int result, const char *what,
                                  short *events)
{
    int code = errno;
    char text[96];

    switch (SSL_get_error(stream->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        *events = POLLIN;
        return STREAM_TIMEOUT;
    case SSL_ERROR_WANT_WRITE:
        *events = POLLOUT;
        return STREAM_TIMEOUT;
    case SSL_ERROR_ZERO_RETURN:
        (void)snprintf(stream->why, sizeof stream->why, "the server closed the connection");
        return STREAM_CLOSED;
    case SSL_ERROR_SYSCALL:
        if (code != 0) {
            (void)snprintf(stream->why, sizeof stream->why, "%s: %s%s", what,
                           strerror_r(code, text, sizeof text), hint(stream));
            return STREAM_FAILED;
        }
        (void)snprintf(stream->why, sizeof stream->why, "the server closed the connection%s",
                       hint(stream));
        return STREAM_FAILED;
    default:
        stream->alerted = ERR_GET_REASON(complaint(text, sizeof text)) >= SSL_AD_REASON_OFFSET;
        (void)snprintf(stream->why, sizeof stream->why, "%s: %s%s", what, text, hint(stream));
        return STREAM_FAILED;
    }
}

/* Sets the name that the certificate must have and that the server is told. */
static bool name_set(SSL *ssl, const struct tls *tls, const char *name)
{
    unsigned char number[sizeof(struct in6_addr)];
    bool is_number =
        inet_pton(AF_INET, name, number) == 1 || inet_pton(AF_INET6, name, number) == 1;
    X509_VERIFY_PARAM *rules = SSL_get0_param(ssl);

    if (!is_number && SSL_set_tlsext_host_name(ssl, name) != 1)
        return false;
    if (tls->verify != TLS_VERIFY_FULL)
        return true;
    X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (is_number)
        return X509_VERIFY_PARAM_set1_ip_asc(rules, name) == 1;
    return X509_VERIFY_PARAM_set1_host(rules, name, 0) == 1;
}

/* Says whether the certificate, the protocol or the network made the handshake fail. */
static enum stream_result handshake_failure(struct stream *stream, const struct tls *tls,
                                            const char *name, int result)
{
    short events = 0;
    long verdict = SSL_get_verify_result(stream->ssl);
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);

    if (tls->verify != TLS_VERIFY_NONE && verdict != X509_V_OK) {
        ERR_clear_error();
        (void)snprintf(stream->why, sizeof stream->why,
                       "the server's certificate is refused (asked for %.60s): %s", name,
                       X509_verify_cert_error_string(verdict));
        return STREAM_REFUSED;
    }
    if (code != 0 &&
        (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
         reason == SSL_R_UNEXPECTED_MESSAGE || reason == SSL_R_PACKET_LENGTH_TOO_LONG)) {
        ERR_clear_error();
        (void)snprintf(stream->why, sizeof stream->why, "the server does not speak TLS");
        return STREAM_FOREIGN;
    }
    (void)failure(stream, result, "TLS handshake", &events);
    return code != 0 && reason >= SSL_AD_REASON_OFFSET ? STREAM_REFUSED : STREAM_FAILED;
}

enum stream_result tls_begin(struct stream *stream, const struct tls *tls, const char *name)
{
    BIO *bio = NULL;

    stream->ssl = context_begin(tls->context, stream->why, sizeof stream->why);
    if (stream->ssl == NULL)
        return STREAM_FAILED;
    bio = bio_new(stream->fd);
    if (bio == NULL || !name_set(stream->ssl, tls, name)) {
        BIO_free(bio);
        (void)snprintf(stream->why, sizeof stream->why, "TLS: no memory, or no such name");
        return STREAM_FAILED;
    }
    SSL_set_bio(stream->ssl, bio, bio);
    (void)SSL_set_app_data(stream->ssl, stream);
    return STREAM_OK;
}

enum stream_result tls_step(struct stream *stream, const struct tls *tls, const char *name,
                            short *events)
{
    enum stream_result failed = STREAM_FAILED;
    int result = 0, error = 0;

    ERR_clear_error();
    errno = 0;
    result = SSL_connect(stream->ssl);
    if (result == 1)
        return STREAM_OK;
    error = SSL_get_error(stream->ssl, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        *events = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        return STREAM_TIMEOUT;
    }
    failed = handshake_failure(stream, tls, name, result);
    if (failed == STREAM_REFUSED && !context_is_current(tls->context))
        return STREAM_FAILED; /* with the files of before */
    return failed;
}

static enum stream_result step_failed(struct stream *stream, int result, const char *what,
                                      struct stream_step *step)
{
    enum stream_result failed = failure(stream, result, what, &step->events);

    if (failed != STREAM_TIMEOUT)
        (void)snprintf(step->why, sizeof step->why, "%s", stream->why);
    return failed;
}

enum stream_result tls_try_send(struct stream *stream, const void *bytes, size_t len,
                                struct stream_step *step)
{
    int result = 0;

    ERR_clear_error();
    errno = 0;
    result = SSL_write_ex(stream->ssl, bytes, len, &step->done);
    return result == 1 ? STREAM_OK : step_failed(stream, result, "send", step);
}

enum stream_result tls_try_receive(struct stream *stream, void *bytes, size_t size,
                                   struct stream_step *step)
{
    int result = 0;

    ERR_clear_error();
    errno = 0;
    result = SSL_read_ex(stream->ssl, bytes, size, &step->done);
    return result == 1 ? STREAM_OK : step_failed(stream, result, "receive", step);
}

bool tls_idle(struct stream *stream)
{
    char byte = 0;
    size_t got = 0;
    short events = 0;
    int result = 0;

    ERR_clear_error();
    errno = 0;
    result = SSL_peek_ex(stream->ssl, &byte, 1, &got);
    if (result == 1) {
        (void)snprintf(stream->why, sizeof stream->why, "the server spoke without being asked");
        return false;
    }
    if (SSL_get_error(stream->ssl, result) == SSL_ERROR_WANT_READ)
        return true;
    (void)failure(stream, result, "receive", &events);
    return false;
}

void tls_moved(struct stream *stream)
{
    (void)SSL_set_app_data(stream->ssl, stream);
}

void tls_end(struct stream *stream)
{
    SSL_free(stream->ssl); /* NULL is fine; sends nothing */
    stream->ssl = NULL;
}
