/* SPDX-License-Identifier: MIT */
/*
 * frame.h - where does a message of the protocol end? Pure: takes the stream in pieces of any size,
 * keeps a constant amount of state, never stores what it saw.
 *
 * A frame is, by framing:
 *   raw     what one read returned
 *   resp    one command, inline or an array, or one reply with all that is nested in it (RESP2 and
 *           RESP3; an attribute belongs to the reply that follows it)
 *   mysql   one packet; the pieces of a payload of 2^24-1 bytes or more are one frame
 *   postgresql  one message, with or without a type; the byte that answers a request for TLS
 *   http2   one frame; what a client says before its first one
 *   zookeeper  one packet
 */
#ifndef DLT_FRAME_H
#define DLT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dlt_framing {
    DLT_FRAMING_RAW = 0,
    DLT_FRAMING_RESP = 1,
    DLT_FRAMING_MYSQL = 2,
    DLT_FRAMING_POSTGRESQL = 3,
    DLT_FRAMING_HTTP2 = 4,
    DLT_FRAMING_ZOOKEEPER = 5
};

#define DLT_FRAME_DEPTH 32 /* RESP arrays within arrays */

struct dlt_framer {
    enum dlt_framing framing;
    bool broken; /* not this protocol: what follows is raw */

    /* private */
    int state;
    uint64_t skip;      /* payload bytes still to come */
    uint64_t number;    /* the one being read */
    unsigned digits;    /* of it, or header bytes of a packet */
    bool negative;      /* the number */
    unsigned char type; /* of the RESP element */
    unsigned depth;
    uint64_t left[DLT_FRAME_DEPTH]; /* elements still to come, a level each */
};

/* "raw", "resp", "mysql", "postgresql", "http2", "zookeeper" */
bool dlt_framing_parse(const char *name, enum dlt_framing *out);

void dlt_framer_init(struct dlt_framer *framer, enum dlt_framing framing);

/*
 * Takes bytes of the stream, as far as the present frame goes; returns how many (at least one when
 * len > 0). *ended: the last byte taken ends the frame.
 */
size_t dlt_framer_feed(struct dlt_framer *framer, const unsigned char *bytes, size_t len,
                       bool *ended);

/* One byte each, for dlt_framer_feed alone. True: the frame ends here. */
bool dlt_framer_resp(struct dlt_framer *framer, unsigned char byte);
bool dlt_framer_mysql(struct dlt_framer *framer, unsigned char byte);
bool dlt_framer_postgresql(struct dlt_framer *framer, unsigned char byte);
bool dlt_framer_http2(struct dlt_framer *framer, unsigned char byte);
bool dlt_framer_zookeeper(struct dlt_framer *framer, unsigned char byte);

#endif
