/* SPDX-License-Identifier: MIT */
/*
 * Packets of ZooKeeper: their length in 4 bytes, big endian, and so many bytes. A word of four
 * letters, as "ruok", would be a very long packet: it and its answer have no frames.
 */
#include "frame.h"

#define HEADER  4u
#define LONGEST (UINT64_C(1) << 26)

static bool packet_ended(struct dlt_framer *f)
{
    f->digits = 0;
    f->number = 0;
    f->skip = 0;
    return true;
}

bool dlt_framer_zookeeper(struct dlt_framer *f, unsigned char byte)
{
    if (f->digits == HEADER)
        return packet_ended(f);
    f->number = f->number << 8 | byte;
    if (++f->digits < HEADER)
        return false;
    f->broken = f->number > LONGEST;
    if (f->broken)
        return true;
    f->skip = f->number;
    return f->skip == 0 && packet_ended(f);
}
