/* SPDX-License-Identifier: MIT */
/*
 * cloexec.h - for libraries that make a socket first and set FD_CLOEXEC afterwards: no fork comes
 * between the two, so that no program that is started meanwhile inherits the socket.
 */
#ifndef NET_CLOEXEC_H
#define NET_CLOEXEC_H

/* Once in a process, before the first of the others; non-zero: no memory. */
int cloexec_init(void);

/* Around the library's call; a fork of another thread waits. The call must not wait for a server.
 */
void cloexec_lock(void);
void cloexec_unlock(void);

#endif
