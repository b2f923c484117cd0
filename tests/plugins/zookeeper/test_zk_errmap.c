/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/exchange.c */
/* Which statuses have the errors of ZooKeeper, and what do people read? */
#include "exchange.h"

#include <criterion/criterion.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

static const struct {
    int rc;
    enum dlock_status status;
    const char *text; /* a part of the message */
} rows[] = {
    {ZNOAUTH, DLOCK_AUTH, "pass_file="},
    {ZAUTHFAILED, DLOCK_AUTH, "authentication failed"},
    {ZSESSIONCLOSEDREQUIRESASLAUTH, DLOCK_AUTH, "SASL"},
    {ZINVALIDACL, DLOCK_CONFIG, "wants a user"},
    {ZNOCHILDRENFOREPHEMERALS, DLOCK_CONFIG, "is ephemeral"},
    {ZEPHEMERALONLOCALSESSION, DLOCK_CONFIG, "localSessionsUpgradingEnabled"},
    {ZUNIMPLEMENTED, DLOCK_CONFIG, "want ZooKeeper 3.5"},
    {-125, DLOCK_CONFIG, "quota"},
    {ZCONNECTIONLOSS, DLOCK_UNAVAILABLE, "connection loss"},
    {ZOPERATIONTIMEOUT, DLOCK_UNAVAILABLE, "operation timeout"},
    {ZCLOSING, DLOCK_UNAVAILABLE, "closing"},
    {ZINVALIDSTATE, DLOCK_UNAVAILABLE, "invalid zhandle state"},
    {ZSESSIONEXPIRED, DLOCK_UNAVAILABLE, "session expired"},
    {ZSESSIONMOVED, DLOCK_UNAVAILABLE, "session moved"},
    {ZNOTREADONLY, DLOCK_UNAVAILABLE, "read-only"},
    {ZTHROTTLEDOP, DLOCK_UNAVAILABLE, "throttled"},
    {ZBADARGUMENTS, DLOCK_PROTOCOL, "bad arguments"},
    {ZNODEEXISTS, DLOCK_PROTOCOL, "node exists"},
    {-99, DLOCK_PROTOCOL, "unknown error"},
};

Test(errmap, ERRORS_each_error_has_a_status_and_a_text)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct dlock_error err = DLOCK_ERROR_INIT;

        cr_assert_eq(zk_exchange_fail(&err, rows[i].rc, "create", "/p/job"), rows[i].status, "%d",
                     rows[i].rc);
        cr_assert_eq(err.status, rows[i].status);
        cr_assert_eq(err.code, rows[i].rc);
        cr_assert_str_eq(err.origin, "zookeeper");
        cr_assert_eq(strncmp(err.message, "create /p/job: ", 15), 0, "%s", err.message);
        cr_assert_not_null(strstr(err.message, rows[i].text), "%d: %s", rows[i].rc, err.message);
    }
}
