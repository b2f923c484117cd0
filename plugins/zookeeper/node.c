/* SPDX-License-Identifier: MIT */
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
