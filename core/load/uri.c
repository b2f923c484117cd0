/* SPDX-License-Identifier: MIT */
#include "load/uri.h"
#include "lib/text.h"
#include "sys/error.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text being parsed, for messages. */
struct source {
    const char *text, *what;
    struct dlock_error *err;
};

__attribute__((format(printf, 3, 4))) static enum dlock_status
refuse(const struct source *src, size_t at, const char *format, ...)
{
    char why[200];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return dl_error(src->err, DLOCK_INVALID, "%s at offset %zu: %s", src->what, at, why);
}

static enum dlock_status out_of_memory(const struct source *src)
{
    (void)dl_error(src->err, DLOCK_NOMEM, "no memory for the %s", src->what);
    return DLOCK_NOMEM;
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return is_lower(c) || (c >= 'A' && c <= 'Z');
}

static bool is_control(int c)
{
    return c < 0x20 || c == 0x7f;
}

bool dl_uri_scheme_valid(const char *text, size_t len)
{
    if (len == 0 || len > DL_SCHEME_MAX || !is_lower(text[0]))
        return false;
    for (size_t i = 1; i < len; i++)
        if (!is_lower(text[i]) && !is_digit(text[i]) && strchr("+.-", text[i]) == NULL)
            return false;
    return true;
}

bool dl_uri_option_name_valid(const char *text, size_t len)
{
    if (len == 0 || len > DL_OPTION_NAME_MAX || !is_lower(text[0]))
        return false;
    for (size_t i = 1; i < len; i++)
        if (!is_lower(text[i]) && !is_digit(text[i]) && text[i] != '_')
            return false;
    return true;
}

/* Refuses what is wrong anywhere, so that decoding cannot fail later. */
static enum dlock_status text_check(const struct source *src)
{
    size_t len = strnlen(src->text, DL_URI_MAX + 1);

    if (len > DL_URI_MAX)
        return refuse(src, DL_URI_MAX, "longer than %d bytes", DL_URI_MAX);
    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)src->text[i];

        if (is_control(c))
            return refuse(src, i, "a control character");
        if (c == ' ')
            return refuse(src, i, "a space; write %%20");
        if (c == '#')
            return refuse(src, i, "'#' has no meaning here; write %%23");
        if (c != '%')
            continue;
        c = dl_hex_byte(src->text + i + 1);
        if (c < 0)
            return refuse(src, i, "'%%' without two hexadecimal digits; a percent sign is %%25");
        if (is_control(c))
            return refuse(src, i, "an encoded control character");
    }
    return DLOCK_OK;
}

/* text[from, to), percent-decoded; NULL: no memory. Caller frees. */
static char *decode(const struct source *src, size_t from, size_t to)
{
    char *out = malloc(to - from + 1);
    size_t used = 0;

    if (out == NULL)
        return NULL;
    while (from < to) {
        if (src->text[from] == '%') {
            out[used++] = (char)dl_hex_byte(src->text + from + 1);
            from += 3;
        } else {
            out[used++] = src->text[from++];
        }
    }
    out[used] = '\0';
    return out;
}

/* The first of the characters in `stops` in text[from, to), or to. */
static size_t find(const struct source *src, size_t from, size_t to, const char *stops)
{
    while (from < to && strchr(stops, src->text[from]) == NULL)
        from++;
    return from;
}

/* ---- hosts ---- */

static bool ipv6_valid(const char *text, size_t len, const char **why)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr binary;

    *why = "not an IPv6 address between '[' and ']'";
    if (len >= sizeof address)
        return false;
    memcpy(address, text, len);
    address[len] = '\0';
    return inet_pton(AF_INET6, address, &binary) == 1;
}

static bool ipv4_valid(const char *text, size_t len, const char **why)
{
    char address[INET_ADDRSTRLEN];
    struct in_addr binary;

    *why = "a host that ends in a number, but is not an IPv4 address";
    if (len >= sizeof address)
        return false;
    memcpy(address, text, len);
    address[len] = '\0';
    return inet_pton(AF_INET, address, &binary) == 1;
}

