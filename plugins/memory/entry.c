/* SPDX-License-Identifier: MIT */
#include "entry.h"

#include "lib/time.h"

#include <stdlib.h>
#include <string.h>

struct memory_entry *memory_entry_new(const struct dlock_request *req)
{
    size_t label_len = req->label == NULL ? 0 : strnlen(req->label, MEMORY_LABEL_MAX);
    uint32_t data_len = 0;
    const unsigned char *data = dlock_request_data(req, &data_len);
    struct memory_entry *entry = NULL;

    if (data_len > DLOCK_DATA_MAX)
        data_len = 0;
    entry = calloc(1, sizeof *entry + label_len + 1 + data_len);
    if (entry == NULL)
        return NULL;
    memcpy(entry->token, req->token, sizeof entry->token);
    entry->mode = req->mode;
    entry->limit = dlock_request_limit(req);
    if (label_len > 0)
        memcpy(entry->label, req->label, label_len);
    if (data_len > 0) {
        entry->data = (unsigned char *)entry->label + label_len + 1;
        entry->data_len = data_len;
        memcpy(entry->data, data, data_len);
    }
    return entry;
}

void memory_entry_append(struct memory_entry **list, struct memory_entry *entry)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = entry;
    entry->next = NULL;
}

struct memory_entry *memory_entry_find(struct memory_entry *list, const unsigned char *token)
{
    while (list != NULL && memcmp(list->token, token, DLOCK_TOKEN_SIZE) != 0)
        list = list->next;
    return list;
}

void memory_entry_remove(struct memory_entry **list, struct memory_entry *entry)
{
    while (*list != entry)
        list = &(*list)->next;
    *list = entry->next;
    free(entry);
}

void memory_entry_reap(struct memory_entry **list, int64_t now_ns)
{
    while (*list != NULL) {
        struct memory_entry *entry = *list;

        if (entry->expires_ns <= now_ns)
            memory_entry_remove(list, entry);
        else
            list = &entry->next;
    }
}

void memory_entry_extend(struct memory_entry *entry, int64_t lease_ms, int64_t now_ns)
{
    int64_t expires_ns = now_ns + lease_ms * DL_NS_PER_MS;

    if (expires_ns > entry->expires_ns)
        entry->expires_ns = expires_ns;
}

int64_t memory_entry_left_ms(const struct memory_entry *entry, int64_t now_ns)
{
    return (entry->expires_ns - now_ns + DL_NS_PER_MS - 1) / DL_NS_PER_MS;
}
