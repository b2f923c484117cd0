/* SPDX-License-Identifier: MIT */
/* keep_alive.h - a server that has vanished is noticed. */
#ifndef NET_KEEP_ALIVE_H
#define NET_KEEP_ALIVE_H

/* Of a socket with a connection: the kernel notices in seconds, not in hours, that the peer has
 * vanished, and sends small messages at once. No change to a unix socket. */
void keep_alive_start(int fd);

#endif
