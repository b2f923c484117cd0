/* SPDX-License-Identifier: MIT */
#include "node.h"

#include "lib/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MOST 255
#define RESERVED  "zookeeper" /* below the root, ZooKeeper's own */

/* ---- the node of a name: key=name ---- */

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

bool zk_node_path(struct zk_path *path, const struct zk_config *config, const void *name,
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

size_t zk_node_name(unsigned char *out, const struct zk_config *config, const char *child)
{
    struct zk_path path;
    size_t len = strnlen(child, NAME_MOST + 1);

    if (config->raw && len <= NAME_MOST)
        memcpy(out, child, len);
    else if (config->raw)
        len = 0;
    else
        len = unescape(out, child);
    if (len == 0 || !zk_node_path(&path, config, out, len) ||
        strcmp(path.text + config->base_len + 1, child) != 0)
        return 0;
    return len;
}

/* ---- the nodes of contenders ---- */

#define DIGITS 10
#define LIMIT  "-l"  /* behind the token */
#define PREFIX "_c_" /* of Curator: a node that its client can find again */

/* The text before the sequence ends with one of these. */
static const struct {
    const char *text;
    bool shared;
} endings[] = {
    {"-lock-", false},  {"__lock__", false}, {"__WRIT__", false},
    {"__READ__", true}, {"__rlock__", true},
};

static const char *ending_of(enum zk_recipe recipe, enum dlock_mode mode)
{
    switch (recipe) {
    case ZK_CURATOR:
        break;
    case ZK_CURATOR_RW:
        return mode == DLOCK_SHARED ? "-__READ__" : "-__WRIT__";
    case ZK_KAZOO:
        return mode == DLOCK_SHARED ? "__rlock__" : "__lock__";
    }
    return "-lock-";
}

size_t zk_node_make(char *out, enum zk_recipe recipe, const char *parent, const char *token,
                    enum dlock_mode mode, uint32_t limit)
{
    char text[16] = "";

    if (limit > 1)
        (void)snprintf(text, sizeof text, LIMIT "%u", limit);
    return (size_t)snprintf(out, ZK_PATH_MAX + 1 + ZK_NODE_MAX, "%s/%s%s%s%s", parent,
                            recipe == ZK_KAZOO ? "" : PREFIX, token, text, ending_of(recipe, mode));
}

static bool is_number(const char *text, size_t len)
{
    return len > 0 && strspn(text, "0123456789") >= len;
}

/* The length of the text before the sequence; 0: there is no sequence. The server writes "%010d":
 * a negative number has a sign, and 10 or 11 characters with it. */
static size_t sequence_read(int64_t *sequence, const char *name, size_t len)
{
    if (len <= DIGITS)
        return 0;
    len -= DIGITS;
    if (is_number(name + len, DIGITS)) {
        *sequence = strtoll(name + len, NULL, 10);
        return len;
    }
    if (name[len] != '-' || !is_number(name + len + 1, DIGITS - 1))
        return 0;
    *sequence = strtoll(name + len, NULL, 10);
    return len;
}

/* Cuts the ending off. */
static bool ending_read(bool *shared, const char *text, size_t *len)
{
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t ending_len = strlen(endings[i].text);

        if (*len < ending_len || memcmp(text + *len - ending_len, endings[i].text, ending_len) != 0)
            continue;
        *len -= ending_len;
        *shared = endings[i].shared;
        return true;
    }
    return false;
}

/* Cuts "-l<limit>" off, which stands behind a token of ours. */
static void limit_read(struct zk_node *node)
{
    const char *text = node->owner + ZK_TOKEN_HEX + sizeof LIMIT - 1;
    unsigned long limit = 0;

    node->limit = 1;
    if (node->shared || node->owner_len < ZK_TOKEN_HEX + sizeof LIMIT ||
        memcmp(node->owner + ZK_TOKEN_HEX, LIMIT, sizeof LIMIT - 1) != 0)
        return;
    if (!is_number(text, node->owner_len - ZK_TOKEN_HEX - (sizeof LIMIT - 1)))
        return;
    limit = strtoul(text, NULL, 10);
    if (limit < 2 || limit > ZK_LIMIT_MOST)
        return;
    node->limit = (uint32_t)limit;
    node->owner_len = ZK_TOKEN_HEX;
}

static void owner_read(struct zk_node *node, const char *name, size_t len)
{
    const size_t skip = len >= sizeof PREFIX - 1 && memcmp(name, PREFIX, sizeof PREFIX - 1) == 0
                            ? sizeof PREFIX - 1
                            : 0;

    node->owner = name + skip;
    node->owner_len = len - skip;
    if (node->owner_len > 0 && node->owner[node->owner_len - 1] == '-')
        node->owner_len--;
    if (node->owner_len > 0)
        return;
    node->owner = name; /* a name without an owner: the whole of it tells contenders apart */
    node->owner_len = strlen(name);
}

bool zk_node_parse(struct zk_node *node, const char *name)
{
    size_t len = sequence_read(&node->sequence, name, strlen(name));

    if (len == 0)
        return false;
    if (!ending_read(&node->shared, name, &len)) {
        if (node->sequence < 0 || name[len - 1] != '-')
            return false;
        len--; /* the sign of a number of ten digits */
        node->sequence = -node->sequence;
        if (!ending_read(&node->shared, name, &len))
            return false;
    }
    owner_read(node, name, len);
    limit_read(node);
    return true;
}

bool zk_node_is(const struct zk_node *node, const char *token)
{
    return node->owner_len == ZK_TOKEN_HEX && memcmp(node->owner, token, ZK_TOKEN_HEX) == 0;
}
