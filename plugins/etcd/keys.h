/* SPDX-License-Identifier: MIT */
/*
 * keys.h - the keys of etcd that a name has. Pure.
 *
 * A holder or waiter of NAME has the key PREFIX NAME "/" TOKEN, as `etcdctl lock` and Go's
 * concurrency.Mutex have them. The key with the least create_revision holds the name. A slash and a
 * percent sign in a name are written "%2F" and "%25", except with key=raw.
 */
#ifndef ETCD_KEYS_H
#define ETCD_KEYS_H

#include "config.h"

#define ETCD_TOKEN_HEX (2 * DLOCK_TOKEN_SIZE)
#define ETCD_KEY_MAX   (ETCD_PREFIX_MAX + 1 + 3 * 255 + 1 + ETCD_TOKEN_HEX)

struct etcd_keys {
    unsigned char key[ETCD_KEY_MAX + 1]; /* PREFIX NAME "/" TOKEN */
    size_t key_len, dir_len;             /* the first dir_len bytes: PREFIX NAME "/" */
    unsigned char
        end[ETCD_KEY_MAX + 1]; /* dir_len bytes: the end of the range of the name's keys */
};

/* token: ETCD_TOKEN_HEX digits, NULL: none (key_len is dir_len). */
void etcd_keys_make(struct etcd_keys *keys, const struct etcd_config *config, const void *name,
                    size_t name_len, const char *token);

/* What the keys begin with whose names begin with name. out: ETCD_KEY_MAX bytes. Returns the
 * length. */
size_t etcd_keys_prefix(unsigned char *out, const struct etcd_config *config, const void *name,
                        size_t name_len);

/* The name and the owner of a key, for a listing. */
struct etcd_key_parts {
    unsigned char name[256];
    size_t name_len;
    const char *owner; /* points into key */
    size_t owner_len;
};
/* False: not a key of a lock of this prefix. */
bool etcd_keys_parse(struct etcd_key_parts *parts, const struct etcd_config *config,
                     const void *key, size_t key_len);

#endif
