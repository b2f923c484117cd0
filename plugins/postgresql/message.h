/* SPDX-License-Identifier: MIT */
/*
 * message.h - what a waiter is told of its grant: "<token> <fence> <lease_ms>", then " <permit>" of
 * a semaphore. Everybody who may connect to the database can send one.
 */
#ifndef PG_MESSAGE_H
#define PG_MESSAGE_H

#include <dlock/plugin.h>
#include <stdbool.h>

struct pg_message {
    unsigned char token[DLOCK_TOKEN_SIZE];
    uint64_t fence;   /* of a bigint */
    int64_t lease_ms; /* greater than 0 */
    uint32_t permit;  /* 0 without one */
};

/* False: the text is anything else. Numbers are decimal digits, without sign and blanks. */
bool pg_message_parse(const char *text, struct pg_message *message);

#endif
