/* SPDX-License-Identifier: MIT */
/* net_kit.h - both ends of a connection for the tests of the tools: a server that echoes and keeps
 * a journal, and a client that says what it sees. */
#ifndef DLT_NET_KIT_H
#define DLT_NET_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts a thread that echoes what each connection sends, for the rest of the process. address: as
 * dlock-faultproxy takes it; receives what it is bound to. */
bool net_echo_start(char *address, size_t size);

/* What arrived at the server, from all connections, in that order. Returns its length. */
size_t net_journal(char *out, size_t size);

/* Waits until the journal is this text. */
bool net_journal_is(const char *text, int timeout_ms);

/* A blocking socket, connected within the time; -1: errno. */
int net_connect(const char *address, int timeout_ms);

/* Connects, and is reset sooner or later: a reset may be there before connect returns. */
bool net_is_reset(const char *address, int timeout_ms);

bool net_send(int fd, const char *text);

/* The next bytes are these. */
bool net_expect(int fd, const char *text, int timeout_ms);

/* What comes next: 'd' data, 'e' the end of the stream, 'r' a reset, '-' nothing in that time. */
char net_next(int fd, int timeout_ms);

int64_t net_now_ms(void);

#endif
