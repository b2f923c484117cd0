/* SPDX-License-Identifier: MIT */
#include "errmap.h"

#include <zookeeper/zookeeper.h>

#define SPACE_EXHAUSTED (-125) /* ZQUOTAEXCEEDED of 3.9; zookeeper.h of 3.8 does not have it */

static enum dlock_status status_of(int rc)
{
    switch (rc) {
    case ZNOAUTH:
    case ZAUTHFAILED:
    case ZSESSIONCLOSEDREQUIRESASLAUTH:
        return DLOCK_AUTH;
    case ZINVALIDACL:
    case ZNOCHILDRENFOREPHEMERALS:
    case ZEPHEMERALONLOCALSESSION:
    case ZUNIMPLEMENTED:
    case SPACE_EXHAUSTED:
        return DLOCK_CONFIG;
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZCLOSING:
    case ZINVALIDSTATE:
    case ZSESSIONEXPIRED:
    case ZSESSIONMOVED:
    case ZNOTREADONLY:
    case ZTHROTTLEDOP:
        return DLOCK_UNAVAILABLE;
    default:
        return DLOCK_PROTOCOL;
    }
}

static const char *hint_of(int rc)
{
    switch (rc) {
    case ZNOAUTH:
        return " (want zk://user@host with pass_file=, or other ACLs)";
    case ZSESSIONCLOSEDREQUIRESASLAUTH:
        return " (want a login: zk://user@host with pass_file=)";
    case ZINVALIDACL:
        return " (acl=creator wants a user)";
    case ZNOCHILDRENFOREPHEMERALS:
        return " (a node above it is ephemeral)";
    case ZEPHEMERALONLOCALSESSION:
        return " (the servers have localSessionsEnabled; want localSessionsUpgradingEnabled, too)";
    case ZUNIMPLEMENTED:
        return " (want ZooKeeper 3.5 or later)";
    case SPACE_EXHAUSTED:
        return " (the quota of the node is exceeded)";
    default:
        return "";
    }
}

enum dlock_status zk_errmap_fail(struct dlock_error *err, int rc, const char *what,
                                 const char *path)
{
    return dlock_fail(err, ZK_ORIGIN, status_of(rc), rc, "%s %s: %s%s", what, path, zerror(rc),
                      hint_of(rc));
}
