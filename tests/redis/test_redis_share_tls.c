/* SPDX-License-Identifier: MIT */
/*
 * The same over TLS: a connection of OpenSSL, which only one thread may use at a time, is shared,
 * and who reads on it spins.
 */
#define DLT_SECURE 1
#include "test_redis_share.c"
