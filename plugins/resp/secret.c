/* SPDX-License-Identifier: MIT */
#include "resp/secret.h"

#include <stdlib.h>
#include <string.h>

enum dlock_status resp_secret_read(const struct dlock_target *target, const char *origin,
                                   char **secret, struct dlock_error *err)
{
    int len = -1;

    *secret = malloc(RESP_SECRET_MAX);
    if (*secret == NULL)
        return dlock_fail(err, origin, DLOCK_NOMEM, 0, "no memory for a password");
    len = target->read_secret(target, NULL, *secret, RESP_SECRET_MAX, err);
    if (len >= 0)
        return DLOCK_OK;
    free(*secret);
    *secret = NULL;
    return len == -2 ? err->status : DLOCK_OK;
}
