/* SPDX-License-Identifier: MIT */
#include "params.h"

#include <endian.h>

/* Types of the server, fixed for ever. */
enum { FORMAT_TEXT, FORMAT_BINARY };
enum { TYPE_BYTEA = 17, TYPE_BIGINT = 20, TYPE_TEXT = 25 };

static void add(struct pg_params *params, Oid type, int format, const void *value, size_t len)
{
    const int i = params->count;

    if (i >= PG_PARAMS_MAX)
        return; /* the server misses a parameter and says so */
    params->types[i] = type;
    params->values[i] = value;
    params->lengths[i] = (int)len;
    params->formats[i] = format;
    params->count = i + 1;
}

void pg_params_bytes(struct pg_params *params, const void *data, size_t len)
{
    add(params, TYPE_BYTEA, FORMAT_BINARY, data, len);
}

void pg_params_number(struct pg_params *params, int64_t number)
{
    if (params->count < PG_PARAMS_MAX)
        params->numbers[params->count] = htobe64((uint64_t)number);
    add(params, TYPE_BIGINT, FORMAT_BINARY, &params->numbers[params->count % PG_PARAMS_MAX],
        sizeof number);
}

void pg_params_text(struct pg_params *params, const char *text)
{
    add(params, TYPE_TEXT, FORMAT_TEXT, text, 0);
}

void pg_params_literal(struct pg_params *params, const char *text)
{
    add(params, 0, FORMAT_TEXT, text, 0);
}

void pg_params_array(struct pg_params *params, Oid type, const void *data, size_t len)
{
    add(params, type, FORMAT_BINARY, data, len);
}
