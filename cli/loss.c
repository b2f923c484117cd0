/* SPDX-License-Identifier: MIT */
#include "loss.h"

#include <stddef.h>

struct words {
    const char *word, *text;
};

static const struct words reasons[] = {
    [DLOCK_REASON_EXPIRED] = {"expired", "it was not renewed in time"},
    [DLOCK_REASON_TAKEN] = {"taken", "it was broken or taken away"},
    [DLOCK_REASON_MAX_HOLD] = {"max-hold", "max_hold has passed"},
    [DLOCK_REASON_SESSION] = {"session", "the session that it belonged to ended"},
};

static const struct words *words_of(enum dlock_reason reason)
{
    size_t at = (size_t)reason;

    return &reasons[at > 0 && at < sizeof reasons / sizeof reasons[0] ? at : DLOCK_REASON_EXPIRED];
}

const char *loss_word(enum dlock_reason reason)
{
    return words_of(reason)->word;
}

const char *loss_text(enum dlock_reason reason)
{
    return words_of(reason)->text;
}
