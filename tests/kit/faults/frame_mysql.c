/* SPDX-License-Identifier: MIT */
/* Packets of MySQL and MariaDB: payload length in 3 bytes, little endian; sequence number; payload.
 * Not for a connection that went on in TLS or compressed. */
#include "frame.h"

#define HEADER  4u
#define LONGEST 0xffffffu

/* The payload's last byte is here, or there is no payload: does another packet go on with it? */
static bool packet_ended(struct dlt_framer *f)
{
    bool last = f->number < LONGEST;

    f->digits = 0;
    f->number = 0;
    f->skip = 0;
    return last;
}

bool dlt_framer_mysql(struct dlt_framer *f, unsigned char byte)
{
    if (f->digits == HEADER)
        return packet_ended(f);
    if (f->digits < HEADER - 1)
        f->number |= (uint64_t)byte << (8 * f->digits);
    if (++f->digits < HEADER)
        return false;
    f->skip = f->number;
    return f->skip == 0 && packet_ended(f);
}
