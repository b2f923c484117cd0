/* SPDX-License-Identifier: MIT */
/*
 * uri.h - the text of a store's URI, taken apart. Pure: no I/O, no environment.
 *
 *     scheme://[user[:password]@]host[:port][,host[:port]...][/path][?name=value[&name=value...]]
 *     scheme:path[?name=value...]
 *
 * The parser is strict and decodes once. Messages give the position as an offset into the text.
 * They never quote the text before the query: after a typing error any part of it may be a
 * password.
 */
#ifndef DL_URI_H
#define DL_URI_H

#include <dlock/types.h>
#include <stdbool.h>

#define DL_URI_MAX         8192 /* bytes of text */
#define DL_URI_HOSTS_MAX   32
#define DL_URI_OPTIONS_MAX 64
#define DL_SCHEME_MAX      32 /* characters */
#define DL_OPTION_NAME_MAX 32

struct dl_uri_option {
    char *name;
    char *value;   /* decoded */
    size_t offset; /* of the name, in the text it came from */
};

/* The only option that may be given several times. Its row in a table says whether it is a list. */
#define DL_OPTION_REPEATABLE "node"
struct dl_uri_query {
    struct dl_uri_option *options;
    size_t count;
};

struct dl_uri {
    char *scheme;
    char *user;     /* NULL: none */
    char *password; /* NULL: none; "" when it was written as such */
    char **hosts;   /* "host:port", "host" or "[v6]:port", as written; NULL-terminated */
    char *path;     /* "": none. With an authority it begins with '/' */
    bool authority; /* "//" was there */
    struct dl_uri_query query;
};

/* INVALID "<what> at offset 17: ...", or NOMEM. *out is for dl_uri_fini in either case. */
enum dlock_status dl_uri_parse(const char *text, const char *what, struct dl_uri *out,
                               struct dlock_error *err);

/* Wipes and frees; a zeroed one is fine. */
void dl_uri_fini(struct dl_uri *uri);

/* "name=value&name=value" alone; the empty text has no options. */
enum dlock_status dl_uri_query_parse(const char *text, const char *what, struct dl_uri_query *out,
                                     struct dlock_error *err);
void dl_uri_query_fini(struct dl_uri_query *query);

/* dl_uri_print writes it instead of a secret. A URI with it cannot be opened. */
#define DL_SECRET_SHOWN "***"

/*
 * The URI as text again, percent-encoded in one way only, with *** for the password, for options
 * with a telling name and for option values that look like a URI with a password. Caller frees;
 * NULL: no memory.
 */
char *dl_uri_print(const struct dl_uri *uri);

/* True for text of the form [a-z][a-z0-9+.-]{0,31}. */
bool dl_uri_scheme_valid(const char *text, size_t len);

/* True for text of the form [a-z][a-z0-9_]{0,31}. */
bool dl_uri_option_name_valid(const char *text, size_t len);

/* True for one IPv4 address, [IPv6 address] or letter-digit-hyphen name, without a port. Otherwise
 * *why says what is wrong with it, without quoting it. */
bool dl_uri_host_valid(const char *text, size_t len, const char **why);

#endif
