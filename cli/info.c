/* SPDX-License-Identifier: MIT */
#include "info.h"
#include "lib/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool list_grow(struct info_list *list)
{
    size_t room = list->room == 0 ? 16 : 2 * list->room;
    struct info *items = reallocarray(list->items, room, sizeof *items);

    if (items == NULL)
        return false;
    list->items = items;
    list->room = room;
    return true;
}

/* False: no memory. */
static bool data_copy(struct info *item, const struct dlock_holder *info)
{
    if (info->data_len == 0)
        return true;
    item->data = malloc(info->data_len);
    if (item->data == NULL)
        return false;
    memcpy(item->data, info->data, info->data_len);
    item->data_len = info->data_len;
    return true;
}

bool info_list_add(void *arg, const struct dlock_holder *info)
{
    struct info_list *list = arg;
    struct info *item;

    if (list->count == list->room && !list_grow(list))
        goto no_memory;
    item = &list->items[list->count];
    *item = (struct info){
        .name_len = info->name_len < sizeof item->name ? info->name_len : sizeof item->name,
        .mode = info->mode,
        .waiters = info->waiters,
        .fence = info->fence,
        .remaining_ms = info->remaining_ms,
        .held_ms = info->held_ms,
        .limit = info->limit,
        .permit = info->permit,
        .kept = info->kept,
        .owner = strdup(info->owner != NULL ? info->owner : ""),
        .label = strdup(info->label != NULL ? info->label : ""),
    };
    memcpy(item->name, info->name, item->name_len);
    list->count++;
    if (data_copy(item, info) && item->owner != NULL && item->label != NULL)
        return 0;
no_memory:
    list->no_memory = true;
    return 1;
}

static int info_compare(const void *left, const void *right)
{
    const struct info *a = left;
    const struct info *b = right;
    size_t len = a->name_len < b->name_len ? a->name_len : b->name_len;
    int order = memcmp(a->name, b->name, len);

    if (order != 0)
        return order;
    if (a->name_len != b->name_len)
        return a->name_len < b->name_len ? -1 : 1;
    return (a->fence > b->fence) - (a->fence < b->fence);
}

void info_list_sort(struct info_list *list)
{
    if (list->count > 1)
        qsort(list->items, list->count, sizeof *list->items, info_compare);
}

void info_list_fini(struct info_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].owner);
        free(list->items[i].label);
        free(list->items[i].data);
    }
    free(list->items);
    *list = (struct info_list){0};
}

const char *info_mode(const struct info *info)
{
    return info->mode == DLOCK_SHARED ? "shared" : "exclusive";
}

const char *info_data(const struct info *info)
{
    return info->data_len > 0 ? cli_output_printable(info->data, info->data_len) : "";
}

bool info_list_has_data(const struct info_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].data_len > 0)
            return true;
    return false;
}

size_t info_list_held(const struct info_list *list)
{
    size_t held = 0;

    for (size_t i = 0; i < list->count; i++)
        held += !list->items[i].kept;
    return held;
}

bool info_list_is_kept(const struct info_list *list)
{
    return list->count > 0 && info_list_held(list) == 0;
}

/* The data as text, null if they are not UTF-8, and in hex. */
static json_t *data_json(const struct info *info, bool hex)
{
    char digits[2 * DLOCK_DATA_MAX + 1];
    json_t *text = NULL;

    if (info->data_len > 0 && !hex)
        text = json_stringn((const char *)info->data, info->data_len);
    if (info->data_len > 0 && hex) {
        dl_hex_encode(digits, info->data, info->data_len);
        text = json_string(digits);
    }
    return text != NULL ? text : json_null();
}

json_t *info_json(const struct info *info)
{
    bool limited = info->limit > 0;

    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "owner",
                     cli_output_json_text(info->owner), "mode", info_mode(info), "label",
                     cli_output_json_text(info->label), "fence",
                     cli_output_json_number(info->fence, info->fence != 0), "remaining_ms",
                     json_integer(info->remaining_ms), "held_ms",
                     cli_output_json_number((uint64_t)info->held_ms, info->held_ms >= 0), "limit",
                     cli_output_json_number(info->limit, limited), "permit",
                     cli_output_json_number(info->permit, limited), "kept", (int)info->kept, "data",
                     data_json(info, false), "data_hex", data_json(info, true));
}