static bool label_valid(const char *text, size_t len, const char **why)
{
    *why = "a part of a host name must have 1 to 63 characters";
    if (len == 0 || len > 63)
        return false;
    *why = "a part of a host name may not begin or end with a hyphen";
    if (text[0] == '-' || text[len - 1] == '-')
        return false;
    *why = "a host name has letters, digits, hyphens and dots only";
    for (size_t i = 0; i < len; i++)
        if (!is_letter(text[i]) && !is_digit(text[i]) && text[i] != '-')
            return false;
    return true;
}

/* A number to inet_aton, in any of its notations: 127, 017, 0x7f000001. */
static bool is_number(const char *text, size_t len)
{
    bool hex = len > 2 && text[0] == '0' && (text[1] | 0x20) == 'x';

    for (size_t i = hex ? 2 : 0; i < len; i++)
        if (!is_digit(text[i]) && !(hex && (text[i] | 0x20) >= 'a' && (text[i] | 0x20) <= 'f'))
            return false;
    return true;
}

bool dl_uri_host_valid(const char *text, size_t len, const char **why)
{
    size_t at = 0, last = 0;

    *why = "the name of a host is missing";
    if (len == 0)
        return false;
    if (text[0] == '[') {
        *why = "'[' without ']'";
        return text[len - 1] == ']' && ipv6_valid(text + 1, len - 2, why);
    }
    *why = "a host name longer than 253 characters";
    if (len > 253)
        return false;
    while (at <= len) {
        const char *dot = memchr(text + at, '.', len - at);
        size_t end = dot != NULL ? (size_t)(dot - text) : len;

        if (!label_valid(text + at, end - at, why))
            return false;
        last = at;
        at = end + 1;
    }
    return !is_number(text + last, len - last) || ipv4_valid(text, len, why);
}

static enum dlock_status port_check(const struct source *src, size_t from, size_t to)
{
    unsigned port = 0;

    if (from == to)
        return refuse(src, from, "a port is missing after ':'");
    for (size_t i = from; i < to; i++) {
        if (!is_digit(src->text[i]))
            return refuse(src, i, "a port is a decimal number");
        port = port * 10 + (unsigned)(src->text[i] - '0');
        if (port > 65535)
            return refuse(src, from, "a port is at most 65535");
    }
    if (port == 0 || src->text[from] == '0')
        return refuse(src, from, "a port is a number from 1 to 65535 without leading zeros");
    return DLOCK_OK;
}

static enum dlock_status host_check(const struct source *src, size_t from, size_t to)
{
    const char *text = src->text, *why = NULL;
    size_t end = find(src, from, to, text[from] == '[' ? "]" : ":");

    if (end < to && text[from] == '[')
        end++;
    if (!dl_uri_host_valid(text + from, end - from, &why))
        return refuse(src, from, "%s", why);
    if (end == to)
        return DLOCK_OK;
    if (text[end] != ':')
        return refuse(src, end, "only ':' and a port may follow ']'");
    return port_check(src, end + 1, to);
}

static enum dlock_status hosts_parse(const struct source *src, size_t from, size_t to,
                                     struct dl_uri *uri)
{
    size_t count = 0;

    uri->hosts = calloc(DL_URI_HOSTS_MAX + 1, sizeof *uri->hosts);
    if (uri->hosts == NULL)
        return out_of_memory(src);
    while (from < to || count > 0) {
        size_t end = find(src, from, to, ",");
        enum dlock_status status = host_check(src, from, end);

        if (status != DLOCK_OK)
            return status;
        if (count == DL_URI_HOSTS_MAX)
            return refuse(src, from, "more than %d hosts", DL_URI_HOSTS_MAX);
        uri->hosts[count] = strndup(src->text + from, end - from);
        if (uri->hosts[count++] == NULL)
            return out_of_memory(src);
        if (end == to)
            break;
        from = end + 1;
    }
    return DLOCK_OK;
}

/* ---- authority ---- */

static enum dlock_status userinfo_parse(const struct source *src, size_t from, size_t to,
                                        struct dl_uri *uri)
{
    size_t colon = find(src, from, to, ":");

