/* SPDX-License-Identifier: MIT */
/* zk_packet.h - a packet of ZooKeeper's protocol: its length in 4 bytes, big endian like all its
 * numbers; texts and bytes with their lengths before them. */
#ifndef DLT_ZK_PACKET_H
#define DLT_ZK_PACKET_H

#include <stddef.h>
#include <stdint.h>

struct zk_packet {
    size_t len, at;             /* at: what is taken next */
    unsigned char bytes[65536]; /* with the length */
};

/* An empty one. */
void zk_packet_begin(struct zk_packet *packet);
/* Writes the length. */
void zk_packet_end(struct zk_packet *packet);

/* They abort if it does not fit. */
void zk_packet_put_byte(struct zk_packet *packet, unsigned char byte);
void zk_packet_put_int(struct zk_packet *packet, int32_t number);
void zk_packet_put_long(struct zk_packet *packet, int64_t number);
void zk_packet_put_bytes(struct zk_packet *packet, const void *bytes, size_t len);
void zk_packet_put_text(struct zk_packet *packet, const char *text);

/* 0 or "" after the end. */
int32_t zk_packet_take_int(struct zk_packet *packet);
int64_t zk_packet_take_long(struct zk_packet *packet);
/* The bytes, as far as there is room; returns how many they are. */
size_t zk_packet_take_bytes(struct zk_packet *packet, void *out, size_t room);
/* In the packet, where it is ended with a zero in the place of its length. */
const char *zk_packet_take_text(struct zk_packet *packet);

#endif
