/* SPDX-License-Identifier: MIT */
/* params.h - the parameters of one statement, as libpq wants them. */
#ifndef PG_PARAMS_H
#define PG_PARAMS_H

#include <libpq-fe.h>
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

/* Appends a bytea (data NULL: a null); */
void pg_params_bytes(struct pg_params *params, const void *data, size_t len);
/* a bigint; */
void pg_params_number(struct pg_params *params, int64_t number);
/* a text, which must be valid in the database's encoding (ASCII is); NULL: a null; */
void pg_params_text(struct pg_params *params, const char *text);
/* an array, binary; */
void pg_params_array(struct pg_params *params, Oid type, const void *data, size_t len);
/* a literal whose type the statement says, as in $1::bytea[]. */
void pg_params_literal(struct pg_params *params, const char *text);

#endif
