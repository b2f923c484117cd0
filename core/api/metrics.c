/* SPDX-License-Identifier: MIT */
/* metrics.c - the numbers of a client for the application, and as OpenMetrics text (metrics.h). */
#include "api/check.h"
#include "lib/text.h"
#include "sys/error.h"
#include "sys/struct_size.h"

#include <ctype.h>
#include <dlock/metrics.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REASON_COUNT 5

#define ONE_BYTE(name, value, class_, text) char name;
struct status_bytes {
    DLOCK_STATUS_MAP(ONE_BYTE)
};
enum { STATUS_COUNT = sizeof(struct status_bytes) };
_Static_assert(STATUS_COUNT <= (int)DLOCK_STATS_STATUSES, "each status has a counter");

#define LABEL_MOST  128                   /* bytes of the value of a caller's label */
#define LABELS_SIZE 2048                  /* all of the caller's labels */
#define LINE_SIZE   (LABELS_SIZE + 1024)  /* and a class, of which each byte may become \\xHH */
#define VALUE_SIZE  (5 * LABEL_MOST + 16) /* a value with all its escapes */

/* Outcomes whose series are there from the start, so that the first one is seen as an increase. */
#define OF_STATUS(status) (UINT32_C(1) << DLOCK_##status)
#define OF_ACQUIRE                                                                \
    (OF_STATUS(OK) | OF_STATUS(BUSY) | OF_STATUS(TIMEOUT) | OF_STATUS(CANCELED) | \
     OF_STATUS(UNKNOWN) | OF_STATUS(UNAVAILABLE))
#define OF_LEASE (OF_STATUS(OK) | OF_STATUS(LOST) | OF_STATUS(UNKNOWN) | OF_STATUS(UNAVAILABLE))

static const char *const reasons[REASON_COUNT] = {NULL, "expired", "taken", "max_hold", "session"};

static void counters_add(uint64_t *to, const _Atomic uint64_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += dl_stats_get(&from[i]);
}

static void histogram_add(struct dlock_histogram *to, const struct dl_stats_histogram *from)
{
    counters_add(to->buckets, from->buckets, DLOCK_HISTOGRAM_BUCKETS);
    to->sum_us += dl_stats_get(&from->sum_ns) / 1000;
    to->count = 0;
    for (size_t i = 0; i < DLOCK_HISTOGRAM_BUCKETS; i++)
        to->count += to->buckets[i];
}

static void class_add(struct dlock_stats *to, const struct dl_stats_class *from)
{
    to->classes++;
    counters_add(to->acquisitions, from->acquisitions, DLOCK_STATS_STATUSES);
    counters_add(to->unlocks, from->unlocks, DLOCK_STATS_STATUSES);
    counters_add(to->renewals, from->renewals, DLOCK_STATS_STATUSES);
    counters_add(to->losses, from->losses, DLOCK_STATS_REASONS);
    counters_add(&to->handoffs, &from->handoffs, 1);
    counters_add(&to->unknowns, &from->unknowns, 1);
    counters_add(&to->held, &from->held, 1);
    counters_add(&to->waiting, &from->waiting, 1);
    histogram_add(&to->waits, &from->waits);
    histogram_add(&to->holds, &from->holds);
}

static void client_add(struct dlock_stats *to, const struct dlock_client *client)
{
    const struct dl_stats_class *class;

    for (unsigned i = 0; (class = dl_stats_class_at(&client->stats, i)) != NULL; i++)
        class_add(to, class);
    to->sessions_opened = dl_stats_get(&client->pool.opened);
    to->sessions_failed = dl_stats_get(&client->pool.failed);
    to->sessions_broken = dl_stats_get(&client->pool.broken);
}

enum dlock_status dlock_client_stats(const struct dlock_client *client, struct dlock_stats *out,
                                     struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = dl_check_client(client, err, &e);

    if (status == DLOCK_OK && out == NULL)
        status = dl_error(&e, DLOCK_INVALID, "out is NULL");
    if (status == DLOCK_OK)
        status = dl_struct_size_check(out->struct_size, sizeof *out, "dlock_stats", &e);
    if (status == DLOCK_OK) {
        *out = (struct dlock_stats)DLOCK_STATS_INIT;
        client_add(out, client);
    }
    return dl_error_export(err, &e, status);
}

/* A text that is being written. */
struct text {
    dlock_text_fn *fn;
    void *arg;
    bool ended; /* fn wants no more */
    const struct dlock_client *client;
    char labels[LABELS_SIZE]; /* `name="value",` of each label of the caller */
    char series[LINE_SIZE];   /* the labels of the present class */
};

