/* SPDX-License-Identifier: MIT */
#include "checks.h"

#include "caps.h"
#include "lib/printable.h"
#include "metrics_file.h"
#include "output.h"

#include <ctype.h>
#include <string.h>

#define VALUE_SIZE 256
#define WORDS_MOST 48 /* bytes of a text that is a label */

json_t *checks_text(const char *text)
{
    return text == NULL ? json_null() : json_string(cli_output_printable(text, strlen(text)));
}

static void check_take(void *arg, const struct dlock_check *check)
{
    json_t *array = arg;

    (void)json_array_append_new(
        array, json_pack("{s:o, s:o, s:o, s:o}", "name", checks_text(check->name), "found",
                         checks_text(check->found), "advice", checks_text(check->advice), "clears",
                         caps_json(check->clears)));
}

enum dlock_status checks_read(struct dlock_client *client, json_t *checks, struct dlock_error *err)
{
    return dlock_client_probe(client, check_take, checks, err);
}

size_t checks_advice(const json_t *checks)
{
    size_t i, count = 0;
    json_t *check;

    json_array_foreach((json_t *)checks, i, check)
    {
        count += json_is_string(json_object_get(check, "advice"));
    }
    return count;
}

static const char *text_of(const json_t *check, const char *member)
{
    const char *text = json_string_value(json_object_get(check, member));

    return text != NULL ? text : "";
}

static bool is_words(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= WORDS_MOST && strpbrk(text, "0123456789") == NULL;
}

static bool is_number(const char *text)
{
    return isdigit((unsigned char)text[0]) && strlen(text) <= 15 &&
           text[strspn(text, "0123456789.")] == '\0' && strchr(text, '.') == strrchr(text, '.');
}

static const char *quoted(char out[VALUE_SIZE], const char *text)
{
    return dl_printable_quote(out, VALUE_SIZE, text, strlen(text));
}

/* What one check is in a family. */
typedef void sample_fn(FILE *out, const char *label, const char *name, const json_t *check);

static void advice_sample(FILE *out, const char *label, const char *name, const json_t *check)
{
    (void)fprintf(out, "dlock_check_advice{%s,check=\"%s\"} %d\n", label, name,
                  json_is_string(json_object_get(check, "advice")) ? 1 : 0);
}

static void words_sample(FILE *out, const char *label, const char *name, const json_t *check)
{
    char found[VALUE_SIZE];

    if (is_words(text_of(check, "found")))
        (void)fprintf(out, "dlock_check_found{%s,check=\"%s\",found=\"%s\"} 1\n", label, name,
                      quoted(found, text_of(check, "found")));
}

static void number_sample(FILE *out, const char *label, const char *name, const json_t *check)
{
    if (is_number(text_of(check, "found")))
        (void)fprintf(out, "dlock_check_number{%s,check=\"%s\"} %s\n", label, name,
                      text_of(check, "found"));
}

/* Two checks of one name would be one series twice: the first one counts. */
static bool is_repeated(const json_t *checks, size_t index)
{
    const char *name = text_of(json_array_get(checks, index), "name");

    for (size_t i = 0; i < index; i++)
        if (strcmp(text_of(json_array_get(checks, i), "name"), name) == 0)
            return true;
    return false;
}

static void family(const json_t *checks, FILE *out, const char *label, const char *name,
                   const char *help, sample_fn *sample)
{
    char value[VALUE_SIZE];

    metrics_file_family(out, name, "gauge", "", help);
    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);

        if (!is_repeated(checks, i))
            sample(out, label, quoted(value, text_of(check, "name")), check);
    }
}

void checks_metrics(const json_t *checks, FILE *out, const char *label)
{
    family(checks, out, label, "dlock_check_advice",
           "Whether there is advice on the configuration of the store.", advice_sample);
    family(checks, out, label, "dlock_check_found", "What the check found, in words.",
           words_sample);
    family(checks, out, label, "dlock_check_number", "What the check found, if it is a number.",
           number_sample);
}
