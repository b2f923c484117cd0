/* SPDX-License-Identifier: MIT */
#include "escape.h"

#include <stdio.h>
#include <string.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* What follows a backslash, at *in; NULL: no escape. */
static const char *unescape(const char *in, char *byte)
{
    static const char letters[] = "rnt0s\\\"", bytes[] = "\r\n\t\0 \\\"";
    const char *found = *in == '\0' ? NULL : strchr(letters, *in);

    if (found != NULL) {
        *byte = bytes[found - letters];
        return in + 1;
    }
    if (*in != 'x' || hex_digit(in[1]) < 0 || hex_digit(in[2]) < 0)
        return NULL;
    *byte = (char)(hex_digit(in[1]) * 16 + hex_digit(in[2]));
    return in + 3;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* One word from *at, written to *out, which follows behind. */
static const char *word_read(const char **at, char **out, bool *quoted)
{
    const char *in = *at;

    *quoted = *in == '"';
    in += *quoted;
    while (*quoted ? *in != '"' : *in != '\0' && !is_blank(*in)) {
        char byte = *in;

        if (byte == '\0')
            return "a quote is open";
        in++;
        if (byte == '\\') {
            in = unescape(in, &byte);
            if (in == NULL)
                return "unknown escape";
        }
        *(*out)++ = byte;
    }
    in += *quoted;
    if (*in != '\0' && !is_blank(*in))
        return "text behind a closing quote";
    *at = in;
    return NULL;
}

const char *dlt_words_split(char *line, struct dlt_words *words)
{
    const char *in = line;

    words->count = 0;
    for (;;) {
        size_t i = words->count;
        const char *wrong;
        char *out;

        while (is_blank(*in))
            in++;
        if (*in == '\0' || *in == '#')
            return NULL;
        if (i == DLT_WORDS_MAX)
            return "too many words";
        out = line + (in - line);
        words->at[i] = out;
        wrong = word_read(&in, &out, &words->quoted[i]);
        if (wrong != NULL)
            return wrong;
        words->len[i] = (size_t)(out - words->at[i]);
        words->count++;
        if (*in != '\0')
            in++; /* the blank may become the NUL */
        *out = '\0';
    }
}

bool dlt_number_parse(const char *text, uint64_t most, uint64_t *out)
{
    uint64_t number = 0;

    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        unsigned digit = (unsigned)(*text - '0');

        if (*text < '0' || *text > '9' || number > (most - digit) / 10 || digit > most)
            return false;
        number = number * 10 + digit;
    }
    *out = number;
    return true;
}

void dlt_escape(const void *bytes, size_t len, char *out, size_t size)
{
    const unsigned char *in = bytes;
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        char one[8];
        int wrote;

        if (used + 8 > size) {
            (void)snprintf(out + used, size - used, "...");
            return;
        }
        if (in[i] == '\r' || in[i] == '\n')
            wrote = snprintf(one, sizeof one, "\\%c", in[i] == '\r' ? 'r' : 'n');
        else if (in[i] == '"' || in[i] == '\\')
            wrote = snprintf(one, sizeof one, "\\%c", in[i]);
        else if (in[i] >= ' ' && in[i] < 0x7f)
            wrote = snprintf(one, sizeof one, "%c", in[i]);
        else
            wrote = snprintf(one, sizeof one, "\\x%02x", in[i]);
        memcpy(out + used, one, (size_t)wrote);
        used += (size_t)wrote;
    }
    out[used] = '\0';
}
