/* SPDX-License-Identifier: MIT */
#include "session_inspect.h"

#include "lib/hex.h"
#include "query.h"
#include "statements.h"

enum { NAME, IS_SHARED, FENCE, LEASE_MS, HELD_MS, TOKEN, LABEL, WAITERS, PID };

static bool report(const PGresult *result, int row, dlock_holder_fn *fn, void *arg)
{
    char owner[2 * DLOCK_TOKEN_SIZE + 1], process[64];
    size_t name_len = 0, token_len = 0, label_len = 0;
    const unsigned char *name = pg_query_bytes(result, row, NAME, &name_len);
    const unsigned char *token = pg_query_bytes(result, row, TOKEN, &token_len);
    const unsigned char *label = pg_query_bytes(result, row, LABEL, &label_len);
    struct dlock_holder info = {
        .struct_size = sizeof info,
        .name = name,
        .name_len = (uint32_t)name_len,
        .mode = pg_query_number(result, row, IS_SHARED) != 0 ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
        .waiters = (uint32_t)pg_query_number(result, row, WAITERS),
        .fence = (uint64_t)pg_query_number(result, row, FENCE),
        .fence_room = PG_FENCE_STEP - 1,
        .remaining_ms = pg_query_number(result, row, LEASE_MS),
        .held_ms = pg_query_number(result, row, HELD_MS),
        .owner = owner,
        .label = label != NULL ? (const char *)label : process,
    };

    (void)snprintf(process, sizeof process, "another program, process %d of the server",
                   (int)pg_query_number(result, row, PID));
    dl_hex_encode(owner, token, token_len <= DLOCK_TOKEN_SIZE ? token_len : 0);
    return fn(arg, &info);
}

static enum dlock_status inspect(struct pg_session *session, const unsigned char *name,
                                 uint32_t name_len, bool whole, int64_t deadline_ns,
                                 dlock_holder_fn *fn, void *arg, struct dlock_error *err)
{
    struct pg_connection *conn = &session->conn;
    struct pg_params params = {.count = 0};
    PGresult *result = NULL;
    enum dlock_status status = pg_connection_enter(conn, deadline_ns, err);

    if (status != DLOCK_OK)
        return status;
    pg_params_bytes(&params, name_len > 0 ? name : (const unsigned char *)"", name_len);
    pg_params_number(&params, whole);
    pg_params_number(&params, conn->config->has_number);
    status = pg_statements_run(conn, PG_SESSION_HOLDERS, &params, 0, &result, err);
    for (int row = 0; status == DLOCK_OK && row < PQntuples(result); row++) {
        if (report(result, row, fn, arg))
            break;
    }
    PQclear(result);
    return status;
}

enum dlock_status pg_session_inspect(struct pg_session *session, const unsigned char *name,
                                     uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                     void *arg, struct dlock_error *err)
{
    return inspect(session, name, name_len, true, deadline_ns, fn, arg, err);
}

enum dlock_status pg_session_inspect_list(struct pg_session *session, const unsigned char *prefix,
                                          uint32_t prefix_len, int64_t deadline_ns,
                                          dlock_holder_fn *fn, void *arg, struct dlock_error *err)
{
    return inspect(session, prefix, prefix_len, false, deadline_ns, fn, arg, err);
}
