/* SPDX-License-Identifier: MIT */
#include "resp/error.h"
#include "lib/text.h"

#include <string.h>

enum dlock_status resp_error_fail(const struct resp_config *config, struct dlock_error *err,
                                  enum dlock_status status, const char *format, ...)
{
    char text[sizeof err->message];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return dlock_fail(err, config->origin, status, 0, "%.63s: %.180s", config->endpoint, text);
}

enum dlock_status resp_error_connect_status(enum stream_result result)
{
    switch (result) {
    case STREAM_OK:
        return DLOCK_OK;
    case STREAM_REFUSED:
        return DLOCK_AUTH;
    case STREAM_FOREIGN:
        return DLOCK_PROTOCOL;
    case STREAM_INVALID:
        return DLOCK_INVALID;
    default:
        return DLOCK_UNAVAILABLE;
    }
}

/*
 * Errors that mean that the server did nothing. An error that is not in this list may come from the
 * middle of a script: the outcome is not known.
 */
static const struct {
    const char *text; /* the first word or words of the error */
    enum dlock_status status;
} errors[] = {
    {"NOSCRIPT", DLOCK_UNAVAILABLE},
    {"LOADING", DLOCK_UNAVAILABLE},
    {"BUSY", DLOCK_UNAVAILABLE},
    {"OOM", DLOCK_UNAVAILABLE},
    {"MISCONF", DLOCK_UNAVAILABLE},
    {"NOREPLICAS", DLOCK_UNAVAILABLE},
    {"FAILOVER", DLOCK_UNAVAILABLE},
    {"CLUSTERDOWN", DLOCK_UNAVAILABLE},
    {"MASTERDOWN", DLOCK_UNAVAILABLE},
    {"TRYAGAIN", DLOCK_UNAVAILABLE},
    {"ERR max number of clients", DLOCK_UNAVAILABLE},
    {"READONLY", DLOCK_UNAVAILABLE}, /* no master any more */
    {"MOVED", DLOCK_CONFIG},
    {"ASK", DLOCK_CONFIG},
    {"CROSSSLOT", DLOCK_CONFIG},
    {"WRONGTYPE", DLOCK_CONFIG},
    {"ERR unknown command", DLOCK_CONFIG},
    {"ERR DB index is out of range", DLOCK_CONFIG},
    {"NOAUTH", DLOCK_AUTH},
    {"WRONGPASS", DLOCK_AUTH},
    {"NOPERM", DLOCK_AUTH},
    {"DENIED", DLOCK_AUTH},
};

static bool begins(const redisReply *reply, const char *text)
{
    size_t len = strlen(text);

    return (size_t)reply->len >= len && memcmp(reply->str, text, len) == 0;
}

bool resp_error_is(const redisReply *reply, const char *code)
{
    return reply->type == REDIS_REPLY_ERROR && begins(reply, code);
}

/* lua-replicate-commands no, or a server older than 5: our scripts look at the clock first, so that
 * none of them has written anything. */
static bool is_too_old(const redisReply *reply)
{
    static const char text[] = "Write commands not allowed after non deterministic commands";

    return memmem(reply->str, (size_t)reply->len, text, sizeof text - 1) != NULL;
}

static enum dlock_status error_status(const struct resp_config *config, const redisReply *reply)
{
    if (config->all_keys && (begins(reply, "MOVED") || begins(reply, "ASK")))
        return DLOCK_UNAVAILABLE; /* sent from server to server too often */
    if (is_too_old(reply))
        return DLOCK_CONFIG;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (begins(reply, errors[i].text))
            return errors[i].status;
    return DLOCK_UNKNOWN;
}

static const char *error_advice(const struct resp_config *config, const redisReply *reply)
{
    if (!config->all_keys && (begins(reply, "MOVED") || begins(reply, "ASK")))
        return "a node of a cluster, whose scheme is redis+cluster: ";
    return "";
}

/* Leaves out "script: <SHA1>, on @user_script:17.", which helps nobody but us, and the arguments of
 * an unknown command, which are keys and tokens. */
static size_t text_len(const redisReply *reply)
{
    static const char *const tails[] = {" script: ", ", with args beginning with:"};
    size_t len = (size_t)reply->len;

    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        const char *found = memmem(reply->str, len, tails[i], strlen(tails[i]));

        if (found != NULL)
            len = (size_t)(found - reply->str);
    }
    return len;
}

void resp_error_text(char *out, size_t size, const redisReply *reply)
{
    dl_printable_mask(out, size, reply->str, text_len(reply));
}

enum dlock_status resp_error_wrong_type(const struct resp_config *config, const char *key,
                                        size_t len, struct dlock_error *err)
{
    char text[128];

    dl_printable_mask(text, sizeof text, key, len);
    return resp_error_fail(config, err, DLOCK_CONFIG,
                           "the key %s, or one beside it, is something else (WRONGTYPE)", text);
}

enum dlock_status resp_error_take(const struct resp_config *config, const redisReply *reply,
                                  struct dlock_error *err)
{
    char text[128];

    if (resp_error_is(reply, "WRONGTYPE"))
        return resp_error_fail(config, err, DLOCK_CONFIG,
                               "a key of the name is something else (WRONGTYPE)");
    if (is_too_old(reply))
        return resp_error_fail(config, err, DLOCK_CONFIG,
                               "the server refuses scripts that look at the clock: want Redis 5 or "
                               "later, and lua-replicate-commands yes");
    resp_error_text(text, sizeof text, reply);
    return resp_error_fail(config, err, error_status(config, reply), "%s%s",
                           error_advice(config, reply), text);
}

enum dlock_status resp_error_take_quietly(const struct resp_config *config, const redisReply *reply,
                                          const char *what, struct dlock_error *err)
{
    char code[24];
    size_t len = strcspn(reply->str, " ");

    dl_printable_mask(code, sizeof code, reply->str, len);
    return resp_error_fail(config, err, error_status(config, reply), "%s: %s", what, code);
}
