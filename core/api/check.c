/* SPDX-License-Identifier: MIT */
#include "api/check.h"
#include "sys/error.h"

#include <string.h>

enum dlock_status dl_check_client(const struct dlock_client *client,
                                  const struct dlock_error *caller, struct dlock_error *err)
{
    dl_error_begin(err, caller);
    if (client == NULL)
        return dl_error(err, DLOCK_INVALID, "client is NULL");
    if (dl_client_forked(client))
        return dl_error(err, DLOCK_FORKED, "the client was opened before fork");
    return DLOCK_OK;
}

enum dlock_status dl_check_name(const void *name, size_t *name_len, struct dlock_error *err)
{
    size_t len;

    if (name == NULL)
        return dl_error(err, DLOCK_INVALID, "name is NULL");
    if (*name_len == DLOCK_NUL)
        *name_len = strnlen(name, DLOCK_NAME_MAX + 1);
    len = *name_len;
    if (len < 1 || len > DLOCK_NAME_MAX)
        return dl_error(err, DLOCK_INVALID, "a name has 1 to %d bytes, not %zu", DLOCK_NAME_MAX,
                        len);
    return DLOCK_OK;
}

enum dlock_status dl_check_acquire(struct dlock_client *client, enum dlock_mode mode,
                                   int64_t timeout_ms, struct dlock_error *err)
{
    if (mode != DLOCK_EXCLUSIVE && mode != DLOCK_SHARED)
        return dl_error(err, DLOCK_INVALID, "a mode of %d", (int)mode);
    if (timeout_ms < DLOCK_AS_OPTIONS)
        return dl_error(err, DLOCK_INVALID, "a timeout of %lld ms", (long long)timeout_ms);
    if (atomic_load(&client->unfit))
        return dl_error(
            err, DLOCK_CONFIG,
            "dlock_client_probe found that the store cannot keep a lock safely; a probe that "
            "finds it mended ends this");
    return DLOCK_OK;
}

enum dlock_status dl_check_ttl(int64_t ttl_ms, struct dlock_error *err)
{
    if (ttl_ms != 0 && (ttl_ms < DL_TTL_MIN_MS || ttl_ms > DL_TTL_MAX_MS))
        return dl_error(err, DLOCK_INVALID, "a ttl of %lld ms: want 50 ms to 7 days",
                        (long long)ttl_ms);
    return DLOCK_OK;
}
