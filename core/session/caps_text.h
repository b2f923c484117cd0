/* SPDX-License-Identifier: MIT */
/* caps_text.h - capabilities by their names, for messages. */
#ifndef DL_CAPS_TEXT_H
#define DL_CAPS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define DL_CAPS_TEXT_SIZE 192 /* enough for all of them */

/* " FENCE QUEUE": a blank before each name; "": none. */
void dl_caps_text(char *out, size_t size, uint64_t caps);

#endif
