/* SPDX-License-Identifier: MIT */
#include "load/settings.h"

#include "load/option.h"
#include "sys/error.h"
#include "sys/struct_size.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define OP_TIMEOUT_MAX_MS INT64_C(3600000)

/* help is at most one line: docs/uri.md is made from it. */
const struct dlock_option_spec dl_settings_options[] = {
    {"ttl", "duration", "30s", "none|50ms..7d",
     "lease: how long the store keeps a lock that nobody renews; none: while its process lives"},
    {"wait", "duration", "forever", "forever|0..365d",
     "how long to wait for a lock, and for the store; 0: one attempt"},
    {"op_timeout", "duration", NULL, "10ms..1h",
     "bound of one exchange with the store; unset: min(ttl/4, 2s)"},
    {"connect_timeout", "duration", "5s", "10ms..1h", "bound of making one connection"},
    {"open", "enum", "now", "now|lazy",
     "lazy: opening does not connect, and the first call says what is wrong with the store"},
    {"max_hold", "duration", "0", "0..365d", "a lock is renewed no longer than this; 0: no bound"},
    {"poll_max", "duration", "1s", "10ms..60s",
     "longest sleep of a waiter between two looks at the store"},
    {"connections", "int", "16", "2..1024", "sessions that one client may have for operations"},
    {"renew", "bool", "on", NULL, "renew held locks in the background"},
    {"fence", "enum", "auto", "auto|on|off",
     "fencing tokens; auto: where the store has them, on: refuse a store without"},
    {"recursive", "bool", "off", NULL,
     "a handle that holds its lock may acquire it again, and unlocks as often"},
    {"queue", "bool", "on", NULL,
     "wait in the store's queue, first come first served, if it has one"},
    {"clock_margin", "int", "10", "1..50",
     "percent of a lease, and at least 10 ms, that a client does not believe, for clocks that are "
     "not right"},
    {"handoff", "int", "30", "0..30",
     "how often a held lock may go from thread to thread of one client before others get it"},
    {"label", "text", NULL, "1..64", "a word for people who inspect the lock; printable ASCII"},
    {"pass_file", "text", NULL, "1..4096",
     "absolute path of a file with the password as its only line"},
    {"pass_env", "text", NULL, "1..128", "environment variable that holds the password"},
    {0},
};

/* Which rows are plain int64_t members. */
static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
    {"ttl", offsetof(struct dl_settings, ttl_ms)},
    {"wait", offsetof(struct dl_settings, wait_ms)},
    {"op_timeout", offsetof(struct dl_settings, op_timeout_ms)},
    {"connect_timeout", offsetof(struct dl_settings, connect_timeout_ms)},
    {"max_hold", offsetof(struct dl_settings, max_hold_ms)},
    {"poll_max", offsetof(struct dl_settings, poll_max_ms)},
};

static bool printable(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text < 0x20 || *text > 0x7e)
            return false;
    return true;
}

static enum dlock_tri tri_of_word(const char *word)
{
    if (strcmp(word, "on") == 0)
        return DLOCK_ON;
    return strcmp(word, "off") == 0 ? DLOCK_OFF : DLOCK_DEFAULT;
}

bool dl_settings_set(struct dl_settings *settings, const char *name, const char *text,
                     int64_t number)
{
    if (strcmp(name, "ttl") == 0 && number < 0) /* none */
        number = DLOCK_TTL_NONE;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(numbers[i].name, name) == 0) {
            memcpy((char *)settings + numbers[i].offset, &number, sizeof number);
            return true;
        }
    }
    if (strcmp(name, "connections") == 0)
        settings->connections = (int)number;
    else if (strcmp(name, "renew") == 0)
        settings->renew = number != 0 ? DLOCK_ON : DLOCK_OFF;
    else if (strcmp(name, "fence") == 0)
        settings->fence = tri_of_word(text);
    else if (strcmp(name, "recursive") == 0)
        settings->recursive = number != 0 ? DLOCK_ON : DLOCK_OFF;
    else if (strcmp(name, "queue") == 0)
        settings->queue = number != 0 ? DLOCK_ON : DLOCK_OFF;
    else if (strcmp(name, "open") == 0)
        settings->lazy = strcmp(text, "lazy") == 0;
    else if (strcmp(name, "handoff") == 0)
        settings->handoff = (int)number;
    else if (strcmp(name, "clock_margin") == 0)
        settings->clock_margin = (uint8_t)number;
    else if (strcmp(name, "label") == 0) {
        if (!printable(text))
            return false;
        (void)snprintf(settings->label, sizeof settings->label, "%s", text);
    }
    return true;
}

