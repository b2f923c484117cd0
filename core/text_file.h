/* SPDX-License-Identifier: MIT */
/* text_file.h - a small file with one line in it, such as a password or a URI. */
#ifndef DL_TEXT_FILE_H
#define DL_TEXT_FILE_H

#include <dlock/status.h>

#define DL_TEXT_FILE_MAX 8192 /* bytes of the line */

/*
 * Reads the line without its end. path: absolute. what: for messages, which never show the content.
 * *text: caller frees it with dl_secret_free. INVALID: not absolute, not readable, empty, longer,
 * more than one line, or with control characters.
 */
enum dlock_status dl_text_file_read(const char *path, const char *what, char **text,
                                    struct dlock_error *err);

#endif
