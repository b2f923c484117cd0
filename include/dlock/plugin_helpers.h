/* SPDX-License-Identifier: MIT */
/* plugin_helpers.h - small pieces that plugins use, and the entry. A part of plugin.h. */
#ifndef DLOCK_PLUGIN_HELPERS_H
#define DLOCK_PLUGIN_HELPERS_H

#include <dlock/request.h>
#include <dlock/types.h>
#include <stdarg.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlock_plugin;

/* The text of CONFIG [LIM-1]: the limit in the store, and the request's. */
#define DLOCK_LIMITS_DIFFER                                                                     \
    "the name has a limit of %u now, and this user asks for %u; all must say the same (a lock " \
    "without a limit has 1)"

/* The limit of a request, also of a core of ABI 2.1: 1 is a lock. */
static inline uint32_t dlock_request_limit(const struct dlock_request *req)
{
    return DLOCK_HAS(req, limit) && req->limit > 1 ? req->limit : 1;
}

/* How long unlock keeps the name [KEP-1]; 0: it does not. */
static inline int64_t dlock_request_keep_ms(const struct dlock_request *req)
{
    return (req->flags & DLOCK_REQ_KEEP) != 0 && DLOCK_HAS(req, keep_ms) ? req->keep_ms : 0;
}

/* 0: core does not wait for the attempt by wait_any. */
static inline uint32_t dlock_request_waiter(const struct dlock_request *req)
{
    return DLOCK_HAS(req, waiter) ? req->waiter : 0;
}

/* What the holder publishes [DAT-1], *len bytes; NULL and 0: nothing. */
static inline const unsigned char *dlock_request_data(const struct dlock_request *req,
                                                      uint32_t *len)
{
    *len = DLOCK_HAS(req, data) && req->data != NULL ? req->data_len : 0;
    return *len > 0 ? req->data : NULL;
}

/* What became of a connection of a session that is open. */
enum dlock_connection_event {
    DLOCK_CONNECTION_MADE,
    DLOCK_CONNECTION_FAILED, /* it could not be made */
    DLOCK_CONNECTION_BROKEN  /* it was given up because an exchange on it failed */
};

/* host->connection [CNT-1], of a core that has it. */
#define DLOCK_COUNT_CONNECTION(host, event)                    \
    (DLOCK_HAS(host, connection) && (host)->connection != NULL \
         ? (host)->connection((host)->ctx, (event))            \
         : (void)0)

/* Fills *err and returns status, for `return dlock_fail(...)`. code: the store's own number. */
__attribute__((format(printf, 5, 6))) static inline enum dlock_status
dlock_fail(struct dlock_error *err, const char *origin, enum dlock_status status, int32_t code,
           const char *format, ...)
{
    va_list args;
    err->status = status;
    err->code = code;
    (void)snprintf(err->origin, sizeof err->origin, "%s", origin);
    va_start(args, format);
    if (vsnprintf(err->message, sizeof err->message, format, args) < 0)
        err->message[0] = '\0';
    va_end(args);
    return status;
}

#ifdef __clang_analyzer__
/* It cannot see through a variadic call what that returns. */
#define dlock_fail(err, origin, status, ...) \
    ((void)dlock_fail(err, origin, status, __VA_ARGS__), (status))
#endif

/* The one exported symbol of a plugin; `id` is its name, for the static form that tests link. */
#ifdef DLOCK_STATIC
#define DLOCK_PLUGIN_ENTRY(id, descriptor)              \
    const struct dlock_plugin *dlock_plugin_##id(void); \
    const struct dlock_plugin *dlock_plugin_##id(void)  \
    {                                                   \
        return (descriptor);                            \
    }
#else
__attribute__((visibility("default"))) const struct dlock_plugin *dlock_plugin(void);
#define DLOCK_PLUGIN_ENTRY(id, descriptor)        \
    const struct dlock_plugin *dlock_plugin(void) \
    {                                             \
        return (descriptor);                      \
    }
#endif

#ifdef __cplusplus
}
#endif
#endif
