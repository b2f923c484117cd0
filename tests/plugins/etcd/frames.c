/* SPDX-License-Identifier: MIT */
#include "frames.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define HEAD 9

static void number_put(unsigned char *out, uint32_t number)
{
    out[0] = (unsigned char)(number >> 24);
    out[1] = (unsigned char)(number >> 16);
    out[2] = (unsigned char)(number >> 8);
    out[3] = (unsigned char)number;
}

static uint32_t number_get(const unsigned char *in)
{
    return (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 | in[3];
}

/* ---- saying ---- */

bool dlt_frame_bytes(int fd, const void *bytes, size_t len)
{
    return send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

bool dlt_frame_say(int fd, uint8_t type, uint8_t flags, uint32_t id, const void *payload,
                   size_t len)
{
    unsigned char *bytes = malloc(HEAD + len);
    bool said = false;

    if (bytes == NULL)
        abort();
    number_put(bytes, (uint32_t)len << 8);
    bytes[3] = type;
    bytes[4] = flags;
    number_put(bytes + 5, id);
    if (len > 0)
        memcpy(bytes + HEAD, payload, len);
    said = dlt_frame_bytes(fd, bytes, HEAD + len);
    free(bytes);
    return said;
}

static size_t text_pack(unsigned char *out, const char *text, size_t len)
{
    size_t head = 1;

    if (len < 127) {
        out[0] = (unsigned char)len;
    } else {
        size_t rest = len - 127;

        out[0] = 127;
        for (; rest >= 128; rest >>= 7)
            out[head++] = (unsigned char)(rest | 128);
        out[head++] = (unsigned char)rest;
    }
    memcpy(out + head, text, len);
    return head + len;
}

size_t dlt_frame_pack(unsigned char *out, size_t size, const char *const *headers)
{
    size_t len = 0;

    for (; *headers != NULL; headers++) {
        const char *colon = strchr(*headers + 1, ':');

        if (colon == NULL || len + strlen(*headers) + 16 > size)
            abort();
        out[len++] = 0;
        len += text_pack(out + len, *headers, (size_t)(colon - *headers));
        len += text_pack(out + len, colon + 2, strlen(colon + 2));
    }
    return len;
}

bool dlt_frame_headers(int fd, uint8_t flags, uint32_t id, const char *const *headers)
{
    static unsigned char bytes[16384];

    return dlt_frame_say(fd, FRAME_HEADERS, flags | FLAG_END_HEADERS, id, bytes,
                         dlt_frame_pack(bytes, sizeof bytes, headers));
}

bool dlt_frame_numbers(int fd, uint8_t type, uint32_t id, uint32_t first, int64_t second)
{
    unsigned char bytes[8];

    number_put(bytes, first);
    number_put(bytes + 4, (uint32_t)second);
    return dlt_frame_say(fd, type, 0, id, bytes, second < 0 ? 4 : 8);
}

bool dlt_frame_message(int fd, uint32_t id, const char *text, uint8_t flags)
{
    unsigned char bytes[1024] = {0};
    size_t len = strlen(text);

    if (len + 5 > sizeof bytes)
        abort();
    number_put(bytes + 1, (uint32_t)len);
    memcpy(bytes + 5, text, len);
    return dlt_frame_say(fd, FRAME_DATA, flags, id, bytes, len + 5);
}

/* ---- reading ---- */

static bool all(int fd, void *bytes, size_t len)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    for (size_t at = 0; at < len;) {
        ssize_t got =
            poll(&poll_fd, 1, 1000) == 1 ? recv(fd, (unsigned char *)bytes + at, len - at, 0) : 0;

        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

bool dlt_frame_read(int fd, struct dlt_frame *frame)
{
    unsigned char head[HEAD], rest[15];

    if (!all(fd, head, HEAD))
        return false;
    if (memcmp(head, "PRI * HTT", HEAD) == 0 &&
        (!all(fd, rest, sizeof rest) || !all(fd, head, HEAD)))
        return false;
    frame->len = number_get(head) >> 8;
    frame->type = head[3];
    frame->flags = head[4];
    frame->id = number_get(head + 5);
    return frame->len <= sizeof frame->payload && all(fd, frame->payload, frame->len);
}

bool dlt_frame_read_type(int fd, uint8_t type, struct dlt_frame *frame)
{
    while (dlt_frame_read(fd, frame))
        if (frame->type == type)
            return true;
    return false;
}

uint32_t dlt_frame_number(const struct dlt_frame *frame, size_t at)
{
    return number_get(frame->payload + at);
}
