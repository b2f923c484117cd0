/* SPDX-License-Identifier: MIT */
/*
 * keys.h - the keys of etcd that a name has. Pure.
 *
 * A holder or waiter of NAME has the key PREFIX NAME "/" TOKEN, as `etcdctl lock` and Go's
 * concurrency.Mutex have them; whoever has the lowest create_revision holds the name. A slash and a
 * percent sign in a name are written "%2F" and "%25", except with key=raw.
 * The value is "" for keys of other programs, and else a mode, 'x' or 's', a blank and a label.
 */
#ifndef ETCD_KEYS_H
#define ETCD_KEYS_H

#include "config.h"

#define ETCD_TOKEN_HEX (2 * DLOCK_TOKEN_SIZE)
#define ETCD_KEY_MAX   (ETCD_PREFIX_MAX + 1 + 3 * 255 + 1 + ETCD_TOKEN_HEX)

struct etcd_keys {
    unsigned char key[ETCD_KEY_MAX + 1]; /* PREFIX NAME "/" TOKEN */
    size_t key_len, dir_len;             /* the first dir_len bytes: PREFIX NAME "/" */
    unsigned char end[ETCD_KEY_MAX + 1]; /* the end of the range of all keys of the name */
};

/* token: ETCD_TOKEN_HEX digits or another text, NULL: none (key_len is dir_len). */
void etcd_keys_make(struct etcd_keys *keys, const struct etcd_config *config, const void *name,
                    size_t name_len, const char *token);

/* The reverse, for a listing. False: not a key of a lock of this prefix. */
struct etcd_key_parts {
    unsigned char name[256];
    size_t name_len;
    const char *owner; /* points into key */
    size_t owner_len;
};
bool etcd_keys_parse(struct etcd_key_parts *parts, const struct etcd_config *config,
                     const void *key, size_t key_len);

/* True: a reader's value of ours. All others are exclusive. */
bool etcd_value_is_shared(const void *value, size_t len);
/* Writes a value to out, cut to size. Returns its length. */
size_t etcd_value_make(char *out, size_t size, enum dlock_mode mode, const char *label);

#endif
