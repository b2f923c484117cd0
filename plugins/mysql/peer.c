/* SPDX-License-Identifier: MIT */
#include "peer.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/socket.h>

/* MARIADB_OPT_TLS_VERIFICATION_CALLBACK: the headers of 3.3 do not have it, but a program that was
 * built with them may run with 3.4. */
#define OPT_VERIFICATION_CALLBACK 7031

static char verdict_name[] = "dlock_verdict"; /* not const: what the library wants */

#define CLIENT_TLS 0x0800u

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

enum dlock_status my_peer_options(MYSQL *mysql, const struct my_config *config,
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

bool my_peer_verdict_keep(MYSQL *mysql, int *verdict)
{
    return mysql_options4(mysql, MARIADB_OPT_USERDATA, verdict_name, verdict) == 0;
}

enum dlock_status my_peer_refused(const char *endpoint, int verdict, struct dlock_error *err)
{
    if (verdict == X509_V_ERR_OUT_OF_MEM)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "%s: the certificate could not be checked", endpoint);
    return dlock_fail(err, MY_ORIGIN, DLOCK_AUTH, 0, "%s: the server's certificate: %s", endpoint,
                      X509_verify_cert_error_string(verdict));
}

/* The library takes it for an error, and goes no further. It takes each version from 10 on for a
 * greeting, and goes on to the next packet after a report of progress, which is an error 65535. */
static bool is_refusal(const unsigned char *bytes, size_t len)
{
    const bool is_progress = len > 6 && bytes[5] == 0xff && bytes[6] == 0xff;

    return len > 4 && (bytes[4] < 10 || (bytes[4] == 0xff && !is_progress));
}

/* Four bytes of header, of which three are the length, the version of the protocol, the server's
 * version with a 0, the number of the connection (4), a part of the salt (8), 0, and what the
 * server offers (2). */
enum my_greeting my_peer_greeting(const unsigned char *bytes, size_t len, size_t *want)
{
    const unsigned char *end = NULL;
    size_t at = 0;

    *want = len < 4 ? 4 : 4 + ((size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16);
    if (*want > MY_GREETING_MAX)
        *want = MY_GREETING_MAX;
    if (len < *want || len < 4)
        return MY_GREETING_SHORT;
    if (is_refusal(bytes, *want))
        return MY_GREETING_TLS;
    end = *want > 5 && bytes[4] != 0xff ? memchr(bytes + 5, '\0', *want - 5) : NULL;
    at = end != NULL ? (size_t)(end - bytes) + 1 + 4 + 8 + 1 : 0;
    if (end == NULL || at + 2 > *want)
        return MY_GREETING_PLAIN;
    return ((bytes[at] | (unsigned)bytes[at + 1] << 8) & CLIENT_TLS) != 0 ? MY_GREETING_TLS
                                                                          : MY_GREETING_PLAIN;
}
