/* SPDX-License-Identifier: MIT */
/*
 * life.h - locks of the kernel that show whether the process of a lease or queue entry lives.
 *
 * An attempt holds an open-file-description lock (F_OFD_SETLK) on a byte of the wake file that its
 * token chooses, from before its lease or queue entry is written until unlock or forget. The kernel
 * ends the lock with the last process that has the description. The row says so: a mark at the end
 * of its label names the wake file. Only a marked row whose byte is free belongs to a dead process.
 * A row without a mark, or with the mark of another file, ends with its time.
 *
 * The attempts of a process share one description for each wake file, which a forked child closes.
 * With DLOCK_END_PROGRAMS an attempt has one of its own, which programs inherit. A lock is looked
 * at through the session's own description, which holds none. Also where the process has too many,
 * nothing but this service is lost.
 */
#ifndef SQLITE_LIFE_H
#define SQLITE_LIFE_H

#include "config.h"
#include "wake_file.h"

#include <dlock/plugin.h>

#define SQ_LABEL_SIZE 2304 /* of a label, data and mark, see sqlite_life_label */
#define SQ_LIVES_MOST 1024 /* in a process: the kernel searches the locks of a file one by one */

struct sqlite_life_file;

/* Locks the byte of the token. NULL: not possible, or not wanted. kept: what the session keeps open
 * between two attempts, NULL at first. */
struct sqlite_life_file *sqlite_life_begin(const struct sqlite_wake_file *file,
                                           const struct sqlite_config *config,
                                           const struct dlock_request *req,
                                           struct sqlite_life_file **kept);

/* life may be NULL. Harmless in a forked child. */
void sqlite_life_end(struct sqlite_life_file *life, const unsigned char *token);

/* Gives back what a session kept, which may be NULL. */
void sqlite_life_keep_no_longer(struct sqlite_life_file *kept);

/* True: the label is marked, and no process lives that had the token. False: one does, or it is not
 * known. */
bool sqlite_life_is_over(const struct sqlite_wake_file *file, const char *label,
                         const unsigned char *token);

/*
 * The column `label`: the label of the holder, then, if it publishes data, the data in
 * hex between two bytes 30, and then the mark.
 *
 * All versions write this column with the token, and copy it from the queue entry to the lease: so
 * data can neither stay when another holder comes nor belong to another one. A program that does
 * not know data shows them as part of the label. One that grants a waiter cuts the column at 255
 * bytes: data that are cut count as none, and without the mark the death of the holder frees
 * nothing before the end of the lease.
 */
#define SQ_LABEL_MAX 230 /* of the label itself; a longer one is cut */

/* life: NULL: no mark. */
void sqlite_life_label(char text[SQ_LABEL_SIZE], const struct dlock_request *req,
                       const struct sqlite_life_file *life);

/* The bytes of the label itself. */
size_t sqlite_life_label_len(const char *text);

/* Writes the data. Returns their length; 0: there are none. */
uint32_t sqlite_life_label_data(unsigned char data[DLOCK_DATA_MAX], const char *text);

#endif
