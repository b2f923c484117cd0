/* SPDX-License-Identifier: MIT */
/*
 * value.h - the value of a key: a mode, 'x' or 's', a blank and a label. Keys of other programs
 * have other values, mostly "". Pure.
 */
#ifndef ETCD_VALUE_H
#define ETCD_VALUE_H

#include <dlock/types.h>
#include <stdbool.h>
#include <stddef.h>

#define ETCD_VALUE_SIZE 512 /* longer labels are cut */

/* True: a reader's key of ours. All others are exclusive. */
bool etcd_value_is_shared(const void *value, size_t len);
/* Writes a value to out, cut to size. Returns its length. */
size_t etcd_value_make(char *out, size_t size, enum dlock_mode mode, const char *label);
/* Writes the label to out, cut to size; "": it has none. */
void etcd_value_label(char *out, size_t size, const void *value, size_t len);

#endif
