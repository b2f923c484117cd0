/* SPDX-License-Identifier: MIT */
#include "load/option.h"

#include "load/uri.h"
#include "sys/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_MAX 64 /* rows; a table without its end is noticed */

struct unit {
    const char *name;
    int64_t factor;
};

#define KIB INT64_C(1024)

static const struct unit durations[] = {{"ms", 1},      {"s", 1000},     {"m", 60000},
                                        {"h", 3600000}, {"d", 86400000}, {0}};
static const struct unit sizes[] = {
    {"", 1},         {"k", KIB},           {"K", KIB},           {"m", KIB *KIB},
    {"M", KIB *KIB}, {"g", KIB *KIB *KIB}, {"G", KIB *KIB *KIB}, {0}};

/* A value, and its place in the message when it is refused. */
struct value {
    const char *text;
    char *why; /* DL_OPTION_WHY bytes */
};

__attribute__((format(printf, 2, 3))) static bool refuse(const struct value *value,
                                                         const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(value->why, DL_OPTION_WHY, format, args);
    va_end(args);
    return false;
}

/* ---- scalars ---- */

/* Digits of value->text from `at`; *end is the first other character. */
static bool digits_parse(const struct value *value, size_t at, int64_t *number, const char **end)
{
    const char *text = value->text + at;
    int64_t result = 0;

    *end = text + strspn(text, "0123456789");
    if (*end == text)
        return refuse(value, "is not a decimal number");
    for (; text < *end; text++)
        if (__builtin_mul_overflow(result, 10, &result) ||
            __builtin_add_overflow(result, *text - '0', &result))
            return refuse(value, "is too large");
    *number = result;
    return true;
}

static bool int_parse(const struct value *value, int64_t *number)
{
    bool negative = value->text[0] == '-';
    const char *end = NULL;

    if (!digits_parse(value, negative, number, &end))
        return false;
    if (*end != '\0')
        return refuse(value, "is not a decimal number");
    if (negative)
        *number = -*number;
    return true;
}

/* expected: the units, for the message. */
static bool units_parse(const struct value *value, const struct unit *units, const char *expected,
                        int64_t *number)
{
    const char *text = value->text, *end = NULL;
    int64_t count = 0;

    if (text[0] == '-' || text[0] == '+')
        return refuse(value, "has a sign; a plain number is expected");
    if (!digits_parse(value, 0, &count, &end))
        return false;
    if (*end == '.' || *end == ',')
        return refuse(value, "is not a whole number; use a smaller unit (%s)", expected);
    if (*end == '\0' && count == 0) {
        *number = 0;
        return true;
    }
    for (; units->name != NULL; units++) {
        if (strcmp(units->name, end) != 0)
            continue;
        if (__builtin_mul_overflow(count, units->factor, number))
            return refuse(value, "is too large");
        return true;
    }
    if (*end == '\0')
        return refuse(value, "has no unit (%s)", expected);
    return refuse(value, "has an unknown unit (known: %s)", expected);
}

static bool bool_parse(const struct value *value, int64_t *number)
{
    static const char *const words[] = {"off", "on", "false", "true", "no", "yes", "0", "1"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i], value->text) == 0) {
            *number = (int64_t)(i % 2);
            return true;
        }
    }
    return refuse(value, "is neither on nor off");
}

static bool duration_parse(const struct value *value, int64_t *number)
{
    return units_parse(value, durations, "ms, s, m, h or d", number);
}

static bool size_parse(const struct value *value, int64_t *number)
{
    return units_parse(value, sizes, "none, k, M or G", number);
}

/* Only the range judges a word. */
static bool word_parse(const struct value *value, int64_t *number)
{
    (void)value;
    *number = 0;
    return true;
}

struct type {
    const char *name;
    bool (*parse)(const struct value *value, int64_t *number);
    bool (*bound)(const struct value *value, int64_t *number); /* of an interval; NULL: none */
    bool words;                                                /* a range may name words, worth: */
    int word_number;
};

static const struct type types[] = {
    {"bool", bool_parse, NULL, false, 0},
    {"int", int_parse, int_parse, false, 0},
    {"duration", duration_parse, duration_parse, true, -1},
    {"size", size_parse, size_parse, false, 0},
    {"enum", word_parse, NULL, true, 0},
    {"text", word_parse, int_parse, false, 0},
    {"list", word_parse, int_parse, false, 0},
};

static const struct type *type_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

/* ---- ranges ---- */

struct alternative {
    const char *text;
    size_t len;
    bool interval;
    int64_t low, high;
};

