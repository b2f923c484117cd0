/* SPDX-License-Identifier: MIT */
/*
 * HTTP/2, RFC 9113, 4.1: a length in 3 bytes, big endian; the type; flags; the stream in 4 bytes;
 * payload. A client says 24 bytes before its first frame, and the first frame of each side has its
 * settings: what begins otherwise, as TLS, has no frames.
 */
#include "frame.h"

#define HEADER   9u
#define TYPE     4u /* bytes, up to and with the type */
#define PREFACE  24u
#define SETTINGS 4u

enum { NOTHING_YET, IN_PREFACE, GREETED, BEGUN };

static bool frame_ended(struct dlt_framer *f)
{
    f->digits = 0;
    f->number = 0;
    f->skip = 0;
    return true;
}

static bool preface_read(struct dlt_framer *f)
{
    if (f->state == IN_PREFACE) {
        f->state = GREETED;
        return frame_ended(f);
    }
    f->state = IN_PREFACE;
    f->skip = PREFACE - 1;
    return false;
}

bool dlt_framer_http2(struct dlt_framer *f, unsigned char byte)
{
    bool first = f->state == NOTHING_YET && f->digits == 0;

    if ((first && byte == 'P') || f->state == IN_PREFACE)
        return preface_read(f);
    if (f->digits == HEADER)
        return frame_ended(f);
    f->digits++;
    if (f->digits < TYPE) {
        f->number = f->number << 8 | byte;
        return false;
    }
    if (f->digits == TYPE && f->state != BEGUN) {
        f->state = BEGUN;
        f->broken = byte != SETTINGS;
        return f->broken;
    }
    if (f->digits < HEADER)
        return false;
    f->skip = f->number;
    return f->skip == 0 && frame_ended(f);
}
