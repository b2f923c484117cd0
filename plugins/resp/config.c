/* SPDX-License-Identifier: MIT */
#include "resp/config.h"

#include <stdlib.h>
#include <string.h>

enum dlock_status resp_config_take_tls(struct resp_config *configs, unsigned count,
                                       const struct dlock_target *target, struct dlock_error *err)
{
    struct tls_options tls;
    enum dlock_status status = DLOCK_OK;
    const char *sni = target->option(target, "sni");
    char missing[96];
    size_t plain = strcspn(target->scheme, "+");
    bool secure = false;

    if (strstr(target->scheme, "+unix") != NULL)
        (void)snprintf(missing, sizeof missing, "a unix socket does without");
    else
        (void)snprintf(missing, sizeof missing, "%.*ss%s:// and not %s://", (int)plain,
                       target->scheme, target->scheme + plain, target->scheme);
    for (unsigned i = 0; i < count; i++)
        secure |= configs[i].secure;
    status = tls_options_take(&tls, target, configs->origin, secure ? NULL : missing, err);
    for (unsigned i = 0; i < count && status == DLOCK_OK; i++) {
        configs[i].tls = tls;
        configs[i].sni = sni;
    }
    return status;
}

enum dlock_status resp_config_read_secret(const struct dlock_target *target, const char *origin,
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