static bool bound_parse(const struct type *type, const char *text, size_t len, int64_t *number)
{
    char copy[32], why[DL_OPTION_WHY];
    struct value value = {copy, why};

    if (type->bound == NULL || len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return type->bound(&value, number);
}

/* Takes the alternative at *range and moves *range behind it. False: the range is malformed. */
static bool range_next(const struct type *type, const char **range, struct alternative *out)
{
    size_t len = strcspn(*range, "|");
    const char *dots = memmem(*range, len, "..", 2);

    *out = (struct alternative){.text = *range, .len = len, .interval = dots != NULL};
    *range += len + ((*range)[len] == '|');
    if (dots == NULL)
        return type->words && len > 0 && len <= DL_OPTION_NAME_MAX;
    return bound_parse(type, out->text, (size_t)(dots - out->text), &out->low) &&
           bound_parse(type, dots + 2, (size_t)(out->text + len - (dots + 2)), &out->high) &&
           out->low <= out->high;
}

/* Is text one of the words of the range? */
static bool range_has_word(const struct type *type, const char *range, const char *text)
{
    struct alternative alternative;

    while (*range != '\0') {
        if (!range_next(type, &range, &alternative))
            return false;
        if (!alternative.interval && strlen(text) == alternative.len &&
            memcmp(text, alternative.text, alternative.len) == 0)
            return true;
    }
    return false;
}

static bool range_has_number(const struct type *type, const char *range, int64_t number)
{
    struct alternative alternative;

    while (*range != '\0') {
        if (!range_next(type, &range, &alternative))
            return false;
        if (alternative.interval && number >= alternative.low && number <= alternative.high)
            return true;
    }
    return false;
}

static bool range_valid(const struct type *type, const char *range)
{
    struct alternative alternative;

    if (*range == '\0' || range[strlen(range) - 1] == '|')
        return false;
    while (*range != '\0')
        if (!range_next(type, &range, &alternative))
            return false;
    return true;
}

/* ---- values ---- */

static bool value_parse(const struct dlock_option_spec *spec, const struct type *type,
                        const struct value *value, int64_t *number)
{
    bool text = type->parse == word_parse && type->bound != NULL;

    if (spec->range != NULL && type->words && range_has_word(type, spec->range, value->text)) {
        *number = type->word_number;
        return true;
    }
    if (!type->parse(value, number))
        return false;
    if (spec->range == NULL)
        return true;
    if (range_has_number(type, spec->range, text ? (int64_t)strlen(value->text) : *number))
        return true;
    if (text)
        return refuse(value, "is not %s bytes long", spec->range);
    return refuse(value, "is not %s %s", type->bound == NULL ? "one of" : "in", spec->range);
}

bool dl_option_parse(const struct dlock_option_spec *spec, const char *text, int64_t *number,
                     char why[DL_OPTION_WHY])
{
    char reason[DL_OPTION_WHY], shown[48];
    struct value value = {text, reason};
    const struct type *type = type_find(spec->type);

    *number = 0;
    if (type != NULL && value_parse(spec, type, &value, number))
        return true;
    if (type == NULL)
        (void)refuse(&value, "has no type");
    /* A free text may be a secret. */
    if (type == NULL || strcmp(type->name, "text") == 0 || strcmp(type->name, "list") == 0)
        (void)snprintf(why, DL_OPTION_WHY, "the value of '%s' %.100s", spec->name, reason);
    else
        (void)snprintf(why, DL_OPTION_WHY, "%s=%s %.80s", spec->name,
                       dl_printable(shown, sizeof shown, text, strlen(text)), reason);
    return false;
}

/* ---- tables ---- */

const struct dlock_option_spec *dl_option_find(const struct dlock_option_spec *table,
                                               const char *name)
{
    for (; table->name != NULL; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance; both at most DL_OPTION_NAME_MAX long. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[DL_OPTION_NAME_MAX + 1], len = strlen(b);

    for (size_t j = 0; j <= len; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= len; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            row[j] = smaller(change, smaller(row[j], row[j - 1]) + 1);
        }
    }
    return row[len];
}

void dl_option_nearest(const struct dlock_option_spec *table, const char *name, const char **best)
{
    size_t len = strlen(name);
    size_t limit = len < 3 ? 1 : smaller(len / 2, 3); /* distances up to this are near */

    if (len > DL_OPTION_NAME_MAX)
        return;
    if (*best != NULL)
        limit = smaller(limit, edit_distance(name, *best) - 1);
    for (; table->name != NULL; table++) {
        size_t distance = edit_distance(name, table->name);

        if (distance > limit)
            continue;
        *best = table->name;
        if (distance <= 1)
            return;
        limit = distance - 1;
    }
}

static bool row_valid(const struct dlock_option_spec *row, char why[DL_OPTION_WHY])
{
    const struct type *type = row->type != NULL ? type_find(row->type) : NULL;
    const char *fault = NULL;
    int64_t number = 0;

    if (type == NULL)
        fault = "a type of bool, int, duration, size, enum, text, list";
    else if (row->range == NULL && strcmp(type->name, "enum") == 0)
        fault = "a range with the words of the enum";
    else if (row->range != NULL && !range_valid(type, row->range))
        fault = "a range that its type can have";
    else if (row->help == NULL || row->help[0] == '\0')
        fault = "a line of help";
    if (fault != NULL) {
        (void)snprintf(why, DL_OPTION_WHY, "option '%s': expected %s", row->name, fault);
        return false;
    }
    return row->fallback == NULL || dl_option_parse(row, row->fallback, &number, why);
}

bool dl_option_table_valid(const struct dlock_option_spec *table, char why[DL_OPTION_WHY])
{
    for (size_t i = 0; table[i].name != NULL; i++) {
        const char *name = table[i].name;

        (void)snprintf(why, DL_OPTION_WHY, "expected at most %d options", TABLE_MAX);
        if (i == TABLE_MAX)
            return false;
        (void)snprintf(why, DL_OPTION_WHY, "option %zu: expected a name like [a-z][a-z0-9_]*", i);
        if (!dl_option_name_valid(name, strnlen(name, DL_OPTION_NAME_MAX + 1)))
            return false;
        (void)snprintf(why, DL_OPTION_WHY, "option '%s' is in the table twice", name);
        if (dl_option_find(table, name) != &table[i])
            return false;
        if (!row_valid(&table[i], why))
            return false;
    }
    return true;
}
