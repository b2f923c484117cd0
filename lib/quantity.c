/* SPDX-License-Identifier: MIT */
#include "lib/quantity.h"

#include <stddef.h>
#include <string.h>

#define KIB INT64_C(1024)

static const char not_a_number[] = "is not a decimal number", too_large[] = "is too large";

struct unit {
    const char *name;
    int64_t factor;
};

struct kind {
    const struct unit *units;
    const char *fraction, *no_unit, *unknown_unit; /* reasons */
};

#define REASONS(known)                                                                  \
    "is not a whole number; use a smaller unit (" known ")", "has no unit (" known ")", \
        "has an unknown unit (known: " known ")"

static const struct kind duration = {
    (const struct unit[]){
        {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {0}},
    REASONS("ms, s, m, h or d")};
static const struct kind size = {(const struct unit[]){{"", 1},
                                                       {"k", KIB},
                                                       {"K", KIB},
                                                       {"m", KIB *KIB},
                                                       {"M", KIB *KIB},
                                                       {"g", KIB *KIB *KIB},
                                                       {"G", KIB *KIB *KIB},
                                                       {0}},
                                 REASONS("none, k, M or G")};

/* The digits at the beginning; *end is the first other character. */
static const char *digits_read(const char *text, int64_t *number, const char **end)
{
    *number = 0;
    *end = text + strspn(text, "0123456789");
    if (*end == text)
        return not_a_number;
    for (; text < *end; text++)
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, *text - '0', number))
            return too_large;
    return NULL;
}

const char *dl_quantity_int(const char *text, int64_t *number)
{
    const char *end = NULL, *why = digits_read(text + (text[0] == '-'), number, &end);

    if (why == NULL && text[0] == '-')
        *number = -*number;
    return why == NULL && *end != '\0' ? not_a_number : why;
}

static const char *kind_read(const struct kind *kind, const char *text, int64_t *number)
{
    const char *end = NULL, *why = NULL;

    if (text[0] == '-' || text[0] == '+')
        return "has a sign; a plain number is expected";
    why = digits_read(text, number, &end);
    if (why != NULL)
        return why;
    if (*end == '.' || *end == ',')
        return kind->fraction;
    if (*end == '\0' && *number == 0)
        return NULL;
    for (const struct unit *unit = kind->units; unit->name != NULL; unit++)
        if (strcmp(unit->name, end) == 0)
            return __builtin_mul_overflow(*number, unit->factor, number) ? too_large : NULL;
    return *end == '\0' ? kind->no_unit : kind->unknown_unit;
}

const char *dl_quantity_duration(const char *text, int64_t *ms)
{
    return kind_read(&duration, text, ms);
}

const char *dl_quantity_size(const char *text, int64_t *bytes)
{
    return kind_read(&size, text, bytes);
}
