/* SPDX-License-Identifier: MIT */
#include "sys/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What a caller has that says nothing of its size; nodes[] was the last member then. */
#define SIZE_FIRST (offsetof(struct dlock_error, nodes) + sizeof(((struct dlock_error *)0)->nodes))

#undef dl_error /* a macro for clang's analyzer */

void dl_error_reset(struct dlock_error *err)
{
    err->struct_size = sizeof *err;
    err->status = DLOCK_OK;
    err->code = 0;
    err->node_count = 0;
    err->origin[0] = '\0';
    err->message[0] = '\0';
}

enum dlock_status dl_error(struct dlock_error *err, enum dlock_status status, const char *format,
                           ...)
{
    va_list args;

    dl_error_reset(err);
    err->status = status;
    (void)snprintf(err->origin, sizeof err->origin, "core");
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return status;
}

static void text_export(char *to, size_t size, const char *from)
{
    size_t len = 0;

    for (; len + 1 < size && from[len] != '\0'; len++)
        to[len] = (unsigned char)from[len] < 0x20 || from[len] == 0x7f ? '?' : from[len];
    to[len] = '\0';
}

static void node_export(struct dlock_node_error *to, const struct dlock_node_error *from)
{
    text_export(to->node, sizeof to->node, from->node);
    to->status = from->status;
    text_export(to->message, sizeof to->message, from->message);
}

/* Every call that succeeds comes here too: what nobody reads is not written. */
static void error_export(struct dlock_error *to, const struct dlock_error *from,
                         enum dlock_status status)
{
    bool said = status != DLOCK_OK && from->message[0] != '\0';

    to->struct_size = sizeof *to;
    to->status = status;
    to->code = from->code;
    to->node_count =
        from->node_count < DLOCK_NODE_ERRORS_MAX ? from->node_count : DLOCK_NODE_ERRORS_MAX;
    for (uint32_t i = 0; i < to->node_count; i++)
        node_export(&to->nodes[i], &from->nodes[i]);
    text_export(to->origin, sizeof to->origin, from->origin);
    text_export(to->message, sizeof to->message,
                said ? from->message : dlock_status_text((int)status));
}

static void error_export_part(struct dlock_error *to, size_t size, const struct dlock_error *from,
                              enum dlock_status status)
{
    struct dlock_error whole = {0};

    error_export(&whole, from, status);
    whole.struct_size = size;
    memcpy(to, &whole, size);
}

enum dlock_status dl_error_export(struct dlock_error *to, const struct dlock_error *from,
                                  enum dlock_status status)
{
    size_t size;

    if (to == NULL)
        return status;
    size = to->struct_size != 0 ? to->struct_size : SIZE_FIRST;
    if (size >= sizeof *to)
        error_export(to, from, status);
    else
        error_export_part(to, size, from, status);
    return status;
}
