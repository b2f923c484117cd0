/* SPDX-License-Identifier: MIT */
/* caps.h - capabilities by their words: "fence-durable" is DLOCK_CAP_FENCE_DURABLE. */
#ifndef CLI_CAPS_H
#define CLI_CAPS_H

#include <jansson.h>
#include <stdint.h>

/* An array of words; caller frees. NULL: no memory. */
json_t *caps_json(uint64_t caps);

/* A space and a word for each, on standard output. */
void caps_print(uint64_t caps);

#endif
