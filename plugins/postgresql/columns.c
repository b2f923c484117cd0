/* SPDX-License-Identifier: MIT */
#include "columns.h"

#include "lib/holder_text.h"
#include "row_lease.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LEN 255

/* Types of the server, fixed for ever. */
enum {
    TYPE_BOOLEAN = 16,
    TYPE_BYTEA = 17,
    TYPE_BIGINT = 20,
    TYPE_BOOLEANS = 1000,
    TYPE_BYTEAS = 1001,
    TYPE_BIGINTS = 1016
};

static size_t number_write(unsigned char *out, int64_t number)
{
    const uint64_t bytes = htobe64((uint64_t)number);

    memcpy(out, &bytes, sizeof bytes);
    return sizeof bytes;
}

static size_t boolean_write(unsigned char *out, bool yes)
{
    out[0] = yes;
    return 1;
}

static size_t name_write(unsigned char *out, const struct dlock_request *req)
{
    const size_t len = req->name_len < NAME_MAX_LEN ? req->name_len : NAME_MAX_LEN;

    memcpy(out, req->name, len);
    return len;
}

static size_t token_write(unsigned char *out, const struct dlock_request *req)
{
    memcpy(out, req->token, sizeof req->token);
    return sizeof req->token;
}

static size_t ttl_write(unsigned char *out, const struct dlock_request *req)
{
    return number_write(out, req->ttl_ms);
}

static size_t shared_write(unsigned char *out, const struct dlock_request *req)
{
    return boolean_write(out, req->mode == DLOCK_SHARED);
}

static size_t limit_write(unsigned char *out, const struct dlock_request *req)
{
    return number_write(out, dlock_request_limit(req));
}

static size_t what_write(unsigned char *out, const struct dlock_request *req)
{
    return number_write(out, pg_lease_what(req));
}

static size_t text_write(unsigned char *out, const struct dlock_request *req)
{
    return dl_holder_text_make((char *)out, req);
}

static size_t keep_write(unsigned char *out, const struct dlock_request *req)
{
    return number_write(out, dlock_request_keep_ms(req));
}

static size_t downgrade_write(unsigned char *out, const struct dlock_request *req)
{
    return boolean_write(out, (req->flags & DLOCK_REQ_DOWNGRADE) != 0);
}

/* out has room for `most` bytes. */
static const struct column {
    size_t (*write)(unsigned char *out, const struct dlock_request *req);
    size_t most;
    uint32_t type, of;
} list[] = {
    [PG_COLUMN_NAME] = {name_write, NAME_MAX_LEN, TYPE_BYTEAS, TYPE_BYTEA},
    [PG_COLUMN_TOKEN] = {token_write, DLOCK_TOKEN_SIZE, TYPE_BYTEAS, TYPE_BYTEA},
    [PG_COLUMN_TTL] = {ttl_write, sizeof(int64_t), TYPE_BIGINTS, TYPE_BIGINT},
    [PG_COLUMN_SHARED] = {shared_write, 1, TYPE_BOOLEANS, TYPE_BOOLEAN},
    [PG_COLUMN_LIMIT] = {limit_write, sizeof(int64_t), TYPE_BIGINTS, TYPE_BIGINT},
    [PG_COLUMN_WHAT] = {what_write, sizeof(int64_t), TYPE_BIGINTS, TYPE_BIGINT},
    [PG_COLUMN_TEXT] = {text_write, DL_HOLDER_TEXT_MAX, TYPE_BYTEAS, TYPE_BYTEA},
    [PG_COLUMN_KEEP] = {keep_write, sizeof(int64_t), TYPE_BIGINTS, TYPE_BIGINT},
    [PG_COLUMN_DOWNGRADE] = {downgrade_write, 1, TYPE_BOOLEANS, TYPE_BOOLEAN},
};

static size_t word_write(unsigned char *out, size_t word)
{
    const uint32_t bytes = htobe32((uint32_t)word);

    memcpy(out, &bytes, sizeof bytes);
    return sizeof bytes;
}

/* Dimensions, nulls, type; length and first index of the one dimension. */
static size_t head_write(unsigned char *out, uint32_t of, size_t n)
{
    size_t len = word_write(out, 1);

    len += word_write(out + len, 0);
    len += word_write(out + len, of);
    len += word_write(out + len, n);
    return len + word_write(out + len, 1);
}

#define WORD sizeof(uint32_t)
#define HEAD (5 * WORD)

bool pg_columns_add(struct pg_columns *columns, struct pg_params *params, enum pg_column which,
                    const struct dlock_request *const *reqs, size_t n)
{
    const struct column *column = &list[which];
    unsigned char *array = malloc(HEAD + n * (WORD + column->most));
    size_t len = 0;

    if (array == NULL)
        return false;
    columns->arrays[columns->count++] = array;
    len = head_write(array, column->of, n);
    for (size_t i = 0; i < n; i++) {
        const size_t size = column->write(array + len + WORD, reqs[i]);

        len += word_write(array + len, size) + size;
    }
    pg_params_array(params, column->type, array, len);
    return true;
}

void pg_columns_free(struct pg_columns *columns)
{
    for (int i = 0; i < columns->count; i++)
        free(columns->arrays[i]);
    columns->count = 0;
}