void dl_settings_init(struct dl_settings *settings)
{
    const struct dlock_option_spec *row;
    char why[DL_OPTION_WHY];

    *settings = (struct dl_settings){.limit = 1};
    for (row = dl_settings_options; row->name != NULL; row++) {
        int64_t number = 0;

        if (row->fallback != NULL && dl_option_parse(row, row->fallback, &number, why))
            (void)dl_settings_set(settings, row->name, row->fallback, number);
    }
}

enum dlock_status dl_struct_import(void *to, size_t known, const void *from, const char *what,
                                   struct dlock_error *err)
{
    uint32_t size = 0;
    enum dlock_status status;

    memset(to, 0, known);
    if (from == NULL)
        return DLOCK_OK;
    memcpy(&size, from, sizeof size);
    status = dl_struct_size_check(size, known, what, err);
    if (status == DLOCK_OK)
        memcpy(to, from, known);
    return status;
}

static enum dlock_status not_in_range(struct dlock_error *err, const char *member, int64_t value,
                                      const char *range)
{
    return dl_error(err, DLOCK_INVALID, "option %s is %lld, want %s", member, (long long)value,
                    range);
}

static enum dlock_status wait_apply(int64_t wait_ms, struct dl_settings *out,
                                    struct dlock_error *err)
{
    if (wait_ms < DLOCK_AS_OPTIONS)
        return not_in_range(err, "wait_ms", wait_ms,
                            "milliseconds, DLOCK_FOREVER or DLOCK_AS_OPTIONS");
    if (wait_ms != DLOCK_AS_OPTIONS)
        out->wait_ms = wait_ms;
    return DLOCK_OK;
}

static enum dlock_status times_apply(const struct dlock_options *options, struct dl_settings *out,
                                     struct dlock_error *err)
{
    if (options->ttl_ms != 0) {
        if (options->ttl_ms != DLOCK_TTL_NONE &&
            (options->ttl_ms < DL_TTL_MIN_MS || options->ttl_ms > DL_TTL_MAX_MS))
            return not_in_range(err, "ttl_ms", options->ttl_ms,
                                "0, 50 ms to 7 days, or DLOCK_TTL_NONE");
        out->ttl_ms = options->ttl_ms;
    }
    if (options->op_timeout_ms != 0) {
        if (options->op_timeout_ms < 10 || options->op_timeout_ms > OP_TIMEOUT_MAX_MS)
            return not_in_range(err, "op_timeout_ms", options->op_timeout_ms,
                                "0, or 10 ms to 1 hour");
        out->op_timeout_ms = options->op_timeout_ms;
    }
    if (options->max_hold_ms < 0)
        return not_in_range(err, "max_hold_ms", options->max_hold_ms, "0 or more");
    if (options->max_hold_ms != 0)
        out->max_hold_ms = options->max_hold_ms;
    return wait_apply(options->wait_ms, out, err);
}

static enum dlock_status tri_apply(const char *member, enum dlock_tri value, enum dlock_tri *out,
                                   struct dlock_error *err)
{
    if ((int)value < DLOCK_DEFAULT || (int)value > DLOCK_OFF)
        return not_in_range(err, member, (int64_t)value, "DLOCK_DEFAULT, DLOCK_ON or DLOCK_OFF");
    if (value != DLOCK_DEFAULT)
        *out = value;
    return DLOCK_OK;
}

static enum dlock_status label_apply(const char *label, struct dl_settings *out,
                                     struct dlock_error *err)
{
    if (label == NULL)
        return DLOCK_OK;
    if (strnlen(label, DL_LABEL_MAX + 1) > DL_LABEL_MAX || !printable(label))
        return dl_error(err, DLOCK_INVALID,
                        "option label is not at most %d printable ASCII characters", DL_LABEL_MAX);
    (void)snprintf(out->label, sizeof out->label, "%s", label);
    return DLOCK_OK;
}

