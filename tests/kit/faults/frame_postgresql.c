/* SPDX-License-Identifier: MIT */
/*
 * Messages of PostgreSQL: a letter for the type, the length in 4 bytes, big endian, which counts
 * itself; payload. The messages with which a client begins have no type: their first byte is a zero
 * of the length. The server answers a request for TLS with one byte; what follows a yes is TLS, and
 * has no frames.
 */
#include "frame.h"

#include <ctype.h>
#include <string.h>

#define HEADER 5u
#define LENGTH 4u

enum { NOTHING_YET, BEGUN };

static bool message_ended(struct dlt_framer *f)
{
    f->digits = 0;
    f->number = 0;
    f->skip = 0;
    return true;
}

static bool broken(struct dlt_framer *f)
{
    f->broken = true;
    return true;
}

static bool type_read(struct dlt_framer *f, unsigned char byte)
{
    bool first = f->state == NOTHING_YET;

    if (first && byte == 'S')
        return broken(f);
    if (first && byte == 'N') /* another request may follow */
        return message_ended(f);
    f->state = BEGUN;
    if (byte != 0 && !isalpha(byte) && strchr("123", byte) == NULL)
        return broken(f);
    f->digits = byte != 0 ? 1 : 2;
    return false;
}

bool dlt_framer_postgresql(struct dlt_framer *f, unsigned char byte)
{
    if (f->digits == 0)
        return type_read(f, byte);
    if (f->digits == HEADER)
        return message_ended(f);
    f->number = f->number << 8 | byte;
    if (++f->digits < HEADER)
        return false;
    if (f->number < LENGTH)
        return broken(f);
    f->skip = f->number - LENGTH;
    return f->skip == 0 && message_ended(f);
}
