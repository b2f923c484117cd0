/* SPDX-License-Identifier: MIT */
/* frames.h - frames of HTTP/2 byte by byte, said and read on a socket by the test itself. */
#ifndef DLT_FRAMES_H
#define DLT_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_DATA,
    FRAME_HEADERS,
    FRAME_PRIORITY,
    FRAME_RST_STREAM,
    FRAME_SETTINGS,
    FRAME_PUSH,
    FRAME_PING,
    FRAME_GOAWAY,
    FRAME_WINDOW_UPDATE,
    FRAME_CONTINUATION
};
enum { FLAG_END_STREAM = 1, FLAG_ACK = 1, FLAG_END_HEADERS = 4 };

struct dlt_frame {
    uint8_t type, flags;
    uint32_t id;
    unsigned char payload[16384];
    size_t len;
};

/* ---- saying; false: the other end is gone, or its buffer is full ---- */

bool dlt_frame_bytes(int fd, const void *bytes, size_t len);
bool dlt_frame_say(int fd, uint8_t type, uint8_t flags, uint32_t id, const void *payload,
                   size_t len);
/* headers: "name: value" each, up to NULL. */
bool dlt_frame_headers(int fd, uint8_t flags, uint32_t id, const char *const *headers);
/* A frame whose payload begins with two numbers, of which the second may be missing (-1). */
bool dlt_frame_numbers(int fd, uint8_t type, uint32_t id, uint32_t first, int64_t second);
/* One message of gRPC as DATA. */
bool dlt_frame_message(int fd, uint32_t id, const char *text, uint8_t flags);

/* HPACK without tables; returns its length. */
size_t dlt_frame_pack(unsigned char *out, size_t size, const char *const *headers);

/* ---- reading what the client said; skips its preface ---- */

/* The next frame. False: none within a second. */
bool dlt_frame_read(int fd, struct dlt_frame *frame);
/* The next one of this type, also past others. */
bool dlt_frame_read_type(int fd, uint8_t type, struct dlt_frame *frame);
/* The number at this place of a payload. */
uint32_t dlt_frame_number(const struct dlt_frame *frame, size_t at);

#endif
