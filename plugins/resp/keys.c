/* SPDX-License-Identifier: MIT */
#include "resp/keys.h"
#include "lib/text.h"
#include "resp/error.h"

#include <string.h>

static const char *const ends[RESP_KEY_COUNT] = {"", ":m"};
static const char *const others[RESP_OTHERS_COUNT] = {":r", ":q", ":w"}; /* name_at in queue.lua */

static bool plain(unsigned char byte)
{
    return byte > ' ' && byte <= '~' && byte != '%' && byte != '{' && byte != '}';
}

static size_t escape(char *out, const unsigned char *name, uint32_t len)
{
    static const char digits[] = "0123456789ABCDEF";
    char *at = out;

    for (uint32_t i = 0; i < len; i++) {
        if (plain(name[i])) {
            *at++ = (char)name[i];
        } else {
            *at++ = '%';
            *at++ = digits[name[i] >> 4];
            *at++ = digits[name[i] & 15];
        }
    }
    return (size_t)(at - out);
}

void resp_keys_make(struct resp_keys *keys, const struct resp_config *config,
                    const unsigned char *name, uint32_t name_len)
{
    char *base = keys->bytes[0];
    size_t len = strlen(config->prefix);

    memcpy(base, config->prefix, len);
    base[len++] = '{';
    len += escape(base + len, name, name_len);
    base[len++] = '}';
    keys->lens[0] = len;
    for (size_t i = 1; i < RESP_KEY_COUNT; i++) {
        memcpy(keys->bytes[i], base, len);
        memcpy(keys->bytes[i] + len, ends[i], 2);
        keys->lens[i] = len + 2;
    }
    keys->raw = config->raw ? (const char *)name : NULL;
    keys->raw_len = name_len;
    keys->all = config->all_keys;
}

size_t resp_keys_other(char out[RESP_KEY_MAX], const struct resp_keys *keys, size_t i)
{
    size_t len = keys->lens[0], end_len = strlen(others[i]);

    memcpy(out, keys->bytes[0], len);
    memcpy(out + len, others[i], end_len);
    return len + end_len;
}

/* Braces: keys of a name; an exclamation mark: plugins/redis/guard/guard.c. */
static bool is_ours(const struct resp_config *config, const unsigned char *name, uint32_t name_len)
{
    size_t len = strlen(config->prefix);

    return config->raw && name_len > len && memcmp(name, config->prefix, len) == 0 &&
           (name[len] == '{' || name[len] == '!');
}

/* The name stands in the braces of our keys as it is: a cluster hashes the same bytes. */
static bool is_plain(const unsigned char *name, uint32_t name_len)
{
    for (uint32_t i = 0; i < name_len; i++)
        if (!plain(name[i]))
            return false;
    return true;
}

enum dlock_status resp_keys_refuse(const struct resp_config *config, const unsigned char *name,
                                   uint32_t name_len, struct dlock_error *err)
{
    if (config->raw && config->all_keys && !is_plain(name, name_len))
        return resp_error_fail(
            config, err, DLOCK_INVALID,
            "key=raw on a cluster: a name may have no spaces, %%, { or }, and no "
            "bytes beyond ASCII");
    if (!is_ours(config, name, name_len))
        return DLOCK_OK;
    return resp_error_fail(config, err, DLOCK_INVALID,
                           "key=raw: a name may not begin with %s{ or %s!", config->prefix,
                           config->prefix);
}

static size_t escape_glob(char *out, const char *text, size_t len)
{
    char *at = out;

    for (size_t i = 0; i < len; i++) {
        if (text[i] != '\0' && strchr("*?[]^-\\", text[i]) != NULL)
            *at++ = '\\';
        *at++ = text[i];
    }
    return (size_t)(at - out);
}

size_t resp_keys_pattern(char *pattern, const struct resp_config *config,
                         const unsigned char *prefix, uint32_t prefix_len)
{
    char begin[RESP_KEY_MAX];
    size_t len = 0;

    if (config->raw) {
        memcpy(begin, prefix, prefix_len);
        len = prefix_len;
    } else {
        len = strlen(config->prefix);
        memcpy(begin, config->prefix, len);
        begin[len++] = '{';
        len += escape(begin + len, prefix, prefix_len);
    }
    len = escape_glob(pattern, begin, len);
    pattern[len] = '*';
    pattern[len + 1] = '\0';
    return len + 1;
}

static bool unescape(const char *text, size_t len, unsigned char *name, uint32_t *name_len)
{
    uint32_t count = 0;

    for (size_t i = 0; i < len; i++) {
        int byte = 0;

        if (count == RESP_NAME_MAX)
            return false;
        if (plain((unsigned char)text[i])) {
            name[count++] = (unsigned char)text[i];
            continue;
        }
        if (text[i] != '%' || i + 2 >= len)
            return false;
        byte = dl_hex_byte(text + i + 1);
        if (byte < 0)
            return false;
        name[count++] = (unsigned char)byte;
        i += 2;
    }
    *name_len = count;
    return count > 0;
}

bool resp_keys_name(const struct resp_config *config, const char *key, size_t len,
                    unsigned char *name, uint32_t *name_len)
{
    size_t prefix_len = strlen(config->prefix);

    if (config->raw) {
        if (len == 0 || len > RESP_NAME_MAX)
            return false;
        memcpy(name, key, len);
        *name_len = (uint32_t)len;
        return !is_ours(config, name, *name_len);
    }
    if (len > 2 && memcmp(key + len - 2, ":r", 2) == 0)
        len -= 2;
    if (len < prefix_len + 3 || memcmp(key, config->prefix, prefix_len) != 0 ||
        key[prefix_len] != '{' || key[len - 1] != '}')
        return false;
    return unescape(key + prefix_len + 1, len - prefix_len - 2, name, name_len);
}
