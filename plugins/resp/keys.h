/* SPDX-License-Identifier: MIT */
/*
 * keys.h - the keys of a name: <prefix>{<name>} for the lock, and the same with :m :r :q :w behind
 * it.
 *
 * Bytes that are not plain text, and % { }, are written %XX: a name can neither be cut short nor
 * look like a key of another name, and a cluster hashes exactly the part in braces.
 *
 * With key=raw the name itself is one more key, as other programs write it.
 */
#ifndef RESP_KEYS_H
#define RESP_KEYS_H

#include "resp/config.h"

#define RESP_NAME_MAX     255
#define RESP_KEY_COUNT    2u
#define RESP_OTHERS_COUNT 3u /* keys that scripts make themselves */
#define RESP_KEY_MAX      (RESP_PREFIX_MAX + 3 * RESP_NAME_MAX + 5)
#define RESP_HEX_SIZE     (2 * DLOCK_TOKEN_SIZE + 1)

/* The keys that scripts are given: lock and meta. The scripts make the other keys themselves. The
 * plugins' name.lua says what the keys hold. */
struct resp_keys {
    char bytes[RESP_KEY_COUNT][RESP_KEY_MAX];
    size_t lens[RESP_KEY_COUNT];
    const char *raw; /* with key=raw the name, which is borrowed; NULL without */
    size_t raw_len;
    bool all; /* config.all_keys */
};

void resp_keys_make(struct resp_keys *keys, const struct resp_config *config,
                    const unsigned char *name, uint32_t name_len);

/* The i-th of the keys that the scripts make: for config.all_keys. Returns its length. */
size_t resp_keys_other(char out[RESP_KEY_MAX], const struct resp_keys *keys, size_t i);

/* INVALID: with key=raw this name could be one of our own keys [TRY-7]; or a cluster keeps it in
 * another slot than the lock's key. */
enum dlock_status resp_keys_refuse(const struct resp_config *config, const unsigned char *name,
                                   uint32_t name_len, struct dlock_error *err);

/* The pattern for SCAN that matches the keys of all names with this prefix. pattern holds
 * 2 * RESP_KEY_MAX. Returns its length: with key=raw the pattern may contain a zero byte. */
size_t resp_keys_pattern(char *pattern, const struct resp_config *config,
                         const unsigned char *prefix, uint32_t prefix_len);

/* Reads the name from a key of the lock or of its readers. False: another key, or with key=raw one
 * of our own keys. */
bool resp_keys_name(const struct resp_config *config, const char *key, size_t len,
                    unsigned char *name, uint32_t *name_len);

#endif
