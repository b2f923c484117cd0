/* SPDX-License-Identifier: MIT */
#include "call.h"
#include "lib/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_UNKNOWN 2  /* of gRPC */
#define STATUS_MOST    16 /* the highest that gRPC defines; others mean STATUS_UNKNOWN */
#define PARTIAL_FIRST  4096

void etcd_call_init(struct etcd_call *call)
{
    call->end = ETCD_OPEN;
    call->grpc_status = 0;
    call->text[0] = '\0';
    call->wait = NULL;
    call->next = NULL;
    call->stream_id = 0;
    call->sent = 0;
    call->produced = false;
    call->begins = 0;
    call->has_headers = false;
    call->typed = false;
    call->http_status = 0;
    call->status = -1;
    call->header_bytes = 0;
    call->prefix_len = 0;
    call->partial = NULL;
    call->partial_len = 0;
    call->partial_size = 0;
}

void etcd_call_end(struct etcd_call *call, enum etcd_end end, const char *format, ...)
{
    va_list args;

    call->end = end;
    va_start(args, format);
    (void)vsnprintf(call->text, sizeof call->text, format, args);
    va_end(args);
    free(call->partial);
    call->partial = NULL;
}

/* ---- headers ---- */

/* -1: no number. */
static int number(const char *text, size_t len)
{
    int value = 0;

    if (len == 0 || len > 3)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

/* Undoes the percent-encoding of grpc-message. A percent sign that begins no code is one. */
static void message_decode(char *out, size_t size, const char *text, size_t len)
{
    char plain[ETCD_TEXT_SIZE];
    size_t count = 0;

    for (size_t i = 0; i < len && count < sizeof plain; i++) {
        int high = text[i] == '%' && i + 2 < len ? dl_hex_digit(text[i + 1]) : -1;
        int low = high >= 0 ? dl_hex_digit(text[i + 2]) : -1;

        plain[count++] = low >= 0 ? (char)(high * 16 + low) : text[i];
        if (low >= 0)
            i += 2;
    }
    dl_printable_mask(out, size, plain, count);
}

static bool is(const char *name, size_t len, const char *wanted)
{
    return len == strlen(wanted) && memcmp(name, wanted, len) == 0;
}

/* "application/grpc", and with "+proto" or a parameter. */
static bool type_fits(const char *value, size_t len)
{
    static const char wanted[] = "application/grpc";
    size_t wanted_len = sizeof wanted - 1;

    return len >= wanted_len && memcmp(value, wanted, wanted_len) == 0 &&
           (len == wanted_len || value[wanted_len] == '+' || value[wanted_len] == ';');
}

void etcd_call_header(struct etcd_call *call, const char *name, size_t name_len, const char *value,
                      size_t value_len)
{
    call->header_bytes += name_len + value_len + 32; /* as HTTP/2 counts them */
    if (call->header_bytes > ETCD_HEADERS_MAX) {
        etcd_call_end(call, ETCD_FOREIGN, "an answer with too many headers");
    } else if (is(name, name_len, ":status")) {
        call->http_status = (unsigned)number(value, value_len);
    } else if (is(name, name_len, "content-type")) {
        call->typed = type_fits(value, value_len);
    } else if (is(name, name_len, "grpc-status")) {
        call->status = number(value, value_len);
        if (call->status < 0)
            etcd_call_end(call, ETCD_FOREIGN, "an answer with a grpc-status that is no number");
    } else if (is(name, name_len, "grpc-message")) {
        message_decode(call->text, sizeof call->text, value, value_len);
    }
}

/* A balancer whose member does not serve now, or that limits the rate: UNAVAILABLE by the rule of
 * gRPC. It may have passed the request on. */
static bool is_passing(unsigned http_status)
{
    return http_status == 429 || (http_status >= 502 && http_status <= 504);
}

void etcd_call_headers_done(struct etcd_call *call, bool last)
{
    if (!call->has_headers && call->http_status / 100 == 1)
        return; /* the headers proper follow */
    if (!call->has_headers && call->http_status != 200)
        etcd_call_end(call, is_passing(call->http_status) ? ETCD_CUT : ETCD_FOREIGN,
                      "not an answer of gRPC: HTTP status %u", call->http_status);
    else if (!call->has_headers && !call->typed)
        etcd_call_end(call, ETCD_FOREIGN, "not an answer of gRPC: another content-type");
    call->has_headers = true;
    if (call->end == ETCD_OPEN && last)
        etcd_call_finish(call);
}

void etcd_call_finish(struct etcd_call *call)
{
    char text[ETCD_TEXT_SIZE];

    if (call->status < 0) {
        etcd_call_end(call, ETCD_FOREIGN, "an answer without grpc-status");
        return;
    }
    if (call->status == 0 && call->prefix_len > 0) {
        etcd_call_end(call, ETCD_FOREIGN, "an answer that ends inside a message");
        return;
    }
    memcpy(text, call->text, sizeof text);
    call->grpc_status = call->status <= STATUS_MOST ? call->status : STATUS_UNKNOWN;
    etcd_call_end(call, ETCD_ANSWERED, "%s", text);
}

/* ---- messages ---- */

static size_t message_size(const struct etcd_call *call)
{
    const unsigned char *prefix = call->prefix;

    return (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
}

static void message_take(struct etcd_call *call, const unsigned char *message, size_t len)
{
    bool taken = call->on_message(call, message, len);

    call->prefix_len = 0;
    call->partial_len = 0;
    if (!taken)
        etcd_call_end(call, ETCD_FOREIGN, "a message that makes no sense");
}

/* The memory grows with what comes, not with what the prefix promises. */
static bool partial_add(struct etcd_call *call, const unsigned char *bytes, size_t len)
{
    size_t size = call->partial_size == 0 ? PARTIAL_FIRST : call->partial_size;
    unsigned char *longer = NULL;

    while (size < call->partial_len + len)
        size *= 2;
    if (size != call->partial_size || call->partial == NULL) {
        longer = realloc(call->partial, size);
        if (longer == NULL)
            return false;
        call->partial = longer;
        call->partial_size = size;
    }
    if (len > 0)
        memcpy(call->partial + call->partial_len, bytes, len);
    call->partial_len += len;
    return true;
}

/* Returns how many bytes belong to the prefix. */
static size_t prefix_add(struct etcd_call *call, const unsigned char *bytes, size_t len)
{
    size_t missing = ETCD_PREFIX_SIZE - call->prefix_len;
    size_t taken = len < missing ? len : missing;

    memcpy(call->prefix + call->prefix_len, bytes, taken);
    call->prefix_len += taken;
    if (call->prefix_len == ETCD_PREFIX_SIZE && call->prefix[0] != 0)
        etcd_call_end(call, ETCD_FOREIGN, "a compressed message, which nobody asked for");
    else if (call->prefix_len == ETCD_PREFIX_SIZE && message_size(call) > ETCD_MESSAGE_MAX)
        etcd_call_end(call, ETCD_FOREIGN, "a message of %zu bytes", message_size(call));
    return taken;
}

/* Returns how many bytes belong to the message. */
static size_t message_add(struct etcd_call *call, const unsigned char *bytes, size_t len)
{
    size_t missing = message_size(call) - call->partial_len;
    size_t taken = len < missing ? len : missing;

    if (taken == 0 && missing > 0)
        return 0;
    if (call->partial_len == 0 && taken == missing)
        message_take(call, bytes, taken);
    else if (!partial_add(call, bytes, taken))
        etcd_call_end(call, ETCD_CUT, "no memory for an answer");
    else if (taken == missing)
        message_take(call, call->partial, call->partial_len);
    return taken;
}

bool etcd_call_data(struct etcd_call *call, const unsigned char *bytes, size_t len)
{
    bool complete = false;

    while (len > 0 && call->end == ETCD_OPEN) {
        size_t taken = 0;

        if (call->prefix_len < ETCD_PREFIX_SIZE)
            taken = prefix_add(call, bytes, len);
        bytes += taken;
        len -= taken;
        if (call->prefix_len < ETCD_PREFIX_SIZE || call->end != ETCD_OPEN)
            break;
        taken = message_add(call, bytes, len);
        complete |= call->prefix_len == 0;
        bytes += taken;
        len -= taken;
    }
    return complete;
}
