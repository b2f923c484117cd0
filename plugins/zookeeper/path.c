/* SPDX-License-Identifier: MIT */
#include "path.h"

#include "lib/hex.h"
#include "node.h"

#include <string.h>

#define NAME_MOST 255
#define RESERVED  "zookeeper" /* below the root, ZooKeeper's own */

/* ---- key=name ---- */

static bool is_plain(unsigned char byte)
{
    return byte > 0x1F && byte <= 0x7E && byte != '/' && byte != '%';
}

/* The first byte must not be itself, or the name would be no name of a node, or not ours. */
static bool is_special(const struct zk_config *config, const unsigned char *name, size_t len)
{
    return (len == 1 && name[0] == '.') || (len == 2 && memcmp(name, "..", 2) == 0) ||
           (config->base_len == 0 && len == sizeof RESERVED - 1 &&
            memcmp(name, RESERVED, len) == 0);
}

/* Returns the length. out: 3 * len bytes. */
static size_t escape(char *out, const struct zk_config *config, const unsigned char *name,
                     size_t len)
{
    static const char digits[] = "0123456789ABCDEF";
    const bool special = is_special(config, name, len);
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        if (is_plain(name[i]) && !(special && i == 0)) {
            out[used++] = (char)name[i];
        } else {
            out[used++] = '%';
            out[used++] = digits[name[i] >> 4];
            out[used++] = digits[name[i] & 0xF];
        }
    }
    return used;
}

/* The reverse. Returns the length; 0: too long, or no such text. out: NAME_MOST bytes. */
static size_t unescape(unsigned char *out, const char *text)
{
    size_t used = 0;

    while (*text != '\0') {
        const int byte = *text == '%' ? dl_hex_byte(text + 1) : (unsigned char)*text;

        if (byte < 0 || used == NAME_MOST)
            return 0;
        out[used++] = (unsigned char)byte;
        text += *text == '%' ? 3 : 1;
    }
    return used;
}

/* ---- key=raw ---- */

/* The code point at text, and its length in *len; -1: no UTF-8, or one that needs more than 3
 * bytes, which ZooKeeper sees as a pair that it does not take. */
static long code_point(const unsigned char *text, size_t left, size_t *len)
{
    const unsigned first = text[0];
    long code = 0;

    *len = first < 0x80 ? 1 : first < 0xE0 ? 2 : 3;
    if ((first >= 0x80 && first < 0xC2) || first >= 0xF0 || *len > left)
        return -1;
    code = *len == 1 ? (long)first : *len == 2 ? (long)(first & 0x1F) : (long)(first & 0xF);
    for (size_t i = 1; i < *len; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return -1;
        code = code << 6 | (text[i] & 0x3F);
    }
    return *len == 3 && code < 0x800 ? -1 : code;
}

/* As the servers do (PathUtils.validatePath). */
static bool is_taken(long code)
{
    return code > 0x1F && !(code >= 0x7F && code <= 0x9F) && !(code >= 0xD800 && code <= 0xF8FF) &&
           code < 0xFFF0;
}

static bool is_text(const unsigned char *text, size_t len)
{
    size_t step = 0;

    for (size_t i = 0; i < len; i += step)
        if (!is_taken(code_point(text + i, len - i, &step)))
            return false;
    return true;
}

/* A part of a raw name. Behind the first one, it must not look like the node of a contender: it
 * would be one of the name that is above it. */
static bool is_part(const struct zk_config *config, const unsigned char *part, size_t len,
                    bool first)
{
    char name[NAME_MOST + 1];
    struct zk_node node;

    if (len == 0 || (len == 1 && part[0] == '.') || (len == 2 && memcmp(part, "..", 2) == 0))
        return false;
    memcpy(name, part, len);
    name[len] = '\0';
    if (first)
        return config->base_len > 0 || strcmp(name, RESERVED) != 0;
    return !zk_node_parse(&node, name);
}

static bool is_raw(const struct zk_config *config, const unsigned char *name, size_t len)
{
    size_t from = 0;

    if (len > NAME_MOST || !is_text(name, len))
        return false;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && name[i] != '/')
            continue;
        if (!is_part(config, name + from, i - from, from == 0))
            return false;
        from = i + 1;
    }
    return true;
}

/* ---- both ---- */

bool zk_path_make(struct zk_path *path, const struct zk_config *config, const void *name,
                  size_t name_len)
{
    char *out = path->text + config->base_len + 1;

    memcpy(path->text, config->base, config->base_len);
    path->text[config->base_len] = '/';
    if (!config->raw) {
        path->len = config->base_len + 1 + escape(out, config, name, name_len);
    } else {
        if (!is_raw(config, name, name_len))
            return false;
        memcpy(out, name, name_len);
        path->len = config->base_len + 1 + name_len;
    }
    path->text[path->len] = '\0';
    return true;
}

size_t zk_path_name(unsigned char *out, const struct zk_config *config, const char *child)
{
    struct zk_path path;
    size_t len = strlen(child);

    if (config->raw && len <= NAME_MOST)
        memcpy(out, child, len);
    else if (config->raw)
        len = 0;
    else
        len = unescape(out, child);
    if (len == 0 || !zk_path_make(&path, config, out, len) ||
        strcmp(path.text + config->base_len + 1, child) != 0)
        return 0;
    return len;
}