    if (from == to)
        return refuse(src, from, "a user name is missing before '@'");
    if (colon > from) {
        uri->user = decode(src, from, colon);
        if (uri->user == NULL)
            return out_of_memory(src);
    }
    if (colon < to) {
        uri->password = decode(src, colon + 1, to);
        if (uri->password == NULL)
            return out_of_memory(src);
    }
    return DLOCK_OK;
}

/* text[from, to) is what follows "//". */
static enum dlock_status authority_parse(const struct source *src, size_t from, size_t to,
                                         struct dl_uri *uri)
{
    size_t end = strlen(src->text);
    size_t at = find(src, from, to, "@");
    size_t other = find(src, at < to ? at + 1 : to, end, "@");
    enum dlock_status status = DLOCK_INTERNAL;

    /* An '@', '/' or '?' written plainly in a password would make its rest a host or an option,
     * and would be sent or shown as such. */
    if (from < to && other < end)
        return refuse(src, other,
                      "an '@' that does not end the user name and password; write %%40 (and %%2F "
                      "for '/' and %%3F for '?' in a password)");
    if (at < to) {
        status = userinfo_parse(src, from, at, uri);
        if (status != DLOCK_OK)
            return status;
        from = at + 1;
    }
    return hosts_parse(src, from, to, uri);
}

/* ---- query ---- */

static enum dlock_status option_add(const struct source *src, size_t from, size_t to,
                                    struct dl_uri_query *out)
{
    struct dl_uri_option *option;
    size_t equals = find(src, from, to, "=");

    if (!dl_uri_option_name_valid(src->text + from, equals - from))
        return refuse(src, from, "an option is name=value, its name in lower case");
    if (equals == to)
        return refuse(src, to, "an option without '=' and a value");
    if (out->count == DL_URI_OPTIONS_MAX)
        return refuse(src, from, "more than %d options", DL_URI_OPTIONS_MAX);
    option = &out->options[out->count++];
    option->offset = from;
    option->name = decode(src, from, equals);
    option->value = decode(src, equals + 1, to);
    if (option->name == NULL || option->value == NULL)
        return out_of_memory(src);
    for (size_t i = 0; i + 1 < out->count; i++)
        if (strcmp(out->options[i].name, option->name) == 0 &&
            strcmp(option->name, DL_OPTION_REPEATABLE) != 0)
            return refuse(src, from, "option '%s' is repeated", option->name);
    return DLOCK_OK;
}

/* text[from, end of text) is what follows '?'. */
static enum dlock_status query_parse(const struct source *src, size_t from,
                                     struct dl_uri_query *out)
{
    size_t len = strlen(src->text);

    out->options = calloc(DL_URI_OPTIONS_MAX, sizeof *out->options);
    if (out->options == NULL)
        return out_of_memory(src);
    for (;;) {
        size_t end = find(src, from, len, "&");
        enum dlock_status status = option_add(src, from, end, out);

        if (status != DLOCK_OK || end == len)
            return status;
        from = end + 1;
    }
}

enum dlock_status dl_uri_query_parse(const char *text, const char *what, struct dl_uri_query *out,
                                     struct dlock_error *err)
{
    struct source src = {text, what, err};
    enum dlock_status status = text_check(&src);

    *out = (struct dl_uri_query){0};
    if (status != DLOCK_OK || text[0] == '\0')
        return status;
    return query_parse(&src, 0, out);
}

/* ---- the whole ---- */

enum dlock_status dl_uri_parse(const char *text, const char *what, struct dl_uri *out,
                               struct dlock_error *err)
{
    struct source src = {text, what, err};
    size_t len = strnlen(text, DL_URI_MAX);
    size_t at = find(&src, 0, len, ":/?");
    size_t query = find(&src, 0, len, "?");
    enum dlock_status status = text_check(&src);

