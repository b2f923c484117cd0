/* SPDX-License-Identifier: MIT */
#include "keys.h"

#include <string.h>

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

size_t etcd_keys_prefix(unsigned char *out, const struct etcd_config *config, const void *name,
                        size_t name_len)
{
    memcpy(out, config->prefix, config->prefix_len);
    return config->prefix_len + escape(out + config->prefix_len, config, name, name_len);
}

void etcd_keys_make(struct etcd_keys *keys, const struct etcd_config *config, const void *name,
                    size_t name_len, const char *token)
{
    size_t len = etcd_keys_prefix(keys->key, config, name, name_len);

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

bool etcd_keys_parse(struct etcd_key_parts *parts, const struct etcd_config *config,
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
