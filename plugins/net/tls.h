/* SPDX-License-Identifier: MIT */
/*
 * tls.h - TLS of a stream, by OpenSSL: options, certificates, handshake and I/O.
 *
 * A client makes one struct tls from the options of its URI, and its streams share it. The
 * functions wait for nothing and raise no signal: stream.c polls.
 *
 *   tls_option.c                the options of a URI and their files; needs no OpenSSL
 *   tls.c                       OpenSSL
 *   tls_late.c, tls_module.c    load it as a module, when the first tls_new is called
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include "net/stream.h"

#define TLS_WHY_SIZE  176  /* holds a message of tls_file_why whole */
#define TLS_PATH_SIZE 4200 /* a path that is cut off is too long for the system, too */

enum tls_verify {
    TLS_VERIFY_FULL, /* a valid certificate for the name of the server */
    TLS_VERIFY_CA,   /* a valid certificate for any name */
    TLS_VERIFY_NONE  /* any certificate: the connection is encrypted, but any server may answer */
};

/* Certificates and rules, shared by the streams of a client. Each new connection uses what is in
 * the files then, so that a certificate can be renewed while the client is open. */
struct tls;

struct tls_options {
    const char *ca;         /* ca=, a file; NULL: the system's */
    const char *cert, *key; /* cert= and key_file=, files of ours, both or none */
    const char *directory;  /* of relative paths; NULL: the working directory */
    enum tls_verify verify;
    const char *alpn; /* the protocol that the server is asked for, "h2"; NULL: none */
};

/* ---- tls_option.c ---- */

/* Rows for the table of a plugin. */
#define TLS_OPTION_ROWS                                                                           \
    {"ca", "text", NULL, "1..4096", "file with the certificates to trust; unset: the system's"},  \
        {"cert", "text", NULL, "1..4096", "file with a certificate of ours"},                     \
        {"key_file", "text", NULL, "1..4096", "file with the key of cert"},                       \
    {                                                                                             \
        "verify", "enum", NULL, "full|ca|none",                                                   \
            "the check of the server's certificate; unset: full, it has to be valid and for the " \
            "host; ca: for any name; none: no check, so that anybody can be the server"           \
    }

/*
 * Reads ca=, cert=, key_file= and verify=, which have these names in all stores. missing: NULL:
 * TLS is on; otherwise it says how to switch TLS on, and each of these options, and sni=, is
 * INVALID.
 */
enum dlock_status tls_options_take(struct tls_options *options, const struct dlock_target *target,
                                   const char *origin, const char *missing,
                                   struct dlock_error *err);

/* For a plugin whose library reads the files, and says less, or says it after it has connected.
 * False: a file cannot be read; why (TLS_WHY_SIZE) says so. */
bool tls_options_check(const struct tls_options *options, char *why, size_t size);

/* Files of options. A message is "ca=/etc/ca.pem: No such file or directory", with the end of a
 * long path. */

/* A relative path counts from `directory`, or from the working directory if that is NULL. Returns
 * path, or buf (TLS_PATH_SIZE). */
const char *tls_file_from(const char *directory, const char *path, char *buf);

void tls_file_why(const char *option, const char *path, const char *what, char *why, size_t size);
/* False: the file cannot be read; why says so. */
bool tls_file_check(const char *option, const char *path, char *why, size_t size);

/* ---- tls.c, or tls_late.c ---- */

/* NULL: *status is set, and why (TLS_WHY_SIZE) has the reason. INVALID: a file is wrong; NOMEM;
 * PLUGIN_LOAD: the module with TLS is missing or broken. Copies the options. Call tls_free when no
 * stream uses it any more. */
struct tls *tls_new(const struct tls_options *options, enum dlock_status *status, char *why,
                    size_t why_size);
void tls_free(struct tls *tls);

/* The handshake in steps that do not wait: see stream.h. STREAM_FAILED from tls_begin: a
 * file cannot be used now, as while it is replaced. From tls_step it may mean that a certificate
 * was refused, and a file has been changed since: the next connection may do better. */
enum stream_result tls_begin(struct stream *stream, const struct tls *tls, const char *name);
enum stream_result tls_step(struct stream *stream, const struct tls *tls, const char *name,
                            short *events);

/* ---- for stream.c ---- */

enum stream_result tls_try_send(struct stream *stream, const void *bytes, size_t len,
                                struct stream_step *step);
enum stream_result tls_try_receive(struct stream *stream, void *bytes, size_t size,
                                   struct stream_step *step);
bool tls_idle(struct stream *stream);
void tls_end(struct stream *stream);
/* The stream has another address now. */
void tls_moved(struct stream *stream);

#endif
