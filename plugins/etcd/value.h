/* SPDX-License-Identifier: MIT */
/*
 * value.h - the value of a key. Pure.
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
#ifndef ETCD_VALUE_H
#define ETCD_VALUE_H

#include <dlock/plugin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

void etcd_value_parse(struct etcd_value *value, const void *bytes, size_t len);

/* True: a reader's key of ours. */
bool etcd_value_is_shared(const void *value, size_t len);
/* Writes a value to out, cut to size. Returns its length. */
size_t etcd_value_make(char *out, size_t size, enum dlock_mode mode, const char *label);
size_t etcd_value_make_waiter(char *out, size_t size, uint32_t limit, const char *label);
size_t etcd_value_make_permit(char *out, size_t size, uint32_t limit, uint32_t permit,
                              const char *label);
/* Of a limit of 1: of a lock, and permit is 0. */
size_t etcd_value_make_kept(char *out, size_t size, uint32_t limit, uint32_t permit,
                            const char *label);
/* Adds what the holder publishes [DAT-1] to a value of len bytes. Returns the length then. */
size_t etcd_value_add_data(char out[ETCD_VALUE_SIZE], size_t len, const struct dlock_request *req);
/* Sets the data of the holder, which point into the value; what is kept has none. */
void etcd_value_data(struct dlock_holder *holder, const struct etcd_value *value);
/* Writes the label to out, cut to size; "": it has none. */
void etcd_value_label(char *out, size_t size, const void *value, size_t len);

/* Values of this limit are greater than low and less than high; those of a lock (1) are less than
 * high, and low is "". Texts end with a NUL. */
void etcd_value_edges(char low[ETCD_EDGE_SIZE], char high[ETCD_EDGE_SIZE], uint32_t limit);
/* The same of those values of this limit that belong to holders and waiters, and not of what is
 * kept. */
void etcd_value_claim_edges(char low[ETCD_EDGE_SIZE], char high[ETCD_EDGE_SIZE], uint32_t limit);

#endif
