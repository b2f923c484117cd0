/* SPDX-License-Identifier: MIT */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef dl_error /* a macro for clang's analyzer */

void dl_error_reset(struct dlock_error *err)
{
    err->struct_size = sizeof *err;
    err->status = DLOCK_OK;
    err->backend_code = 0;
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

static void make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

enum dlock_status dl_error_export(struct dlock_error *to, const struct dlock_error *from,
                                  enum dlock_status status)
{
    struct dlock_error copy;
    size_t size;

    if (to == NULL)
        return status;
    size = to->struct_size;
    if (size == 0 || size > sizeof copy)
        size = sizeof copy;
    memset(&copy, 0, sizeof copy);
    copy.struct_size = size;
    copy.status = status;
    copy.backend_code = from->backend_code;
    copy.node_count = from->node_count;
    if (copy.node_count > DLOCK_NODE_ERRORS_MAX)
        copy.node_count = DLOCK_NODE_ERRORS_MAX;
    for (uint32_t i = 0; i < copy.node_count; i++) {
        copy.nodes[i] = from->nodes[i];
        make_printable(copy.nodes[i].node);
        make_printable(copy.nodes[i].message);
    }
    memcpy(copy.origin, from->origin, sizeof copy.origin);
    memcpy(copy.message, from->message, sizeof copy.message);
    if (status == DLOCK_OK || copy.message[0] == '\0')
        (void)snprintf(copy.message, sizeof copy.message, "%s", dlock_status_text((int)status));
    make_printable(copy.message);
    memcpy(to, &copy, size);
    return status;
}

const char *dl_printable(char *out, size_t size, const void *bytes, size_t len)
{
    const unsigned char *in = bytes;
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        if (used + 8 > size) { /* room for one \xHH, "..." and NUL */
            (void)snprintf(out + used, size - used, "...");
            return out;
        }
        if (in[i] >= 0x20 && in[i] < 0x7f && in[i] != '\\')
            out[used++] = (char)in[i];
        else
            used += (size_t)snprintf(out + used, size - used, "\\x%02x", in[i]);
    }
    out[used] = '\0';
    return out;
}
