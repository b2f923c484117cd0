/* SPDX-License-Identifier: MIT */
/*
 * kv.h - the keys that a name has in the cluster, and their values. Pure.
 *
 * A holder or waiter of NAME has the key PREFIX NAME "/" TOKEN, as `etcdctl lock` and Go's
 * concurrency.Mutex have them. The key with the least create_revision holds the name. A slash and a
 * percent sign in a name are written "%2F" and "%25", except with key=raw.
 *
 * The value of a key:
 *
 * x LABEL      a writer, or a waiter that wants to be one
 * s LABEL      a reader
 * k LABEL      a name that is kept: nobody holds it
 * \xffN w LABEL, \xffN pM LABEL, \xffN kM LABEL
 *              a semaphore of N: a waiter; the holder of permit M; permit M, which is kept
 *
 * Behind a LABEL may be a NUL and what the holder publishes, up to 1,024 bytes of any value.
 *
 * Keys of other programs have other values, mostly "". They are writers. No value but a
 * semaphore's begins with the byte 0xff: comparisons of etcd tell the limits of keys apart.
 */
#ifndef ETCD_KV_H
#define ETCD_KV_H

#include "config.h"

#include <dlock/plugin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETCD_TOKEN_HEX (2 * DLOCK_TOKEN_SIZE)
#define ETCD_KEY_MAX   (ETCD_PREFIX_MAX + 1 + 3 * 255 + 1 + ETCD_TOKEN_HEX)

struct etcd_keys {
    unsigned char key[ETCD_KEY_MAX + 1]; /* PREFIX NAME "/" TOKEN */
    size_t key_len, dir_len;             /* the first dir_len bytes: PREFIX NAME "/" */
    unsigned char
        end[ETCD_KEY_MAX + 1]; /* dir_len bytes: the end of the range of the name's keys */
};

/* token: ETCD_TOKEN_HEX digits, NULL: none (key_len is dir_len). */
void etcd_kv_keys(struct etcd_keys *keys, const struct etcd_config *config, const void *name,
                  size_t name_len, const char *token);

/* What the keys begin with whose names begin with name. out: ETCD_KEY_MAX bytes. Returns the
 * length. */
size_t etcd_kv_prefix(unsigned char *out, const struct etcd_config *config, const void *name,
                      size_t name_len);

/* The name and the owner of a key, for a listing. */
struct etcd_key_parts {
    unsigned char name[256];
    size_t name_len;
    const char *owner; /* points into key */
    size_t owner_len;
};

/* False: not a key of a lock of this prefix. */
bool etcd_kv_parse_key(struct etcd_key_parts *parts, const struct etcd_config *config,
                       const void *key, size_t key_len);

#define ETCD_VALUE_SIZE 1536 /* longer labels are cut */
#define ETCD_LIMIT_MOST 1000
#define ETCD_EDGE_SIZE  8 /* of a text that values are compared with */

struct etcd_value {
    bool foreign; /* another program's */
    bool shared;  /* a reader's. All others are exclusive */
    bool waits;   /* of a semaphore: has no permit yet */
    bool kept;
    uint32_t limit; /* of the semaphore; 1: a lock */
    uint32_t permit;
    const char *label; /* points into the value; no NUL at its end */
    size_t label_len;
};

void etcd_kv_parse(struct etcd_value *value, const void *bytes, size_t len);

/* True: a reader's key of ours. */
bool etcd_kv_is_shared(const void *value, size_t len);
/* Writes a value to out, cut to size. Returns its length. */
size_t etcd_kv_make(char *out, size_t size, enum dlock_mode mode, const char *label);
size_t etcd_kv_make_waiter(char *out, size_t size, uint32_t limit, const char *label);
size_t etcd_kv_make_permit(char *out, size_t size, uint32_t limit, uint32_t permit,
                           const char *label);
/* Of a limit of 1: of a lock, and permit is 0. */
size_t etcd_kv_make_kept(char *out, size_t size, uint32_t limit, uint32_t permit,
                         const char *label);
/* Adds what the holder publishes [DAT-1] to a value of len bytes. Returns the length then. */
size_t etcd_kv_add_data(char out[ETCD_VALUE_SIZE], size_t len, const struct dlock_request *req);
/* Sets the data of the holder, which point into the value; what is kept has none. */
void etcd_kv_data(struct dlock_holder *holder, const struct etcd_value *value);
/* Writes the label to out, cut to size; "": it has none. */
void etcd_kv_label(char *out, size_t size, const void *value, size_t len);

/* Values of this limit are greater than low and less than high; those of a lock (1) are less than
 * high, and low is "". Texts end with a NUL. */
void etcd_kv_edges(char low[ETCD_EDGE_SIZE], char high[ETCD_EDGE_SIZE], uint32_t limit);
/* The same of those values of this limit that belong to holders and waiters, and not of what is
 * kept. */
void etcd_kv_claim_edges(char low[ETCD_EDGE_SIZE], char high[ETCD_EDGE_SIZE], uint32_t limit);

#endif
