/* SPDX-License-Identifier: MIT */
/* RESP2 and RESP3, https://redis.io/docs/latest/develop/reference/protocol-spec/ */
#include "frame.h"

#include <string.h>

enum { AT_TYPE = 0, IN_LINE, IN_NUMBER, AFTER_CR, IN_BULK };

#define LONGEST (UINT64_C(1) << 40)

static bool element_ended(struct dlt_framer *f)
{
    f->state = AT_TYPE;
    while (f->depth > 0 && --f->left[f->depth - 1] == 0)
        f->depth--;
    return f->depth == 0;
}

/* Not RESP: the frame ends with what was taken so far. */
static bool broke(struct dlt_framer *f)
{
    f->broken = true;
    f->skip = 0;
    return true;
}

static bool aggregate_begins(struct dlt_framer *f)
{
    uint64_t elements = f->number;

    if (f->type == '%' || f->type == '|')
        elements *= 2;
    if (f->type == '|')
        elements++;
    if (f->negative || elements == 0)
        return element_ended(f);
    if (f->depth == DLT_FRAME_DEPTH)
        return broke(f);
    f->left[f->depth++] = elements;
    f->state = AT_TYPE;
    return false;
}

static bool number_ended(struct dlt_framer *f)
{
    if (f->type != '$' && f->type != '=' && f->type != '!')
        return aggregate_begins(f);
    if (f->negative)
        return element_ended(f);
    f->state = IN_BULK;
    f->skip = f->number + 2; /* CR LF */
    return false;
}

static bool number_goes_on(struct dlt_framer *f, unsigned char byte)
{
    if (byte == '-' && f->digits == 0 && !f->negative) {
        f->negative = true;
        return false;
    }
    if (byte == '\r' && f->digits > 0) {
        f->state = AFTER_CR;
        return false;
    }
    if (byte < '0' || byte > '9' || f->number > LONGEST)
        return broke(f);
    f->number = f->number * 10 + (uint64_t)(byte - '0');
    f->digits++;
    return false;
}

static bool element_begins(struct dlt_framer *f, unsigned char byte)
{
    f->type = byte;
    f->number = 0;
    f->digits = 0;
    f->negative = false;
    f->state = IN_LINE;
    if (byte != '\0' && strchr("*$%~>|=!", byte) != NULL)
        f->state = IN_NUMBER;
    else if (f->depth > 0 && (byte == '\0' || strchr("+-:_#,(", byte) == NULL))
        return broke(f); /* an inline command cannot be an element */
    else if (byte == '\n')
        return element_ended(f);
    return false;
}

bool dlt_framer_resp(struct dlt_framer *f, unsigned char byte)
{
    switch (f->state) {
    case AT_TYPE:
        return element_begins(f, byte);
    case IN_LINE:
        return byte == '\n' && element_ended(f);
    case IN_NUMBER:
        return number_goes_on(f, byte);
    case AFTER_CR:
        return byte == '\n' ? number_ended(f) : broke(f);
    default: /* the last byte of a bulk string */
        f->skip = 0;
        return byte == '\n' ? element_ended(f) : broke(f);
    }
}
