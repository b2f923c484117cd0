/* SPDX-License-Identifier: MIT */
#include "holder.h"

#include "info.h"

#include <stdio.h>
#include <string.h>

/* Nobody holds the name: the one of which the time ends first. */
static void kept_describe(const struct info_list *list, char out[HOLDER_SIZE])
{
    const struct info *first = &list->items[0];
    char ran[24];
    char until[24];

    for (size_t i = 1; i < list->count; i++)
        if (list->items[i].remaining_ms < first->remaining_ms)
            first = &list->items[i];
    info_time(ran, -first->held_ms);
    info_time(until, first->remaining_ms);
    (void)snprintf(out, HOLDER_SIZE, "ran already at %s on %.300s, kept until %s", ran,
                   cli_output_printable(first->label, strlen(first->label)), until);
}

/* Somebody holds it. */
static void list_describe(const struct info_list *list, char out[HOLDER_SIZE])
{
    const struct info *first = &list->items[0];
    const char *label = first->label[0] != '\0' ? first->label : first->owner;
    char held[24];
    char left[24];
    char others[32] = "";
    bool ends;

    while (first->kept) {
        first++;
        label = first->label[0] != '\0' ? first->label : first->owner;
    }
    ends = first->remaining_ms >= 0; /* the store knows when */
    info_duration(held, first->held_ms);
    info_duration(left, first->remaining_ms);
    if (info_list_held(list) > 1)
        (void)snprintf(others, sizeof others, " and %zu more", info_list_held(list) - 1);
    (void)snprintf(out, HOLDER_SIZE, "held by %.300s%s%s%s%s%s%s",
                   cli_output_printable(label, strlen(label)), others,
                   first->held_ms >= 0 ? " for " : "", first->held_ms >= 0 ? held : "",
                   ends ? ", " : "", ends ? left : "", ends ? " left" : "");
}

bool holder_describe(struct dlock_client *client, const struct cli_name *name,
                     char out[HOLDER_SIZE])
{
    struct info_list list = {0};
    enum dlock_status status =
        dlock_client_inspect(client, name->bytes, name->len, info_list_add, &list, NULL);

    out[0] = '\0';
    if (status == DLOCK_OK && !list.no_memory && info_list_is_kept(&list))
        kept_describe(&list, out);
    else if (status == DLOCK_OK && !list.no_memory && list.count > 0)
        list_describe(&list, out);
    info_list_fini(&list);
    return out[0] != '\0';
}
