/* SPDX-License-Identifier: MIT */
#include "net/tls.h"
#include "net/tls_bio.h"
#include "net/tls_context.h"

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
    struct tls_context *context;
    enum tls_verify verify;
};

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
    tls_context_free(tls->context);
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

    stream->ssl = tls_context_begin(tls->context, stream->why, sizeof stream->why);
    if (stream->ssl == NULL)
        return STREAM_FAILED;
    bio = tls_bio_new(stream->fd);
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
    if (failed == STREAM_REFUSED && !tls_context_is_current(tls->context))
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
