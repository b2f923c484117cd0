/* SPDX-License-Identifier: MIT */
#include "zk_packet.h"

#include <stdlib.h>
#include <string.h>

#define HEADER 4u

void zk_packet_begin(struct zk_packet *packet)
{
    packet->len = packet->at = HEADER;
}

static void number_write(unsigned char *out, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (unsigned char)(number >> (8 * (size - 1 - i)));
}

void zk_packet_end(struct zk_packet *packet)
{
    number_write(packet->bytes, packet->len - HEADER, HEADER);
}

static unsigned char *room_take(struct zk_packet *packet, size_t size)
{
    unsigned char *room = packet->bytes + packet->len;

    if (size > sizeof packet->bytes - packet->len)
        abort();
    packet->len += size;
    return room;
}

void zk_packet_put_byte(struct zk_packet *packet, unsigned char byte)
{
    *room_take(packet, 1) = byte;
}

void zk_packet_put_int(struct zk_packet *packet, int32_t number)
{
    number_write(room_take(packet, 4), (uint32_t)number, 4);
}

void zk_packet_put_long(struct zk_packet *packet, int64_t number)
{
    number_write(room_take(packet, 8), (uint64_t)number, 8);
}

void zk_packet_put_bytes(struct zk_packet *packet, const void *bytes, size_t len)
{
    zk_packet_put_int(packet, (int32_t)len);
    memcpy(room_take(packet, len), bytes, len);
}

void zk_packet_put_text(struct zk_packet *packet, const char *text)
{
    zk_packet_put_bytes(packet, text, strlen(text));
}

static uint64_t number_take(struct zk_packet *packet, size_t size)
{
    uint64_t number = 0;

    if (size > packet->len - packet->at)
        return 0;
    for (size_t i = 0; i < size; i++)
        number = number << 8 | packet->bytes[packet->at + i];
    packet->at += size;
    return number;
}

int32_t zk_packet_take_int(struct zk_packet *packet)
{
    return (int32_t)(uint32_t)number_take(packet, 4);
}

int64_t zk_packet_take_long(struct zk_packet *packet)
{
    return (int64_t)number_take(packet, 8);
}

/* A length, -1 for nothing. */
static size_t length_take(struct zk_packet *packet)
{
    int32_t len = zk_packet_take_int(packet);
    size_t left = packet->len - packet->at;

    if (len < 0)
        return 0;
    return (size_t)len < left ? (size_t)len : left;
}

size_t zk_packet_take_bytes(struct zk_packet *packet, void *out, size_t room)
{
    size_t len = length_take(packet);

    memcpy(out, packet->bytes + packet->at, len < room ? len : room);
    packet->at += len;
    return len;
}

const char *zk_packet_take_text(struct zk_packet *packet)
{
    size_t len = 0;
    char *text = NULL;

    if (packet->len - packet->at < HEADER)
        return "";
    len = length_take(packet);
    text = (char *)packet->bytes + packet->at - HEADER; /* moved over its length */
    memmove(text, text + HEADER, len);
    text[len] = '\0';
    packet->at += len;
    return text;
}
