/* SPDX-License-Identifier: MIT */
#include "orphan.h"

#include "life.h"

#include <string.h>

#define BATCH 32

struct batch {
    int count, most;
    unsigned char tokens[BATCH][DLOCK_TOKEN_SIZE];
};

/* Copies: the rows change while the leases are ended. */
static int batch_read(struct sqlite_name *name, struct batch *batch)
{
    const struct sqlite_wake_file *file = &name->session->db.wake_file;
    sqlite3_stmt *row = NULL;
    int rc = sqlite_name_ask(name, SQ_LIVES, &(struct sqlite_values){0}, &row);

    while (rc == SQLITE_ROW && batch->count < batch->most) {
        const void *token = sqlite3_column_blob(row, 0);

        if (token != NULL &&
            sqlite_life_is_over(file, (const char *)sqlite3_column_text(row, 1), token))
            memcpy(batch->tokens[batch->count++], token, DLOCK_TOKEN_SIZE);
        rc = sqlite_db_step(&name->session->db, SQ_LIVES);
    }
    sqlite_db_reset(&name->session->db, SQ_LIVES);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int sqlite_orphan_find(struct sqlite_name *name, bool *found)
{
    struct batch batch = {.most = 1};
    int rc = batch_read(name, &batch);

    *found = batch.count > 0;
    return rc;
}

int sqlite_orphan_end(struct sqlite_name *name, bool *ended)
{
    struct batch batch;
    int rc = SQLITE_OK;

    *ended = false;
    if (!name->held && (name->waiters_mask & SQ_SHARES) == 0)
        return SQLITE_OK;
    do {
        bool one = false;

        batch.count = 0;
        batch.most = BATCH;
        rc = batch_read(name, &batch);
        for (int i = 0; rc == SQLITE_OK && i < batch.count; i++)
            rc = sqlite_name_end(name, batch.tokens[i], &one);
        *ended |= batch.count > 0;
        if (*ended) /* waiters without a queue entry */
            sqlite_wake_file_add(&name->session->db.wake_set, name->bytes, name->len);
    } while (rc == SQLITE_OK && batch.count == BATCH);
    return rc;
}
