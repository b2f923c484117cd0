/* SPDX-License-Identifier: MIT */
/* random.h - random bytes for owner tokens and jitter: getrandom(2) and nothing else (C7). */
#ifndef DL_RANDOM_H
#define DL_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* 0; -1: the kernel gave none, and the operation that needs them must fail. */
int dl_random_bytes(void *buf, size_t len);

/* A step of a cheap generator for jitter only, never for tokens. *state must not be 0. */
uint64_t dl_random_jitter(uint64_t *state);

#endif
