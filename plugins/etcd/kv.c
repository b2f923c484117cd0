/* SPDX-License-Identifier: MIT */
#include "kv.h"

#include <dlock/plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ---- */

#define SLASH   "%2F"
#define PERCENT "%25"

/* Writes bytes of a name to out, which has room for 3 * len. Returns the length. */
static size_t escape(unsigned char *out, const struct etcd_config *config,
                     const unsigned char *name, size_t len)
{
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        const char *escaped = name[i] == '/' ? SLASH : name[i] == '%' ? PERCENT : NULL;

        if (escaped == NULL || config->raw) {
            out[used++] = name[i];
        } else {
            memcpy(out + used, escaped, 3);
            used += 3;
        }
    }
    return used;
}

size_t etcd_kv_prefix(unsigned char *out, const struct etcd_config *config, const void *name,
                      size_t name_len)
{
    memcpy(out, config->prefix, config->prefix_len);
    return config->prefix_len + escape(out + config->prefix_len, config, name, name_len);
}

void etcd_kv_keys(struct etcd_keys *keys, const struct etcd_config *config, const void *name,
                  size_t name_len, const char *token)
{
    size_t len = etcd_kv_prefix(keys->key, config, name, name_len);

    memcpy(keys->end, keys->key, len);
    keys->end[len] = '/' + 1;
    keys->key[len++] = '/';
    keys->dir_len = len;
    if (token != NULL) {
        size_t token_len = strlen(token);

        if (token_len > ETCD_TOKEN_HEX)
            token_len = ETCD_TOKEN_HEX;
        memcpy(keys->key + len, token, token_len);
        len += token_len;
    }
    keys->key_len = len;
}

/* The reverse of escape, into parts. */
static bool unescape(struct etcd_key_parts *parts, const struct etcd_config *config,
                     const char *text, size_t len)
{
    parts->name_len = 0;
    for (size_t i = 0; i < len; i++) {
        char byte = text[i];

        if (byte == '%' && !config->raw) {
            if (len - i < 3)
                return false;
            if (memcmp(text + i, SLASH, 3) == 0)
                byte = '/';
            else if (memcmp(text + i, PERCENT, 3) != 0)
                return false;
            i += 2;
        }
        if (parts->name_len == sizeof parts->name - 1)
            return false;
        parts->name[parts->name_len++] = (unsigned char)byte;
    }
    return parts->name_len > 0;
}

bool etcd_kv_parse_key(struct etcd_key_parts *parts, const struct etcd_config *config,
                       const void *key, size_t key_len)
{
    const char *text = (const char *)key + config->prefix_len;
    const char *slash = NULL;
    size_t len = key_len - config->prefix_len;

    if (key_len < config->prefix_len || memcmp(key, config->prefix, config->prefix_len) != 0)
        return false;
    slash = config->raw ? memrchr(text, '/', len) : memchr(text, '/', len);
    if (slash == NULL)
        return false;
    parts->owner = slash + 1;
    parts->owner_len = len - (size_t)(slash + 1 - text);
    return unescape(parts, config, text, (size_t)(slash - text));
}

/* ---- values ---- */

#define MODE_SIZE   2  /* of the mode and the blank */
#define NUMBER_MOST 16 /* of the text before a semaphore's label */
#define SEMAPHORE   "\xff"
#define BEHIND_KEPT "l" /* after "k", and before the letters of holders and waiters */

/* "\xffN w LABEL" and its like. False: it is another text. */
static bool semaphore_parse(struct etcd_value *value, const char *bytes, size_t len)
{
    char text[NUMBER_MOST + 1] = {0};
    const size_t text_len = len < NUMBER_MOST ? len : NUMBER_MOST;
    char state = 0, *end = NULL;
    unsigned long limit = 0, permit = 0;

    memcpy(text, bytes, text_len);
    if (text_len < 2 || text[0] != SEMAPHORE[0] || text[1] < '1' || text[1] > '9')
        return false;
    limit = strtoul(text + 1, &end, 10);
    if (limit > ETCD_LIMIT_MOST || *end != ' ')
        return false;
    state = end[1];
    if (state != 'w' && state != 'p' && state != 'k')
        return false;
    end += 2;
    if (state != 'w' && (*end < '0' || *end > '9'))
        return false;
    if (state != 'w')
        permit = strtoul(end, &end, 10);
    if (*end != ' ' || permit >= limit)
        return false;
    value->foreign = false;
    value->waits = state == 'w';
    value->kept = state == 'k';
    value->limit = (uint32_t)limit;
    value->permit = (uint32_t)permit;
    value->label = bytes + (end + 1 - text);
    value->label_len = len - (size_t)(end + 1 - text);
    return true;
}

