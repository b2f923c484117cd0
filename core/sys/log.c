/* SPDX-License-Identifier: MIT */
#include "sys/log.h"

#include <stdarg.h>
#include <stdio.h>

void dl_log(const struct dl_log *log, enum dlock_log_level level, const char *format, ...)
{
    char text[512];
    va_list args;

    if (log->fn == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log->fn(log->arg, level, text);
}
