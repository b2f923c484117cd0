/* SPDX-License-Identifier: MIT */
#include "sys/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

struct dl_log_line {
    struct dl_log_line *next;
    enum dlock_log_level level;
    char *text;
};

void dl_log_lines_add_locked(struct dl_log_lines *lines, const struct dl_log *log,
                             enum dlock_log_level level, const char *format, ...)
{
    struct dl_log_line *line = log->fn != NULL ? malloc(sizeof *line) : NULL;
    va_list args;
    int len;

    if (line == NULL)
        return;
    va_start(args, format);
    len = vasprintf(&line->text, format, args);
    va_end(args);
    if (len < 0) {
        free(line);
        return;
    }
    line->level = level;
    line->next = NULL;
    if (lines->first == NULL)
        lines->first = line;
    else
        lines->last->next = line;
    lines->last = line;
}

struct dl_log_lines dl_log_lines_take_locked(struct dl_log_lines *lines)
{
    struct dl_log_lines taken = *lines;

    *lines = (struct dl_log_lines){NULL, NULL};
    return taken;
}

void dl_log_lines_write(struct dl_log_lines lines, const struct dl_log *log)
{
    while (lines.first != NULL) {
        struct dl_log_line *line = lines.first;

        lines.first = line->next;
        if (log != NULL)
            dl_log(log, line->level, "%s", line->text);
        free(line->text);
        free(line);
    }
}
