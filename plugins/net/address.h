/* SPDX-License-Identifier: MIT */
/* address.h - parses an element of dlock_target.hosts: "host", "host:port", "[v6]:port". Pure. */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#define ADDRESS_HOST_MAX 253

struct address {
    char host[ADDRESS_HOST_MAX + 1]; /* without brackets */
    uint16_t port;
};

/* False: another form. port: for a text without a port. */
bool address_parse(struct address *out, const char *text, uint16_t port);

/* Writes it as in a URI, with the port, to out, which holds size bytes; may cut it. */
void address_format(const struct address *address, char *out, unsigned size);

#endif
