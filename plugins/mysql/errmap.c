/* SPDX-License-Identifier: MIT */
/* Numbers and not names: those of errmsg.h and mysqld_error.h differ between the two families. */
#include "errmap.h"

bool my_errmap_fatal(unsigned code)
{
    switch (code) {
    case 1053: /* server shutdown in progress */
    case 1152: /* aborted connection */
    case 1153: /* and other trouble with packets */
    case 1156:
    case 1157:
    case 1158:
    case 1159:
    case 1160:
    case 1161:
    case 1184:
    case 1927: /* connection was killed */
    case 3169: /* the same of MySQL */
    case 4031: /* disconnected for inactivity, MySQL */
        return true;
    default:
        return code >= 2000 && code < 3000;
    }
}

bool my_errmap_contention(unsigned code)
{
    return code == 1205 || code == 1213 || code == 1020 || code == 1062 ||
           code == 3572 /* NOWAIT of MySQL */;
}

bool my_errmap_out_of_time(unsigned code)
{
    return code == 1969 || code == 3024;
}

/* The statement was not begun or was undone, and the reason may pass. */
static bool undone(unsigned code)
{
    switch (code) {
    case 1021: /* full: disk, table, locks */
    case 1114:
    case 1206:
    case 1036: /* read-only: table, server, transaction, with a global lock */
    case 1099:
    case 1223:
    case 1290:
    case 1792:
    case 1836:
    case 1040: /* too many connections, statements, changes */
    case 1203:
    case 1226:
    case 1461:
    case 1047: /* Galera: not ready */
    case 1129: /* this host is blocked; locked by others for the moment */
    case 1015:
    case 1100:
    case 1192:
    case 1317: /* interrupted */
    case 1243: /* the prepared statement is unknown, or has to be prepared again */
    case 1615:
        return true;
    default:
        return my_errmap_contention(code) || my_errmap_out_of_time(code);
    }
}

/* Errors that the server sent as its answer to a statement. By default it is not known whether the
 * statement had an effect: an error may come after the engine has committed (1180, 1026, 1030,
 * 3100). */
static enum dlock_status refusal(unsigned code, bool in_transaction)
{
    switch (code) {
    case 1044: /* access denied: database, user, command, table, column */
    case 1045:
    case 1142:
    case 1143:
    case 1227:
    case 1370:
    case 1820: /* the password has expired */
    case 1862:
    case 4151: /* the account is locked */
    case 3118:
        return DLOCK_AUTH;
    case 1049: /* no such database, table, column, type, engine; a binary log that cannot take it */
    case 1051:
    case 1054:
    case 1064:
    case 1146:
    case 1264:
    case 1286:
    case 1406:
    case 1366:
    case 1665:
    case 1932:
        return DLOCK_CONFIG;
    case 1041:
    case 1037:
        return DLOCK_NOMEM;
    default:
        return in_transaction || undone(code) ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN;
    }
}

enum dlock_status my_errmap_status(unsigned code, bool in_transaction)
{
    switch (code) {
    case 1153: /* longer than max_allowed_packet, now and the next time */
        return DLOCK_CONFIG;
    case 2002: /* cannot connect, no such host */
    case 2003:
    case 2005:
    case 2006: /* could not be written */
        return DLOCK_UNAVAILABLE;
    case 2007: /* another protocol, malformed packet */
    case 2027:
        return DLOCK_PROTOCOL;
    case 2008: /* for the request, or for its answer */
        return in_transaction ? DLOCK_NOMEM : DLOCK_UNKNOWN;
    default:
        if (my_errmap_fatal(code))
            return in_transaction ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN;
        return refusal(code, in_transaction);
    }
}

enum dlock_status my_errmap_contended(enum dlock_status status, const struct dlock_error *err)
{
    if ((status == DLOCK_UNAVAILABLE || status == DLOCK_BUSY) &&
        my_errmap_contention((unsigned)err->code))
        return DLOCK_BUSY;
    return status;
}
