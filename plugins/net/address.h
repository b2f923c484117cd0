/* SPDX-License-Identifier: MIT */
/*
 * address.h - an element of dlock_target.hosts, taken apart: "host", "host:port", "[v6]:port".
 * Pure.
 */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#define ADDRESS_HOST_MAX 253

struct address {
    char host[ADDRESS_HOST_MAX + 1]; /* without brackets */
    uint16_t port;
};

/* False: not of these forms. Without a port it is `port`. */
bool address_parse(struct address *out, const char *text, uint16_t port);

/* As it would stand in a URI, with the port; out holds at least size bytes, maybe cut. */
void address_format(const struct address *address, char *out, unsigned size);

#endif
