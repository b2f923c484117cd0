/* SPDX-License-Identifier: MIT */
#include "redis_peer.h"

#include <string.h>

static const char *const names[] = {"ca", "cert", "key_file", "verify", "sni"};

static enum dlock_status unasked(const char *origin, const struct dlock_target *target,
                                 struct dlock_error *err)
{
    bool local = strchr(target->scheme, '+') != NULL;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (target->option(target, names[i]) == NULL)
            continue;
        if (local)
            return dlock_fail(err, origin, DLOCK_INVALID, 0,
                              "%s= is for TLS, which a unix socket does without", names[i]);
        return dlock_fail(err, origin, DLOCK_INVALID, 0, "%s= is for TLS: %ss:// and not %s://",
                          names[i], target->scheme, target->scheme);
    }
    return DLOCK_OK;
}

enum dlock_status redis_tls_take(struct redis_place *places, unsigned count,
                                 const struct dlock_target *target, struct dlock_error *err)
{
    const char *verify = target->option(target, "verify");
    struct tls_options tls = {
        .ca = target->option(target, "ca"),
        .cert = target->option(target, "cert"),
        .key = target->option(target, "key_file"),
        .verify = TLS_VERIFY_FULL,
    };
    bool secure = false;

    for (unsigned i = 0; i < count; i++)
        secure |= places[i].secure;
    if (!secure)
        return count > 0 ? unasked(places[0].origin, target, err) : DLOCK_OK;
    if ((tls.cert == NULL) != (tls.key == NULL))
        return dlock_fail(err, places[0].origin, DLOCK_INVALID, 0,
                          "cert= and key_file= go together");
    if (verify != NULL && strcmp(verify, "ca") == 0)
        tls.verify = TLS_VERIFY_CA;
    else if (verify != NULL && strcmp(verify, "none") == 0)
        tls.verify = TLS_VERIFY_NONE;
    for (unsigned i = 0; i < count; i++) {
        places[i].tls = tls;
        places[i].sni = target->option(target, "sni");
    }
    return DLOCK_OK;
}
