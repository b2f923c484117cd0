/* SPDX-License-Identifier: MIT */
#include "load/option.h"

#include "lib/text.h"
#include "load/uri.h"
#include "sys/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_MAX 64 /* rows; a table without its end is noticed */

static const char *bool_parse(const char *text, int64_t *number)
{
    static const char *const words[] = {"off", "on", "false", "true", "no", "yes", "0", "1"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i], text) == 0) {
            *number = (int64_t)(i % 2);
            return NULL;
        }
    }
    return "is neither on nor off";
}

/* Only the range judges a word. */
static const char *word_parse(const char *text, int64_t *number)
{
    (void)text;
    *number = 0;
    return NULL;
}

/* Sets *number and returns NULL, or returns why the value is refused. */
typedef const char *parse_fn(const char *text, int64_t *number);

struct type {
    const char *name;
    parse_fn *parse;
    parse_fn *bound; /* of an interval; NULL: none */
    bool words;      /* a range may name words, worth: */
    int word_number;
};

static const struct type types[] = {
    {"bool", bool_parse, NULL, false, 0},
    {"int", dl_quantity_int, dl_quantity_int, false, 0},
    {"duration", dl_quantity_duration, dl_quantity_duration, true, -1},
    {"size", dl_quantity_size, dl_quantity_size, false, 0},
    {"enum", word_parse, NULL, true, 0},
    {"text", word_parse, dl_quantity_int, false, 0},
    {"list", word_parse, dl_quantity_int, false, 0},
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
    char copy[32];

    if (type->bound == NULL || len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return type->bound(copy, number) == NULL;
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
                        const char *text, int64_t *number, char why[DL_OPTION_WHY])
{
    bool is_text = type->parse == word_parse && type->bound != NULL;
    const char *refused = NULL;

    if (spec->range != NULL && type->words && range_has_word(type, spec->range, text)) {
        *number = type->word_number;
        return true;
    }
    refused = type->parse(text, number);
    if (refused == NULL && spec->range == NULL)
        return true;
    if (refused == NULL &&
        range_has_number(type, spec->range, is_text ? (int64_t)strlen(text) : *number))
        return true;
    if (refused != NULL)
        (void)snprintf(why, DL_OPTION_WHY, "%s", refused);
    else if (is_text)
        (void)snprintf(why, DL_OPTION_WHY, "is not %s bytes long", spec->range);
    else
        (void)snprintf(why, DL_OPTION_WHY, "is not %s %s", type->bound == NULL ? "one of" : "in",
                       spec->range);
    return false;
}

bool dl_option_parse(const struct dlock_option_spec *spec, const char *text, int64_t *number,
                     char why[DL_OPTION_WHY])
{
    char reason[DL_OPTION_WHY] = "has no type", escaped[48];
    const struct type *type = type_find(spec->type);

    *number = 0;
    if (type != NULL && value_parse(spec, type, text, number, reason))
        return true;
    /* A free text may be a secret. */
    if (type == NULL || strcmp(type->name, "text") == 0 || strcmp(type->name, "list") == 0)
        (void)snprintf(why, DL_OPTION_WHY, "the value of '%s' %.100s", spec->name, reason);
    else
        (void)snprintf(why, DL_OPTION_WHY, "%s=%s %.80s", spec->name,
                       dl_printable_escape(escaped, sizeof escaped, text, strlen(text)), reason);
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
        if (!dl_uri_option_name_valid(name, strnlen(name, DL_OPTION_NAME_MAX + 1)))
            return false;
        (void)snprintf(why, DL_OPTION_WHY, "option '%s' is in the table twice", name);
        if (dl_option_find(table, name) != &table[i])
            return false;
        if (!row_valid(&table[i], why))
            return false;
    }
    return true;
}
