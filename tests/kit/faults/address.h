/* SPDX-License-Identifier: MIT */
/* address.h - socket addresses as text: "127.0.0.1:6379", or a path for a Unix socket. */
#ifndef DLT_ADDRESS_H
#define DLT_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

struct dlt_address {
    socklen_t len;
    union {
        struct sockaddr any;
        struct sockaddr_un path;
        struct sockaddr_storage room;
    } of;
};

/* A numeric IPv4 address with a port, or an absolute path. */
bool dlt_address_parse(const char *text, struct dlt_address *out);

bool dlt_address_is_path(const struct dlt_address *address);

void dlt_address_print(const struct dlt_address *address, char *out, size_t size);

/* A non-blocking, close-on-exec stream socket of its family; TCP without Nagle's delay. -1: errno.
 */
int dlt_address_socket(const struct dlt_address *address);

/*
 * Listens there (a path is unlinked before); *address becomes what it is bound to, so that port 0
 * is known. backlog < 0: bound only. The descriptor does not block. -1: errno.
 */
int dlt_address_listen(struct dlt_address *address, int backlog);

/* Closes a connection with RST. A Unix socket has none: its peer sees the end of the stream, or
 * ECONNRESET when bytes of it were not read. */
void dlt_socket_reset(int fd);

/* Closes it with FIN, though there is something to read. */
void dlt_socket_finish(int fd);

#endif