__attribute__((format(printf, 2, 3))) static void line(struct text *text, const char *format, ...)
{
    char out[LINE_SIZE + 256];
    va_list args;
    int len;

    if (text->ended)
        return;
    va_start(args, format);
    len = vsnprintf(out, sizeof out, format, args);
    va_end(args);
    text->ended = text->fn(text->arg, out, (size_t)len);
}

static bool is_label_name(const char *name)
{
    static const char *const taken[] = {"class", "outcome", "reason", "event", "le"};

    if (strncmp(name, "__", 2) == 0 || (!isalpha((unsigned char)name[0]) && name[0] != '_'))
        return false;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (strcmp(name, taken[i]) == 0)
            return false;
    for (; *name != '\0'; name++)
        if (!isalnum((unsigned char)*name) && *name != '_')
            return false;
    return true;
}

/* Two labels with one name make an invalid text. */
static bool is_label_before(const char *const *labels, const char *const *label)
{
    for (; labels != label; labels += 2)
        if (strcmp(labels[0], label[0]) == 0)
            return true;
    return false;
}

static enum dlock_status labels_take(struct text *text, const char *const *labels,
                                     struct dlock_error *err)
{
    const char *const *first = labels;
    char value[VALUE_SIZE];
    char name[64];
    size_t used = 0;

    for (; labels != NULL && labels[0] != NULL; labels += 2) {
        dl_printable_mask(name, sizeof name, labels[0], strlen(labels[0]));
        if (!is_label_name(labels[0]))
            return dl_error(err, DLOCK_INVALID, "a label cannot be named '%s'", name);
        if (is_label_before(first, labels))
            return dl_error(err, DLOCK_INVALID, "the label '%s' is there twice", name);
        if (labels[1] == NULL || strlen(labels[1]) > LABEL_MOST)
            return dl_error(err, DLOCK_INVALID,
                            "the label '%s' needs a value of %d bytes at the most", name,
                            LABEL_MOST);
        (void)dl_printable_quote(value, sizeof value, labels[1], strlen(labels[1]));
        used += (size_t)snprintf(text->labels + used, sizeof text->labels - used, "%s=\"%s\",",
                                 labels[0], value);
        if (used >= sizeof text->labels)
            return dl_error(err, DLOCK_INVALID, "the labels are longer than %d bytes together",
                            LABELS_SIZE);
    }
    return DLOCK_OK;
}

/* unit: "" or that at the end of the name. */
static void family(struct text *text, const char *name, const char *type, const char *unit,
                   const char *help)
{
    line(text, "# TYPE %s %s\n", name, type);
    if (unit[0] != '\0')
        line(text, "# UNIT %s %s\n", name, unit);
    line(text, "# HELP %s %s\n", name, help);
}

/* The next class; NULL: there are no more. Sets text->series. */
static const struct dl_stats_class *class_next(struct text *text, unsigned i)
{
    const struct dl_stats_class *class = dl_stats_class_at(&text->client->stats, i);
    char value[VALUE_SIZE];

    if (class == NULL || text->ended)
        return NULL;
    (void)dl_printable_quote(value, sizeof value, class->bytes, class->len);
    (void)snprintf(text->series, sizeof text->series, "%sclass=\"%s\"", text->labels, value);
    return class;
}

static void word_lower(char out[24], const char *word)
{
    size_t n = 0;

    for (; word[n] != '\0' && n < 23; n++)
        out[n] = (char)(word[n] >= 'A' && word[n] <= 'Z' ? word[n] + ('a' - 'A') : word[n]);
    out[n] = '\0';
}

/* offset: of the counters in struct dl_stats_class. always: OF_ACQUIRE or OF_LEASE. */
static void outcomes(struct text *text, const char *name, const char *help, size_t offset,
                     uint32_t always)
{
    const struct dl_stats_class *class;
    char word[24];

    family(text, name, "counter", "", help);
    for (unsigned i = 0; (class = class_next(text, i)) != NULL; i++) {
        const _Atomic uint64_t *counters = (const void *)((const char *)class + offset);

        for (int status = 0; status < STATUS_COUNT; status++) {
            uint64_t n = dl_stats_get(&counters[status]);

            word_lower(word, dlock_status_name(status));
            if (n > 0 || (always >> status & 1) != 0)
                line(text, "%s_total{%s,outcome=\"%s\"} %" PRIu64 "\n", name, text->series, word,
                     n);
        }
    }
}

static void losses(struct text *text)
{
    const struct dl_stats_class *class;

    family(text, "dlock_losses", "counter", "", "Locks that were lost while they were held.");
    for (unsigned i = 0; (class = class_next(text, i)) != NULL; i++)
        for (int reason = 1; reason < REASON_COUNT; reason++)
            line(text, "dlock_losses_total{%s,reason=\"%s\"} %" PRIu64 "\n", text->series,
                 reasons[reason], dl_stats_get(&class->losses[reason]));
}

