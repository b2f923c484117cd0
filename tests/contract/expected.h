/* SPDX-License-Identifier: MIT */
/*
 * expected.h - what a store has to be able to do, by the scheme of its URI, and capabilities by
 * their names. A case cannot be skipped in silence because a plugin forgot to announce something.
 */
#ifndef DLT_EXPECTED_H
#define DLT_EXPECTED_H

#include <stddef.h>
#include <stdint.h>

/* 1: *caps is set; 0: we know nothing about this scheme. */
int dlt_expected_caps(const char *uri, uint64_t *caps);

/* Non-zero: the store lives in one process. */
int dlt_expected_private(const char *uri);

/* "FENCE,WATCH" or "none" to bits. 0; -1: *bad (of bad_size) is the word that is no capability. */
int dlt_caps_parse(const char *list, uint64_t *caps, char *bad, size_t bad_size);

/* "FENCE,WATCH"; "none". Returns out. */
const char *dlt_caps_format(uint64_t caps, char *out, size_t size);

#endif
