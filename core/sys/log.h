/* SPDX-License-Identifier: MIT */
/* log.h - lines to the application's callback. Never called with a lock of core held. */
#ifndef DL_LOG_H
#define DL_LOG_H

#include <dlock/dlock.h>

struct dl_log {
    dlock_log_fn *fn; /* NULL: no log */
    void *arg;
};

__attribute__((format(printf, 3, 4))) void
dl_log(const struct dl_log *log, enum dlock_log_level level, const char *format, ...);

struct dl_log_line;

/* Lines that were written while the client's mutex was held, which guards them. The sink of the
 * application must not be called then: the renewer writes them soon afterwards. Zeroed: empty. */
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
