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

#endif
