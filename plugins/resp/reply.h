/* SPDX-License-Identifier: MIT */
/*
 * reply.h - reads the elements of the server's replies.
 */
#ifndef RESP_REPLY_H
#define RESP_REPLY_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

/* True: an array of `count` elements. */
bool resp_reply_array(const redisReply *reply, size_t count);
/* The i-th element of an array. False: it is no integer, or not within the bounds. */
bool resp_reply_int(const redisReply *reply, size_t i, int64_t least, int64_t most, int64_t *out);
/* The i-th element of an array; NULL: it is no string. */
const redisReply *resp_reply_text(const redisReply *reply, size_t i);

/* Reads the digits at *at, and moves *at behind them. False: there is no number from 1 on, or one
 * that is close to the end of int64_t. */
bool resp_reply_digits(const char **at, int64_t *out);

/* The longest lease that a reply may report. */
#define RESP_LEASE_MAX_MS (INT64_C(400) * 24 * 3600 * 1000)

/* The part of a reported lease that the holder relies on: at most ttl_ms. The server's lease is
 * longer when its clock was set back, or after an earlier request with a longer ttl. */
int64_t resp_reply_lease_ms(int64_t reported_ms, int64_t ttl_ms);

#endif
