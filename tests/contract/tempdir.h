/* SPDX-License-Identifier: MIT */
/* tempdir.h - {tmp} in a URI: a directory that did not exist before and is gone afterwards. */
#ifndef DLT_TEMPDIR_H
#define DLT_TEMPDIR_H

/* A copy of uri with each "{tmp}" replaced by one new directory, whose path is copied to dir ("":
 * none was needed). Caller frees; NULL: no memory, or no directory. */
char *dlt_tempdir_expand(const char *uri, char *dir, unsigned long dir_size);

/* Makes dir a new directory. 0 or -1. */
int dlt_tempdir_make(char *dir, unsigned long dir_size);

/* Removes dir with all that is in it; "" is fine. */
void dlt_tempdir_remove(const char *dir);

#endif
