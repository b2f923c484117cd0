/* SPDX-License-Identifier: MIT */
#include "lib/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- bytes as hexadecimal digits, and back ---- */

static const char lower[] = "0123456789abcdef";

int dl_hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)(digit | 0x20);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

int dl_hex_byte(const char *digits)
{
    int high = dl_hex_digit(digits[0]), low = high < 0 ? -1 : dl_hex_digit(digits[1]);

    return low < 0 ? -1 : high * 16 + low;
}

void dl_hex_encode(char *out, const void *bytes, size_t len)
{
    const unsigned char *in = bytes;

    for (size_t i = 0; i < len; i++) {
        *out++ = lower[in[i] >> 4];
        *out++ = lower[in[i] & 15];
    }
    *out = '\0';
}

bool dl_hex_decode(void *bytes, size_t len, const char *text)
{
    unsigned char *out = bytes;

    if (strspn(text, lower) != 2 * len || text[2 * len] != '\0')
        return false;
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)dl_hex_byte(text + 2 * i);
    return true;
}

/* ---- bytes of unknown origin, as printable ASCII ---- */

static bool is_printable(unsigned char byte)
{
    return byte >= ' ' && byte <= '~';
}

/* Writes one byte; quoted: between double quotes. Returns how much. */
static size_t byte_escape(char *out, unsigned char byte, bool quoted)
{
    size_t used = 0;

    if (is_printable(byte) && byte != '\\' && !(quoted && byte == '"')) {
        out[0] = (char)byte;
        return 1;
    }
    out[used++] = '\\';
    if (quoted && byte == '"') {
        out[used++] = '"';
        return used;
    }
    if (quoted)
        out[used++] = '\\';
    out[used++] = 'x';
    dl_hex_encode(out + used, &byte, 1);
    return used + 2;
}

static const char *escape(char *out, size_t size, const unsigned char *in, size_t len, bool quoted)
{
    size_t room = quoted ? 9 : 8; /* for one \xHH or \\xHH, "..." and NUL */
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        if (used + room > size) {
            memcpy(out + used, "...", 4);
            return out;
        }
        used += byte_escape(out + used, in[i], quoted);
    }
    out[used] = '\0';
    return out;
}

const char *dl_printable_escape(char *out, size_t size, const void *bytes, size_t len)
{
    return escape(out, size, bytes, len, false);
}

const char *dl_printable_quote(char *out, size_t size, const void *bytes, size_t len)
{
    return escape(out, size, bytes, len, true);
}

void dl_printable_mask(char *out, size_t size, const char *text, size_t len)
{
    size_t i = 0;

    for (; i < len && i + 1 < size; i++)
        out[i] = (char)(is_printable((unsigned char)text[i]) ? text[i] : '?');
    out[i] = '\0';
}

/* ---- numbers with a unit, as options of a URI and of the command have them ---- */

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

/* ---- texts with a secret in them ---- */

/* pass_file and pass_env tell where the password is. They are no secret. */
static bool is_elsewhere(const char *pass)
{
    return strncmp(pass, "pass_file", 9) == 0 || strncmp(pass, "pass_env", 8) == 0;
}

bool dl_secret_is_named(const char *text)
{
    static const char *const words[] = {"secret", "token", "cred", "pwd"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(text, words[i]) != NULL)
            return true;
    for (const char *at = text; (at = strstr(at, "pass")) != NULL; at++)
        if (!is_elsewhere(at))
            return true;
    return false;
}

void dl_secret_free(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}
