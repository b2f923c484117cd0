/* SPDX-License-Identifier: MIT */
#include "lib/printable.h"
#include "lib/hex.h"

#include <stdbool.h>
#include <string.h>

static bool is_printable(unsigned char byte)
{
    return byte >= ' ' && byte <= '~';
}

const char *dl_printable_escape(char *out, size_t size, const void *bytes, size_t len)
{
    const unsigned char *in = bytes;
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        if (used + 8 > size) { /* room for one \xHH, "..." and NUL */
            memcpy(out + used, "...", 4);
            return out;
        }
        if (is_printable(in[i]) && in[i] != '\\') {
            out[used++] = (char)in[i];
            continue;
        }
        out[used++] = '\\';
        out[used++] = 'x';
        dl_hex_encode(out + used, &in[i], 1);
        used += 2;
    }
    out[used] = '\0';
    return out;
}

void dl_printable_mask(char *out, size_t size, const char *text, size_t len)
{
    size_t i = 0;

    for (; i < len && i + 1 < size; i++)
        out[i] = (char)(is_printable((unsigned char)text[i]) ? text[i] : '?');
    out[i] = '\0';
}
