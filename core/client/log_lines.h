/* SPDX-License-Identifier: MIT */
/*
 * log_lines.h - lines of the log that were written while the client's mutex was held. The sink of
 * the application must not be called then: the renewer writes them soon afterwards.
 */
#ifndef DL_LOG_LINES_H
#define DL_LOG_LINES_H

#include "sys/log.h"

struct dl_log_line;

/* Zeroed: empty. The client's mutex guards it. */
struct dl_log_lines {
    struct dl_log_line *first, *last;
};

/* Adds a line, unless there is no sink. Without memory it is dropped. */
__attribute__((format(printf, 4, 5))) void dl_log_lines_add_locked(struct dl_log_lines *lines,
                                                                   const struct dl_log *log,
                                                                   enum dlock_log_level level,
                                                                   const char *format, ...);

/* Takes all lines out, for dl_log_lines_write. */
struct dl_log_lines dl_log_lines_take_locked(struct dl_log_lines *lines);

/* Writes and frees lines that were taken out. Without the mutex. log: NULL: only frees. */
void dl_log_lines_write(struct dl_log_lines lines, const struct dl_log *log);

#endif