/* suffix: "_total" of a counter, "" of a gauge. */
static void numbers(struct text *text, const char *name, const char *suffix, const char *help,
                    size_t offset)
{
    const struct dl_stats_class *class;

    family(text, name, suffix[0] != '\0' ? "counter" : "gauge", "", help);
    for (unsigned i = 0; (class = class_next(text, i)) != NULL; i++)
        line(text, "%s%s{%s} %" PRIu64 "\n", name, suffix, text->series,
             dl_stats_get((const void *)((const char *)class + offset)));
}

/* Seconds are written without floating point: its form depends on the locale. */
static void histogram_write(struct text *text, const char *name,
                            const struct dl_stats_histogram *histogram)
{
    uint64_t count = 0;
    uint64_t us = dl_stats_get(&histogram->sum_ns) / 1000;

    for (unsigned i = 0; i < DLOCK_HISTOGRAM_BUCKETS; i++) {
        uint64_t le_us = UINT64_C(16) << i;

        count += dl_stats_get(&histogram->buckets[i]);
        if (i + 1 < DLOCK_HISTOGRAM_BUCKETS)
            line(text, "%s_bucket{%s,le=\"%" PRIu64 ".%06" PRIu64 "\"} %" PRIu64 "\n", name,
                 text->series, le_us / 1000000, le_us % 1000000, count);
    }
    line(text, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, text->series, count);
    line(text, "%s_sum{%s} %" PRIu64 ".%06" PRIu64 "\n", name, text->series, us / 1000000,
         us % 1000000);
    line(text, "%s_count{%s} %" PRIu64 "\n", name, text->series, count);
}

static void histogram(struct text *text, const char *name, const char *help, size_t offset)
{
    const struct dl_stats_class *class;

    family(text, name, "histogram", "seconds", help);
    for (unsigned i = 0; (class = class_next(text, i)) != NULL; i++)
        histogram_write(text, name, (const void *)((const char *)class + offset));
}

static void sessions(struct text *text)
{
    const struct dl_pool *pool = &text->client->pool;

    family(text, "dlock_sessions", "counter", "",
           "Connections to the store: opened, not opened because that failed, closed because an "
           "exchange failed.");
    line(text, "dlock_sessions_total{%sevent=\"opened\"} %" PRIu64 "\n", text->labels,
         dl_stats_get(&pool->opened));
    line(text, "dlock_sessions_total{%sevent=\"failed\"} %" PRIu64 "\n", text->labels,
         dl_stats_get(&pool->failed));
    line(text, "dlock_sessions_total{%sevent=\"broken\"} %" PRIu64 "\n", text->labels,
         dl_stats_get(&pool->broken));
}

#define OF(member) offsetof(struct dl_stats_class, member)

static void text_write(struct text *text)
{
    outcomes(text, "dlock_acquisitions", "Calls that acquired, by their outcome.", OF(acquisitions),
             OF_ACQUIRE);
    outcomes(text, "dlock_unlocks", "Unlocks, by their outcome.", OF(unlocks), OF_LEASE);
    outcomes(text, "dlock_renewals", "Renewals of one lease each, by their outcome.", OF(renewals),
             OF_LEASE);
    losses(text);
    numbers(text, "dlock_handoffs", "_total",
            "Acquisitions that another thread of the client handed on, without the store.",
            OF(handoffs));
    numbers(text, "dlock_unknown_exchanges", "_total",
            "Exchanges with the store that ended without a conclusive answer.", OF(unknowns));
    numbers(text, "dlock_held", "", "Locks that are held now.", OF(held));
    numbers(text, "dlock_waiting", "", "Calls that acquire now.", OF(waiting));
    histogram(text, "dlock_wait_seconds", "Time from the call to the grant.", OF(waits));
    histogram(text, "dlock_hold_seconds", "Time from the grant to the unlock or the loss.",
              OF(holds));
    sessions(text);
    line(text, "# EOF\n");
}

enum dlock_status dlock_client_metrics(const struct dlock_client *client, const char *const *labels,
                                       dlock_text_fn *fn, void *arg, struct dlock_error *err)
{
    struct dlock_error e;
    struct text text = {.fn = fn, .arg = arg, .client = client};
    enum dlock_status status = dl_check_client(client, err, &e);

    if (status == DLOCK_OK && fn == NULL)
        status = dl_error(&e, DLOCK_INVALID, "the callback is NULL");
    if (status == DLOCK_OK)
        status = labels_take(&text, labels, &e);
    if (status == DLOCK_OK)
        text_write(&text);
    return dl_error_export(err, &e, status);
}
