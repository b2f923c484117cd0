/* SPDX-License-Identifier: MIT */
#include "rpc.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX_SIZE 5 /* of a message of gRPC: not compressed, and its length */

static const struct method {
    const char *path;
    const ProtobufCMessageDescriptor *answer;
    bool writes;
} methods[] = {
    [ETCD_RANGE] = {"/etcdserverpb.KV/Range", &pb__range_response__descriptor, false},
    [ETCD_TXN] = {"/etcdserverpb.KV/Txn", &pb__txn_response__descriptor, true},
    [ETCD_DELETE] = {"/etcdserverpb.KV/DeleteRange", &pb__delete_response__descriptor, true},
    [ETCD_WATCH] = {"/etcdserverpb.Watch/Watch", &pb__watch_response__descriptor, false},
    [ETCD_LEASE_GRANT] = {"/etcdserverpb.Lease/LeaseGrant", &pb__lease_grant_response__descriptor,
                          true},
    [ETCD_LEASE_REVOKE] = {"/etcdserverpb.Lease/LeaseRevoke",
                           &pb__lease_revoke_response__descriptor, true},
    [ETCD_LEASE_KEEP_ALIVE] = {"/etcdserverpb.Lease/LeaseKeepAlive",
                               &pb__lease_response__descriptor, false},
    [ETCD_LEASE_TIME_TO_LIVE] = {"/etcdserverpb.Lease/LeaseTimeToLive",
                                 &pb__lease_response__descriptor, false},
    [ETCD_AUTHENTICATE] = {"/etcdserverpb.Auth/Authenticate",
                           &pb__authenticate_response__descriptor, false},
    [ETCD_STATUS] = {"/etcdserverpb.Maintenance/Status", &pb__status_response__descriptor, false},
    [ETCD_ALARM] = {"/etcdserverpb.Maintenance/Alarm", &pb__alarm_response__descriptor, false},
    [ETCD_MEMBER_LIST] = {"/etcdserverpb.Cluster/MemberList", &pb__member_list_response__descriptor,
                          false},
};

/* ---- transactions in transactions ---- */

#define DEPTH_MOST     4 /* of the answer to one; ours have 1 */
#define RESPONSES_TAG  0x1a
#define NESTED_TXN_TAG 0x22

/* False: *at has no number. */
static bool number_read(const unsigned char **at, const unsigned char *end, uint64_t *number)
{
    *number = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        unsigned char byte = *(*at)++;

        *number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* The length of a field's bytes; SIZE_MAX: there is no such field. */
static size_t field_len(const unsigned char **at, const unsigned char *end, uint64_t tag)
{
    uint64_t number = 0;

    switch (tag & 7) {
    case 0:
        return number_read(at, end, &number) ? 0 : SIZE_MAX;
    case 1:
        return 8;
    case 2:
        return number_read(at, end, &number) ? (size_t)number : SIZE_MAX;
    case 5:
        return 4;
    default:
        return SIZE_MAX;
    }
}

/* protobuf-c calls itself for each message in a message, and the stack of the thread that reads may
 * be small. wanted: the tag of fields that may have transactions in them. Nonsense is for
 * protobuf-c to find. */
static bool is_shallow(const unsigned char *at, size_t len, unsigned wanted, unsigned depth)
{
    const unsigned char *end = at + len;
    uint64_t tag = 0;

    while (number_read(&at, end, &tag)) {
        size_t field = field_len(&at, end, tag);

        if (field > (size_t)(end - at))
            return true;
        if (tag == wanted &&
            (depth == 0 ||
             !is_shallow(at, field, wanted == RESPONSES_TAG ? NESTED_TXN_TAG : RESPONSES_TAG,
                         depth - 1)))
            return false;
        at += field;
    }
    return true;
}

/* ---- answers ---- */

static void *answer_alloc(void *arg, size_t size)
{
    struct etcd_rpc *rpc = arg;
    void *memory = malloc(size);

    if (memory == NULL)
        rpc->no_memory = true;
    return memory;
}

static void answer_free(void *arg, void *memory)
{
    (void)arg;
    free(memory);
}

/* In the leader's thread. The call is the first member. */
static bool answer_take(struct etcd_call *call, const unsigned char *message, size_t len)
{
    struct etcd_rpc *rpc = (struct etcd_rpc *)(void *)call;
    size_t count = atomic_load(&rpc->count);
    ProtobufCAllocator allocator = {answer_alloc, answer_free, rpc};

    if (count == rpc->most ||
        (rpc->method == ETCD_TXN && !is_shallow(message, len, RESPONSES_TAG, 2 * DEPTH_MOST)))
        return false;
    rpc->answers[count] =
        protobuf_c_message_unpack(methods[rpc->method].answer, &allocator, len, message);
    if (rpc->answers[count] == NULL)
        return false;
    atomic_store(&rpc->count, count + 1);
    return true;
}

static void answers_free(struct etcd_rpc *rpc)
{
    size_t count = atomic_load(&rpc->count);

    for (size_t i = 0; i < count; i++)
        protobuf_c_message_free_unpacked(rpc->answers[i], NULL);
    atomic_store(&rpc->count, 0);
}

const ProtobufCMessage *etcd_rpc_answer(const struct etcd_rpc *rpc, size_t i)
{
    return rpc->answers[i];
}

/* The first field of every answer; may be NULL. */
static const Pb__Header *header_of(const ProtobufCMessage *answer)
{
    const char *at = (const char *)answer + answer->descriptor->fields[0].offset;

    return *(const Pb__Header *const *)(const void *)at;
}

static int64_t revision_of(const ProtobufCMessage *answer)
{
    const Pb__Header *header = header_of(answer);

    return header != NULL ? header->revision : 0;
}

uint64_t etcd_rpc_term(const struct etcd_rpc *rpc)
{
    size_t count = atomic_load(&rpc->count);
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < count; i++) {
        const Pb__Header *header = header_of(rpc->answers[i]);

        if (header != NULL && header->raft_term < least)
            least = header->raft_term;
    }
    return least != UINT64_MAX ? least : 0;
}