    *out = (struct dl_uri){0};
    if (status != DLOCK_OK)
        return status;
    if (!dl_uri_scheme_valid(text, at))
        return refuse(&src, 0, "a URI begins with a scheme in lower case, such as sqlite:");
    if (at == len || text[at] != ':')
        return refuse(&src, at, "':' expected after the scheme");
    out->scheme = strndup(text, at);
    if (out->scheme == NULL)
        return out_of_memory(&src);
    at++;
    if (strncmp(text + at, "//", 2) == 0) {
        size_t end = find(&src, at + 2, len, "/?");

        out->authority = true;
        status = authority_parse(&src, at + 2, end, out);
        if (status != DLOCK_OK)
            return status;
        at = end;
    }
    if (out->hosts == NULL)
        out->hosts = calloc(1, sizeof *out->hosts);
    out->path = decode(&src, at, query);
    if (out->hosts == NULL || out->path == NULL)
        return out_of_memory(&src);
    return query < len ? query_parse(&src, query + 1, &out->query) : DLOCK_OK;
}

void dl_uri_query_fini(struct dl_uri_query *query)
{
    for (size_t i = 0; i < query->count; i++) {
        free(query->options[i].name);
        dl_secret_free(query->options[i].value);
    }
    free(query->options);
    *query = (struct dl_uri_query){0};
}

void dl_uri_fini(struct dl_uri *uri)
{
    free(uri->scheme);
    free(uri->user);
    dl_secret_free(uri->password);
    for (size_t i = 0; uri->hosts != NULL && uri->hosts[i] != NULL; i++)
        free(uri->hosts[i]);
    free(uri->hosts);
    free(uri->path);
    dl_uri_query_fini(&uri->query);
    *uri = (struct dl_uri){0};
}

/* Bytes that stay as they are, besides letters and digits. '@' comes first, to be left out by + 1:
 * the parser refuses it after an authority that is not empty. */
#define PLAIN_IN_USER  "-._~!$*+;"
#define PLAIN_IN_PATH  "@-._~!$*+,;=:/"
#define PLAIN_IN_VALUE "@-._~!$*+,;=:/?"

static void put_encoded(FILE *out, const char *text, const char *plain)
{
    for (; *text != '\0'; text++) {
        int c = (unsigned char)*text;
        int letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';

        if (letter || (c >= '0' && c <= '9') || strchr(plain, c) != NULL)
            (void)fputc(c, out);
        else
            (void)fprintf(out, "%%%02X", (unsigned)c);
    }
}

static bool value_is_secret(const struct dl_uri_option *option)
{
    return dl_secret_is_named(option->name) ||
           (strstr(option->value, "://") != NULL && strchr(option->value, '@') != NULL);
}

/* 1 or 0. */
static int authority_filled(const struct dl_uri *uri)
{
    return uri->hosts[0] != NULL || uri->user != NULL || uri->password != NULL;
}

static void put_authority(FILE *out, const struct dl_uri *uri)
{
    (void)fputs("//", out);
    if (uri->user != NULL)
        put_encoded(out, uri->user, PLAIN_IN_USER);
    if (uri->password != NULL)
        (void)fputs(":" DL_SECRET_SHOWN, out);
    if (uri->user != NULL || uri->password != NULL)
        (void)fputc('@', out);
    for (size_t i = 0; uri->hosts[i] != NULL; i++)
        (void)fprintf(out, "%s%s", i == 0 ? "" : ",", uri->hosts[i]);
}

static void put_path(FILE *out, const struct dl_uri *uri)
{
    const char *path = uri->path;

    /* Without an authority "//" at the front would begin one. */
    if (!uri->authority && strncmp(path, "//", 2) == 0) {
        (void)fputs("%2F", out);
        path++;
    }
    put_encoded(out, path, PLAIN_IN_PATH + authority_filled(uri));
}

char *dl_uri_print(const struct dl_uri *uri)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    (void)fprintf(out, "%s:", uri->scheme);
    if (uri->authority)
        put_authority(out, uri);
    put_path(out, uri);
    for (size_t i = 0; i < uri->query.count; i++) {
        const struct dl_uri_option *option = &uri->query.options[i];

        (void)fprintf(out, "%c%s=", i == 0 ? '?' : '&', option->name);
        if (value_is_secret(option))
            (void)fputs(DL_SECRET_SHOWN, out);
        else
            put_encoded(out, option->value, PLAIN_IN_VALUE + authority_filled(uri));
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
