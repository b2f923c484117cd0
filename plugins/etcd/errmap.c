/* SPDX-License-Identifier: MIT */
#include "errmap.h"

#include <string.h>

#define NO_SPACE     "database space exceeded"
#define TOO_MANY_OPS "too many operations"

/* The numbers of gRPC that etcd uses. */
enum {
    GRPC_OK = 0,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_NOT_FOUND = 5,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = ETCD_NO_SPACE,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
    GRPC_UNAUTHENTICATED = 16,
    ANY = -1
};

static const struct etcd_verdict in_doubt = {.status = DLOCK_UNKNOWN};

/*
 * The first row that fits counts. text: a part of the message; NULL: any. What is not here may have
 * been executed.
 *
 * Not certain, although it looks so: "database space exceeded" may come after the execution of what
 * exceeded it, "server stopped" after the request was handed to the cluster, and "leader changed"
 * while it is on its way.
 */
static const struct {
    int code;
    const char *text;
    struct etcd_verdict verdict;
} rows[] = {
    {GRPC_OK, NULL, {.status = DLOCK_OK}},
    {GRPC_INVALID_ARGUMENT,
     "user name is empty",
     {.status = DLOCK_AUTH, .unprocessed = true, .login = true}},
    {GRPC_INVALID_ARGUMENT,
     "revision of auth store is old",
     {.status = DLOCK_AUTH, .unprocessed = true, .login = true}},
    {ANY, "revision in header is old", {.status = DLOCK_AUTH, .unprocessed = true, .login = true}},
    {GRPC_INVALID_ARGUMENT, "authentication failed", {.status = DLOCK_AUTH, .unprocessed = true}},
    {GRPC_INVALID_ARGUMENT, "request is too large", {.status = DLOCK_CONFIG, .unprocessed = true}},
    {GRPC_INVALID_ARGUMENT, TOO_MANY_OPS, {.status = DLOCK_CONFIG, .unprocessed = true}},
    {GRPC_INVALID_ARGUMENT, "etcdserver: ", {.status = DLOCK_PROTOCOL, .unprocessed = true}},
    {GRPC_NOT_FOUND, "requested lease not found", {.status = DLOCK_LOST, .unprocessed = true}},
    {GRPC_PERMISSION_DENIED,
     "etcdserver: permission denied",
     {.status = DLOCK_AUTH, .unprocessed = true}},
    {GRPC_RESOURCE_EXHAUSTED,
     "too many requests",
     {.status = DLOCK_UNAVAILABLE, .unprocessed = true}},
    {GRPC_RESOURCE_EXHAUSTED,
     "received message larger than max",
     {.status = DLOCK_CONFIG, .unprocessed = true}},
    {GRPC_FAILED_PRECONDITION,
     "lease already exists",
     {.status = DLOCK_UNAVAILABLE, .unprocessed = true}},
    {GRPC_FAILED_PRECONDITION,
     "authentication is not enabled",
     {.status = DLOCK_AUTH, .unprocessed = true}},
    {GRPC_OUT_OF_RANGE, "required revision", {.status = DLOCK_UNAVAILABLE, .unprocessed = true}},
    {GRPC_OUT_OF_RANGE, "too large lease TTL", {.status = DLOCK_CONFIG, .unprocessed = true}},
    {GRPC_UNIMPLEMENTED, NULL, {.status = DLOCK_PROTOCOL, .unprocessed = true, .elsewhere = true}},
    {GRPC_UNAVAILABLE,
     "etcdserver: no leader",
     {.status = DLOCK_UNAVAILABLE, .unprocessed = true, .elsewhere = true}},
    {GRPC_UNAVAILABLE,
     "not capable",
     {.status = DLOCK_UNAVAILABLE, .unprocessed = true, .elsewhere = true}},
    {ANY,
     "rpc not supported for learner",
     {.status = DLOCK_UNAVAILABLE, .unprocessed = true, .elsewhere = true}},
    {GRPC_UNAVAILABLE, NULL, {.status = DLOCK_UNKNOWN, .elsewhere = true}},
    {GRPC_DATA_LOSS, "corrupt cluster", {.status = DLOCK_UNAVAILABLE, .unprocessed = true}},
    {GRPC_UNAUTHENTICATED,
     "invalid auth token",
     {.status = DLOCK_AUTH, .unprocessed = true, .login = true}},
};

static struct etcd_verdict answer_judge(int code, const char *text)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if ((rows[i].code == code || rows[i].code == ANY) &&
            (rows[i].text == NULL || strstr(text, rows[i].text) != NULL))
            return rows[i].verdict;
    return in_doubt;
}

struct etcd_verdict etcd_errmap_judge(const struct etcd_call *call)
{
    switch (call->end) {
    case ETCD_ANSWERED:
        return answer_judge(call->grpc_status, call->text);
    case ETCD_UNSENT:
        return (struct etcd_verdict){
            .status = DLOCK_UNAVAILABLE, .unprocessed = true, .elsewhere = true};
    case ETCD_FOREIGN:
        return (struct etcd_verdict){.status = DLOCK_PROTOCOL, .elsewhere = true};
    case ETCD_NO_MEMORY:
        return (struct etcd_verdict){.status = DLOCK_NOMEM, .unprocessed = true};
    case ETCD_OPEN:
    case ETCD_CUT:
        break;
    }
    return (struct etcd_verdict){.status = DLOCK_UNKNOWN, .elsewhere = true};
}

const char *etcd_errmap_hint(const struct etcd_call *call)
{
    if (call->end != ETCD_ANSWERED)
        return "";
    if (etcd_errmap_judge(call).login)
        return " (want a login, as in etcd://user@host with pass_file=)";
    if (call->grpc_status == GRPC_PERMISSION_DENIED)
        return " (the user needs rights to read and write the keys of the lock)";
    if (strstr(call->text, NO_SPACE) != NULL)
        return " (compact and defragment it, and disarm the alarm)";
    return "";
}

bool etcd_errmap_no_space(const struct dlock_error *err)
{
    return err->code == GRPC_RESOURCE_EXHAUSTED && strstr(err->message, NO_SPACE) != NULL;
}

bool etcd_errmap_too_many_ops(const struct dlock_error *err)
{
    return err->code == GRPC_INVALID_ARGUMENT && strstr(err->message, TOO_MANY_OPS) != NULL;
}
