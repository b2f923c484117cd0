/* SPDX-License-Identifier: MIT */
/* params.h - the parameters of one statement, as libpq wants them. */
#ifndef PG_PARAMS_H
#define PG_PARAMS_H

#include <endian.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PG_PARAMS_MAX 16

/* Zeroed at first. Borrows the bytes and texts. Must not move in memory: values point into it. */
struct pg_params {
    int count;
    Oid types[PG_PARAMS_MAX];
    const char *values[PG_PARAMS_MAX];
    int lengths[PG_PARAMS_MAX];
    int formats[PG_PARAMS_MAX];
    uint64_t numbers[PG_PARAMS_MAX];
};

/* Types of the server, fixed for ever. */
enum { PG_PARAMS_BYTEA = 17, PG_PARAMS_BIGINT = 20, PG_PARAMS_TEXT = 25 };

/* Type 0: the statement says it. Of more than PG_PARAMS_MAX the server misses one, and says so. */
static inline void pg_params_add(struct pg_params *params, Oid type, bool binary, const void *value,
                                 size_t len)
{
    const int i = params->count;

    if (i >= PG_PARAMS_MAX)
        return;
    params->types[i] = type;
    params->values[i] = value;
    params->lengths[i] = (int)len;
    params->formats[i] = binary;
    params->count = i + 1;
}

/* Appends a bytea (data NULL: a null); */
static inline void pg_params_bytes(struct pg_params *params, const void *data, size_t len)
{
    pg_params_add(params, PG_PARAMS_BYTEA, true, data, len);
}

/* a bigint; */
static inline void pg_params_number(struct pg_params *params, int64_t number)
{
    uint64_t *at = &params->numbers[params->count % PG_PARAMS_MAX];

    if (params->count < PG_PARAMS_MAX)
        *at = htobe64((uint64_t)number);
    pg_params_add(params, PG_PARAMS_BIGINT, true, at, sizeof *at);
}

/* a text, which must be valid in the database's encoding (ASCII is); NULL: a null; */
static inline void pg_params_text(struct pg_params *params, const char *text)
{
    pg_params_add(params, PG_PARAMS_TEXT, false, text, 0);
}

/* a literal whose type the statement says, as in $1::bytea[]. */
static inline void pg_params_literal(struct pg_params *params, const char *text)
{
    pg_params_add(params, 0, false, text, 0);
}

#endif
