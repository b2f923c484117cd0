/* SPDX-License-Identifier: MIT */
/* pass_file.h - a password in a file of its own, which is read for each new connection. */
#ifndef REDIS_PASS_FILE_H
#define REDIS_PASS_FILE_H

#include <dlock/plugin.h>

/* The first line of the file, to be freed by dl_secret_free. INVALID: it cannot be read, is empty,
 * or is not a file; CONFIG: others may write it; NOMEM. Does not wait, whatever the path names. */
enum dlock_status redis_pass_file_read(const char *path, char **secret, struct dlock_error *err);

#endif