static enum dlock_status limit_apply(const struct dlock_options *options, struct dl_settings *out,
                                     struct dlock_error *err)
{
    if (options->limit < 0 || options->limit > DLOCK_LIMIT_MAX)
        return not_in_range(err, "limit", options->limit, "0 (a lock), or 1 to 1000 permits");
    if (options->keep_ms < 0 || options->keep_ms > DL_KEEP_MAX_MS)
        return not_in_range(err, "keep_ms", options->keep_ms, "0, or at most 7 days");
    out->limit = options->limit == 0 ? 1 : (uint32_t)options->limit;
    out->keep_ms = options->keep_ms;
    return DLOCK_OK;
}

static enum dlock_status data_apply(const struct dlock_options *options, struct dl_settings *out,
                                    struct dlock_error *err)
{
    if (options->data_len > DLOCK_DATA_MAX)
        return dl_error(err, DLOCK_INVALID, "option data has %zu bytes, want at most %d",
                        options->data_len, DLOCK_DATA_MAX);
    if (options->data == NULL && options->data_len > 0)
        return dl_error(err, DLOCK_INVALID, "option data is NULL, and data_len is %zu",
                        options->data_len);
    out->data = options->data_len > 0 ? options->data : NULL;
    out->data_len = options->data_len;
    return DLOCK_OK;
}

static enum dlock_status expiry_apply(enum dlock_expire on_expiry, struct dl_settings *out,
                                      struct dlock_error *err)
{
    if ((unsigned)on_expiry > DLOCK_EXPIRE_KILL)
        return not_in_range(err, "on_expiry", (int64_t)on_expiry,
                            "DLOCK_EXPIRE_REPORT or DLOCK_EXPIRE_KILL");
    if (on_expiry == DLOCK_EXPIRE_KILL && out->renew == DLOCK_OFF)
        return dl_error(err, DLOCK_CONFIG,
                        "on_expiry: with renew=off each lease would end the process; leave renew "
                        "on, or take DLOCK_EXPIRE_REPORT");
    out->on_expiry = on_expiry;
    return DLOCK_OK;
}

enum dlock_status dl_settings_for_lock(const struct dl_settings *base,
                                       const struct dlock_options *options, struct dl_settings *out,
                                       struct dlock_error *err)
{
    static const struct dlock_options usual = DLOCK_OPTIONS_INIT;
    struct dlock_options known;
    enum dlock_status status = dl_struct_import(
        &known, sizeof known, options != NULL ? options : &usual, "dlock_options", err);

    *out = *base;
    if (status == DLOCK_OK)
        status = times_apply(&known, out, err);
    if (status == DLOCK_OK)
        status = tri_apply("renew", known.renew, &out->renew, err);
    if (status == DLOCK_OK)
        status = tri_apply("fence", known.fence, &out->fence, err);
    if (status == DLOCK_OK)
        status = tri_apply("recursive", known.recursive, &out->recursive, err);
    if (status == DLOCK_OK)
        status = tri_apply("queue", known.queue, &out->queue, err);
    if (status == DLOCK_OK)
        status = label_apply(known.label, out, err);
    if (status == DLOCK_OK && (unsigned)known.end > DLOCK_END_TTL)
        status = dl_error(err, DLOCK_INVALID, "option end is %d, want 0 to 2", (int)known.end);
    out->end = known.end;
    if (status == DLOCK_OK)
        status = expiry_apply(known.on_expiry, out, err);
    if (status == DLOCK_OK)
        status = limit_apply(&known, out, err);
    if (status == DLOCK_OK)
        status = data_apply(&known, out, err);
    out->user = known.user;
    return status;
}

int64_t dl_settings_op_timeout_ms(int64_t op_timeout_ms, int64_t ttl_ms)
{
    int64_t timeout_ms = ttl_ms / 4;

    if (op_timeout_ms != 0)
        return op_timeout_ms;
    if (timeout_ms > 2000)
        return 2000;
    return timeout_ms;
}