void info_time(char out[24], int64_t ms)
{
    struct timespec now;
    struct tm tm;
    time_t seconds;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    seconds = (time_t)(((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + ms) / 1000);
    out[0] = '\0';
    if (gmtime_r(&seconds, &tm) != NULL)
        (void)strftime(out, 24, "%Y-%m-%d %H:%M:%S UTC", &tm);
}

void info_duration(char out[24], int64_t ms)
{
    int64_t s = ms / 1000;

    if (ms < 0)
        (void)snprintf(out, 24, "-");
    else if (s < 60)
        (void)snprintf(out, 24, "%" PRId64 ".%" PRId64 "s", s, ms % 1000 / 100);
    else if (s < 3600)
        (void)snprintf(out, 24, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    else if (s < 86400)
        (void)snprintf(out, 24, "%" PRId64 "h%02" PRId64 "m", s / 3600, s % 3600 / 60);
    else
        (void)snprintf(out, 24, "%" PRId64 "d%02" PRId64 "h", s / 86400, s % 86400 / 3600);
}

void info_number(char out[24], uint64_t value, bool known)
{
    if (known)
        (void)snprintf(out, 24, "%" PRIu64, value);
    else
        (void)snprintf(out, 24, "-");
}

bool queue_add(void *arg, const struct dlock_waiter *waiter)
{
    struct queue *queue = arg;
    struct queue_waiter copy = {.mode = waiter->mode, .waited_ms = waiter->waited_ms};

    if (queue->count == queue->room) {
        size_t room = queue->room == 0 ? 16 : 2 * queue->room;
        struct queue_waiter *items = reallocarray(queue->items, room, sizeof *items);

        if (items != NULL) {
            queue->items = items;
            queue->room = room;
        }
    }
    copy.owner = strdup(waiter->owner);
    copy.label = strdup(waiter->label);
    if (copy.owner == NULL || copy.label == NULL || queue->count == queue->room) {
        free(copy.owner);
        free(copy.label);
        queue->no_memory = true;
        return true;
    }
    queue->items[queue->count++] = copy;
    return false;
}

void queue_fini(struct queue *queue)
{
    for (size_t i = 0; i < queue->count; i++) {
        free(queue->items[i].owner);
        free(queue->items[i].label);
    }
    free(queue->items);
    *queue = (struct queue){0};
}

static const char *mode_word(const struct queue_waiter *waiter)
{
    return waiter->mode == DLOCK_SHARED ? "shared" : "exclusive";
}

json_t *queue_json(const struct queue *queue)
{
    json_t *array = json_array();

    for (size_t i = 0; i < queue->count; i++) {
        const struct queue_waiter *waiter = &queue->items[i];
        json_t *object = json_pack("{s:I, s:s, s:s}", "position", (json_int_t)i, "mode",
                                   mode_word(waiter), "owner", waiter->owner);

        (void)json_object_set_new(object, "label", cli_output_json_text(waiter->label));
        (void)json_object_set_new(
            object, "waited_ms",
            cli_output_json_number((uint64_t)waiter->waited_ms, waiter->waited_ms >= 0));
        (void)json_array_append_new(array, object);
    }
    return array;
}

void queue_print(const struct queue *queue)
{
    for (size_t i = 0; i < queue->count; i++) {
        const struct queue_waiter *waiter = &queue->items[i];
        char waited[24];

        info_duration(waited, waiter->waited_ms);
        (void)printf("waiter %-3zu %s, %s, waits %s\n", i,
                     waiter->label[0] != '\0'
                         ? cli_output_printable(waiter->label, strlen(waiter->label))
                         : "-",
                     mode_word(waiter), waited);
    }
}
