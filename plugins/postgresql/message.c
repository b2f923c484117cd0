/* SPDX-License-Identifier: MIT */
#include "message.h"

#include "lib/hex.h"

#include <stdio.h>

#define TOKEN_DIGITS (2 * DLOCK_TOKEN_SIZE)
#define LEASE_MOST   UINT64_C(999999999999)
#define PERMIT_MOST  999

/* Reads a blank and a number of at most `most`, and moves *at behind them. */
static bool number_read(const char **at, uint64_t most, uint64_t *number)
{
    const char *digit = *at;

    *number = 0;
    if (*digit++ != ' ')
        return false;
    if (*digit < '0' || *digit > '9')
        return false;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        const uint64_t value = (uint64_t)(*digit - '0');

        if (*number > (most - value) / 10)
            return false;
        *number = *number * 10 + value;
    }
    *at = digit;
    return true;
}

bool pg_message_parse(const char *text, struct pg_message *message)
{
    char token[TOKEN_DIGITS + 1];
    const char *at = NULL;
    uint64_t lease_ms = 0, permit = 0;

    (void)snprintf(token, sizeof token, "%s", text);
    if (!dl_hex_decode(message->token, sizeof message->token, token))
        return false;
    at = text + TOKEN_DIGITS;
    if (!number_read(&at, INT64_MAX, &message->fence) || !number_read(&at, LEASE_MOST, &lease_ms))
        return false;
    if (*at != '\0' && !number_read(&at, PERMIT_MOST, &permit))
        return false;
    message->lease_ms = (int64_t)lease_ms;
    message->permit = (uint32_t)permit;
    return *at == '\0' && lease_ms > 0;
}
