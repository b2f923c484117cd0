/* SPDX-License-Identifier: MIT */
/*
 * The value of an option is refused, or is a number within its row's range: of durations and sizes
 * it is what another reader makes of the text. The first byte chooses the row.
 */
#include "fuzz.h"
#include "load/option.h"
#include "load/settings.h"

#include <string.h>

enum { DURATION, FOREVER, LABEL, OTHER, REFUSED };

struct fuzz_goal fuzz_goals[] = {[DURATION] = {"a duration", 0},
                                 [FOREVER] = {"forever", 0},
                                 [LABEL] = {"a label", 0},
                                 [OTHER] = {"another value", 0},
                                 [REFUSED] = {"a value that is refused", 0},
                                 {NULL, 0}};

static const struct dlock_option_spec *row_of(unsigned which)
{
    unsigned count = 0;

    while (dl_settings_options[count].name != NULL)
        count++;
    return &dl_settings_options[count > 0 ? which % count : 0];
}

/* Decimal digits and a unit. -1: not of that form. */
static long double read_otherwise(const char *text)
{
    static const struct {
        const char *unit;
        long double factor;
    } units[] = {{"ms", 1}, {"s", 1e3L}, {"m", 6e4L}, {"h", 36e5L}, {"d", 864e5L}};
    long double number = 0;
    size_t digits = strspn(text, "0123456789");

    for (size_t i = 0; i < digits; i++)
        number = number * 10 + (text[i] - '0');
    if (digits > 0 && number == 0 && text[digits] == '\0')
        return 0;
    for (size_t i = 0; digits > 0 && i < sizeof units / sizeof units[0]; i++)
        if (strcmp(text + digits, units[i].unit) == 0)
            return number * units[i].factor;
    return -1;
}

static void duration_check(const char *text, int64_t number)
{
    fuzz_goals[number == -1 ? FOREVER : DURATION].reached++;
    if (number == -1) /* a word of the range */
        FUZZ_CHECK(strcmp(text, "forever") == 0, "\"%s\"", text);
    else
        FUZZ_CHECK(read_otherwise(text) == (long double)number, "\"%s\" became %lld", text,
                   (long long)number);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size};
    const struct dlock_option_spec *row = row_of(fuzz_byte(&input));
    char why[DL_OPTION_WHY] = "";
    char *text = fuzz_text(&input);
    struct dl_settings settings;
    int64_t number = 0;

    if (text == NULL)
        return 0;
    dl_settings_init(&settings);
    if (dl_option_parse(row, text, &number, why)) {
        if (strcmp(row->type, "duration") == 0)
            duration_check(text, number);
        else
            fuzz_goals[OTHER].reached++;
        if (dl_settings_set(&settings, row->name, text, number))
            FUZZ_CHECK(strlen(settings.label) <= DL_LABEL_MAX, "a long label");
        fuzz_goals[LABEL].reached += settings.label[0] != '\0';
    } else {
        fuzz_goals[REFUSED].reached++;
        FUZZ_CHECK(why[0] != '\0', "no reason given");
    }
    free(text);
    return 0;
}
