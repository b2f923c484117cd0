/* SPDX-License-Identifier: MIT */
#include "lib/printable.h"
#include "lib/hex.h"

#include <stdbool.h>
#include <string.h>

static bool is_printable(unsigned char byte)
{
    return byte >= ' ' && byte <= '~';
}

/* Writes one byte; quoted: between double quotes. Returns how much. */
static size_t byte_escape(char *out, unsigned char byte, bool quoted)
{
    size_t used = 0;

    if (is_printable(byte) && byte != '\\' && !(quoted && byte == '"')) {
        out[0] = (char)byte;
        return 1;
    }
    out[used++] = '\\';
    if (quoted && byte == '"') {
        out[used++] = '"';
        return used;
    }
    if (quoted)
        out[used++] = '\\';
    out[used++] = 'x';
    dl_hex_encode(out + used, &byte, 1);
    return used + 2;
}

static const char *escape(char *out, size_t size, const unsigned char *in, size_t len, bool quoted)
{
    size_t room = quoted ? 9 : 8; /* for one \xHH or \\xHH, "..." and NUL */
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        if (used + room > size) {
            memcpy(out + used, "...", 4);
            return out;
        }
        used += byte_escape(out + used, in[i], quoted);
    }
    out[used] = '\0';
    return out;
}

const char *dl_printable_escape(char *out, size_t size, const void *bytes, size_t len)
{
    return escape(out, size, bytes, len, false);
}

const char *dl_printable_quote(char *out, size_t size, const void *bytes, size_t len)
{
    return escape(out, size, bytes, len, true);
}

void dl_printable_mask(char *out, size_t size, const char *text, size_t len)
{
    size_t i = 0;

    for (; i < len && i + 1 < size; i++)
        out[i] = (char)(is_printable((unsigned char)text[i]) ? text[i] : '?');
    out[i] = '\0';
}
