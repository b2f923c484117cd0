/* SPDX-License-Identifier: MIT */
/* text_file.h - a small file with one line in it, such as a password or a URI. */
#ifndef DL_TEXT_FILE_H
#define DL_TEXT_FILE_H

#include <dlock/plugin.h>

#define DL_TEXT_FILE_MAX 8192 /* bytes of the line */

/* Whether the mode of the file lets all users read it. */
enum dl_exposure { DL_EXPOSED_TO_NOBODY = 0, DL_EXPOSED_TO_ALL = 1 };

/*
 * Reads the line without its end. path: absolute. what: for messages, which never show the content.
 * *text: caller frees it with dl_secret_free. Does not wait, whatever the path names.
 * INVALID: not absolute, not readable, not a regular file, empty, longer, more than one line, or
 * with control characters. CONFIG: its group or others may write it.
 */
enum dlock_status dl_text_file_read(const char *path, const char *what, char **text,
                                    enum dl_exposure *exposure, struct dlock_error *err);

/* Logs that all users may read the secret in this file. */
void dl_text_file_warn(const struct dlock_host *host, const char *what, const char *path);

#endif
