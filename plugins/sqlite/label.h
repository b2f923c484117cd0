/* SPDX-License-Identifier: MIT */
/*
 * label.h - the column `label`: the label of the holder, then, if it publishes data, the data in
 * hex between two bytes 30, and then the mark of life.h.
 *
 * All versions write this column with the token, and copy it from the queue entry to the lease: so
 * data can neither stay when another holder comes nor belong to another one. A program that does
 * not know data shows them as part of the label. One that grants a waiter cuts the column at 255
 * bytes: data that are cut count as none, and without the mark the death of the holder frees
 * nothing before the end of the lease.
 */
#ifndef SQLITE_LABEL_H
#define SQLITE_LABEL_H

#include "life.h"

#include <dlock/plugin.h>

#define SQ_LABEL_MAX 230 /* of the label itself; a longer one is cut */

/* life: NULL: no mark. */
void sqlite_label_make(char text[SQ_LABEL_SIZE], const struct dlock_request *req,
                       const struct sqlite_life_file *life);

/* The bytes of the label itself. */
size_t sqlite_label_len(const char *text);

/* Writes the data. Returns their length; 0: there are none. */
uint32_t sqlite_label_data(unsigned char data[DLOCK_DATA_MAX], const char *text);

#endif