void etcd_kv_parse(struct etcd_value *value, const void *bytes, size_t len)
{
    const char *text = bytes;

    *value = (struct etcd_value){.foreign = true, .limit = 1, .label = ""};
    if (len < MODE_SIZE || semaphore_parse(value, text, len))
        return;
    if (text[1] != ' ' || (text[0] != 'x' && text[0] != 's' && text[0] != 'k'))
        return;
    value->foreign = false;
    value->shared = text[0] == 's';
    value->kept = text[0] == 'k';
    value->label = text + MODE_SIZE;
    value->label_len = len - MODE_SIZE;
}

bool etcd_kv_is_shared(const void *value, size_t len)
{
    return len >= MODE_SIZE && memcmp(value, "s ", MODE_SIZE) == 0;
}

static size_t cut(int len, size_t size)
{
    return len < 0 ? 0 : (size_t)len < size ? (size_t)len : size - 1;
}

size_t etcd_kv_make(char *out, size_t size, enum dlock_mode mode, const char *label)
{
    return cut(
        snprintf(out, size, "%c %s", mode == DLOCK_SHARED ? 's' : 'x', label != NULL ? label : ""),
        size);
}

size_t etcd_kv_make_waiter(char *out, size_t size, uint32_t limit, const char *label)
{
    return cut(snprintf(out, size, SEMAPHORE "%u w %s", limit, label != NULL ? label : ""), size);
}

size_t etcd_kv_make_permit(char *out, size_t size, uint32_t limit, uint32_t permit,
                           const char *label)
{
    return cut(
        snprintf(out, size, SEMAPHORE "%u p%u %s", limit, permit, label != NULL ? label : ""),
        size);
}

size_t etcd_kv_make_kept(char *out, size_t size, uint32_t limit, uint32_t permit, const char *label)
{
    if (label == NULL)
        label = "";
    return limit == 1 ? cut(snprintf(out, size, "k %s", label), size)
                      : cut(snprintf(out, size, SEMAPHORE "%u k%u %s", limit, permit, label), size);
}

size_t etcd_kv_add_data(char out[ETCD_VALUE_SIZE], size_t len, const struct dlock_request *req)
{
    const uint32_t data_len = req->data_len;

    if (data_len == 0 || data_len > DLOCK_DATA_MAX || len + 1 + data_len > ETCD_VALUE_SIZE)
        return len;
    out[len] = '\0';
    memcpy(out + len + 1, req->data, data_len);
    return len + 1 + data_len;
}

void etcd_kv_data(struct dlock_holder *holder, const struct etcd_value *value)
{
    const size_t label_len = strnlen(value->label, value->label_len);

    if (value->kept || label_len + 1 >= value->label_len)
        return;
    holder->data = value->label + label_len + 1;
    holder->data_len = (uint32_t)(value->label_len - label_len - 1);
}

void etcd_kv_label(char *out, size_t size, const void *value, size_t len)
{
    struct etcd_value parsed;
    size_t label_len = 0;

    etcd_kv_parse(&parsed, value, len);
    label_len = parsed.label_len < size ? parsed.label_len : size - 1;
    if (label_len > 0)
        memcpy(out, parsed.label, label_len);
    out[label_len] = '\0';
}

void etcd_kv_edges(char low[ETCD_EDGE_SIZE], char high[ETCD_EDGE_SIZE], uint32_t limit)
{
    if (limit == 1) {
        low[0] = '\0';
        (void)snprintf(high, ETCD_EDGE_SIZE, SEMAPHORE);
        return;
    }
    (void)snprintf(low, ETCD_EDGE_SIZE, SEMAPHORE "%u", limit % 10000);
    (void)snprintf(high, ETCD_EDGE_SIZE, SEMAPHORE "%u!", limit % 10000);
}

void etcd_kv_claim_edges(char low[ETCD_EDGE_SIZE], char high[ETCD_EDGE_SIZE], uint32_t limit)
{
    etcd_kv_edges(low, high, limit);
    if (limit == 1)
        (void)snprintf(low, ETCD_EDGE_SIZE, BEHIND_KEPT);
    else
        (void)snprintf(low, ETCD_EDGE_SIZE, SEMAPHORE "%u " BEHIND_KEPT, limit % 10000);
}