int64_t etcd_rpc_revision(const struct etcd_rpc *rpc)
{
    size_t count = atomic_load(&rpc->count);
    int64_t greatest = 0;

    for (size_t i = 0; i < count; i++) {
        int64_t revision = revision_of(rpc->answers[i]);

        if (revision > greatest)
            greatest = revision;
    }
    return greatest;
}

/* ---- requests ---- */

void etcd_rpc_init(struct etcd_rpc *rpc, enum etcd_method method, size_t most)
{
    memset(rpc, 0, sizeof *rpc);
    rpc->method = method;
    rpc->most = most;
    rpc->call.path = methods[method].path;
    rpc->call.on_message = answer_take;
}

bool etcd_rpc_writes(const struct etcd_rpc *rpc)
{
    return methods[rpc->method].writes;
}

/* Requests of many messages grow in large steps. The first one, which may hold a password, is not
 * copied. */
static bool packed_reserve(struct etcd_rpc *rpc, size_t len)
{
    size_t size = rpc->call.request_len + len;
    unsigned char *packed = NULL;

    if (size <= rpc->packed_size)
        return true;
    if (rpc->call.request_len > 0)
        size *= 2;
    packed = realloc(rpc->packed, size);
    if (packed == NULL)
        return false;
    rpc->packed = packed;
    rpc->packed_size = size;
    rpc->call.request = packed;
    return true;
}

bool etcd_rpc_add(struct etcd_rpc *rpc, const ProtobufCMessage *request)
{
    size_t len = protobuf_c_message_get_packed_size(request);
    unsigned char *at = NULL;

    if (rpc->answers == NULL)
        rpc->answers = calloc(rpc->most, sizeof rpc->answers[0]);
    if (rpc->answers == NULL || !packed_reserve(rpc, PREFIX_SIZE + len))
        return false;
    at = rpc->packed + rpc->call.request_len;
    at[0] = 0;
    for (int i = 1; i < PREFIX_SIZE; i++)
        at[i] = (unsigned char)(len >> 8 * (PREFIX_SIZE - 1 - i));
    (void)protobuf_c_message_pack(request, at + PREFIX_SIZE);
    rpc->call.request_len += PREFIX_SIZE + len;
    return true;
}

void etcd_rpc_again(struct etcd_rpc *rpc)
{
    struct etcd_call old = rpc->call;

    answers_free(rpc);
    rpc->no_memory = false;
    rpc->call = (struct etcd_call){
        .path = old.path,
        .request = old.request,
        .request_len = old.request_len,
        .on_message = old.on_message,
    };
}

void etcd_rpc_fini(struct etcd_rpc *rpc)
{
    answers_free(rpc);
    free(rpc->answers);
    if (rpc->method == ETCD_AUTHENTICATE && rpc->packed != NULL)
        explicit_bzero(rpc->packed, rpc->packed_size);
    free(rpc->packed);
    etcd_rpc_init(rpc, rpc->method, rpc->most);
}

/* ---- what the end of a call means ---- */

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

struct etcd_verdict etcd_rpc_judge(const struct etcd_call *call)
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

const char *etcd_rpc_hint(const struct etcd_call *call)
{
    if (call->end != ETCD_ANSWERED)
        return "";
    if (etcd_rpc_judge(call).login)
        return " (want a login, as in etcd://user@host with pass_file=)";
    if (call->grpc_status == GRPC_PERMISSION_DENIED)
        return " (the user needs rights to read and write the keys of the lock)";
    if (strstr(call->text, NO_SPACE) != NULL)
        return " (compact and defragment it, and disarm the alarm)";
    return "";
}

bool etcd_rpc_no_space(const struct dlock_error *err)
{
    return err->code == GRPC_RESOURCE_EXHAUSTED && strstr(err->message, NO_SPACE) != NULL;
}

bool etcd_rpc_too_many_ops(const struct dlock_error *err)
{
    return err->code == GRPC_INVALID_ARGUMENT && strstr(err->message, TOO_MANY_OPS) != NULL;
}
