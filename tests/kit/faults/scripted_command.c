/* SPDX-License-Identifier: MIT */
#include "scripted.h"

#include <string.h>
#include <strings.h>

/* "*12\r\n" or "$12\r\n" at *at; the framer has seen that it is well formed. */
static bool header_read(const unsigned char *frame, size_t len, size_t *at, char type,
                        size_t *number)
{
    if (*at >= len || frame[*at] != (unsigned char)type)
        return false;
    *number = 0;
    for (++*at; *at < len && frame[*at] >= '0' && frame[*at] <= '9'; ++*at)
        *number = *number * 10 + (size_t)(frame[*at] - '0');
    *at += 2; /* CR LF */
    return *at <= len;
}

static bool is_wild(const struct scripted_step *step, size_t word, const char *wild)
{
    return !step->words.quoted[word] && strcmp(step->words.at[word], wild) == 0;
}

/* The command's own name is the same in any case. */
static bool word_meets(const struct scripted_step *step, size_t word, const unsigned char *bytes,
                       size_t len)
{
    if (is_wild(step, word, "*"))
        return true;
    if (len != step->words.len[word])
        return false;
    if (word == step->first)
        return strncasecmp(step->words.at[word], (const char *)bytes, len) == 0;
    return memcmp(step->words.at[word], bytes, len) == 0;
}

bool scripted_command_meets(const struct scripted_step *step, const unsigned char *frame,
                            size_t len)
{
    size_t at = 0, elements = 0, word = step->first;

    if (!header_read(frame, len, &at, '*', &elements))
        return false;
    for (size_t i = 0; i < elements; i++, word++) {
        size_t size = 0;

        if (word < step->words.count && is_wild(step, word, "**"))
            return true;
        if (word == step->words.count || !header_read(frame, len, &at, '$', &size) ||
            size > len - at || !word_meets(step, word, frame + at, size))
            return false;
        at += size + 2;
    }
    return word == step->words.count ||
           (word + 1 == step->words.count && is_wild(step, word, "**"));
}
