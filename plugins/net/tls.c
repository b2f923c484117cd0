/* SPDX-License-Identifier: MIT */
#include "net/tls.h"
#include "net/tls_bio.h"
#include "net/tls_file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

struct tls {
    SSL_CTX *context;
    enum tls_verify verify;
};

/* An error in OpenSSL's queue of this thread is about memory, perhaps as the cause of others. */
static bool is_memory(unsigned long code)
{
    return ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE ||
           ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE;
}

/* Takes the first error from OpenSSL's queue of this thread, and empties the queue. */
static unsigned long complaint(char *text, size_t size)
{
    unsigned long code = ERR_get_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;

    (void)snprintf(text, size, "%s", reason != NULL ? reason : "no reason given");
    ERR_clear_error();
    return code;
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

/* A server that wants a certificate may just hang up when there is none. */
static int certificate_asked(SSL *ssl, X509 **certificate, EVP_PKEY **key)
{
    struct stream *stream = SSL_get_app_data(ssl);

    (void)certificate;
    (void)key;
    stream->asked = true;
    return 0;
}

static const char *hint(const struct stream *stream)
{
    return stream->asked ? " (it had asked for a certificate of ours)" : "";
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

struct tls *tls_new(const struct tls_options *options, enum dlock_status *status, char *why,
                    size_t why_size)
{
    struct tls *tls = calloc(1, sizeof *tls);

    /* A handler at exit would take the library away from threads that still use it. */
    (void)OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
    ERR_clear_error();
    *status = DLOCK_OK;
    if (tls != NULL) {
        tls->verify = options->verify;
        tls->context = context_new(options, why, why_size);
        if (tls->context != NULL)
            return tls;
    }
    *status = tls == NULL || is_memory(ERR_peek_error()) ? DLOCK_NOMEM : DLOCK_INVALID;
    if (*status == DLOCK_NOMEM)
        (void)snprintf(why, why_size, "TLS: no memory");
    ERR_clear_error();
    free(tls);
    return NULL;
}

void tls_free(struct tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->context);
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

    ERR_clear_error();
    stream->ssl = SSL_new(tls->context);
    bio = stream->ssl != NULL ? tls_bio_new(stream->fd) : NULL;
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
    return handshake_failure(stream, tls, name, result);
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
