/* SPDX-License-Identifier: MIT */
#include "queue.h"

#include "info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
