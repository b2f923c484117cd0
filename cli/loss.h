/* SPDX-License-Identifier: MIT */
/* loss.h - why a lock was lost, in words. */
#ifndef CLI_LOSS_H
#define CLI_LOSS_H

#include <dlock/dlock.h>

/* For programs: one word. A reason of a newer library reads as "expired". */
const char *loss_word(enum dlock_reason reason);

/* For people: the end of a sentence. */
const char *loss_text(enum dlock_reason reason);

#endif
