/* SPDX-License-Identifier: MIT */
#include "sys/log.h"

#include <stdarg.h>
#include <stdio.h>

void dl_log(const struct dl_log *log, enum dlock_log_level level, const char *format, ...)
{
    char line[512];
    va_list args;

    if (log->fn == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log->fn(log->arg, level, line);
}
