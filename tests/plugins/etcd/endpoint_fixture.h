/* SPDX-License-Identifier: MIT */
/* endpoint_fixture.h - the members of a cluster as a session has them, and exchanges to them,
 * without the slots. One test a program file uses one `e`. */
#ifndef DLT_ENDPOINT_FIXTURE_H
#define DLT_ENDPOINT_FIXTURE_H

#include "etcd_server.h"
#include "exchange.h"
#include "session_kit.h"

#include <criterion/criterion.h>
#include <string.h>

static struct {
    struct dlt_session s; /* its target, its host and its error */
    const char *hosts[ETCD_MEMBERS_MAX + 1];
    struct etcd_config config;
    struct tls *tls;
    struct etcd_endpoints endpoints;
} e;

/* A target with these hosts; call_ms is 5 s. */
__attribute__((unused)) static void e_target(const char *scheme, const char *first,
                                             const char *second, const char *third)
{
    static const struct dlock_plugin no_plugin;

    dlt_session_target(&e.s, &no_plugin, scheme, first);
    e.hosts[0] = e.s.address;
    e.hosts[1] = second;
    e.hosts[2] = second != NULL ? third : NULL;
    e.s.target.hosts = e.hosts;
    e.s.target.path = "/locks";
    e.s.call_ms = 5000;
}

static void e_close(void)
{
    etcd_endpoints_fini(&e.endpoints);
    memset(&e.endpoints, 0, sizeof e.endpoints);
    tls_free(e.tls);
    e.tls = NULL;
}

static int64_t e_deadline(void)
{
    return dlt_host_in(&e.s.host, e.s.call_ms);
}

/* Connects, as slot open does first. */
static enum dlock_status e_connect(void)
{
    struct etcd_connection *connection = NULL;
    enum dlock_status status = DLOCK_INTERNAL;
    char why[TLS_WHY_SIZE];
    bool fresh = false;

    e_close();
    e.s.err = (struct dlock_error)DLOCK_ERROR_INIT;
    status = etcd_config_init(&e.config, &e.s.target, &e.s.err);
    if (status == DLOCK_OK && e.config.secure) {
        e.tls = tls_new(&e.config.tls, &status, why, sizeof why);
        if (e.tls == NULL)
            return dlock_fail(&e.s.err, "etcd", status, 0, "%s", why);
    }
    if (status != DLOCK_OK)
        return status;
    cr_assert(etcd_endpoints_init(&e.endpoints, &e.config, &e.s.host.table, e.tls));
    status = etcd_endpoints_take(&e.endpoints, e_deadline(), &connection, &fresh, &e.s.err);
    if (status == DLOCK_OK) {
        cr_assert(fresh);
        etcd_endpoints_put(&e.endpoints, connection);
    }
    return status;
}

static enum dlock_status e_open(void)
{
    enum dlock_status status = e_connect();
    struct etcd_member member;

    if (status == DLOCK_OK)
        etcd_endpoints_opened(&e.endpoints, &member);
    return status;
}

__attribute__((unused)) static void e_want_open(enum dlock_status status, const char *text)
{
    cr_assert_eq(e_open(), status, "want \"%s\", got %d: %s", text, (int)e.s.err.status,
                 e.s.err.message);
    if (status != DLOCK_OK)
        cr_assert(strstr(e.s.err.message, text) != NULL, "\"%s\" has no \"%s\"", e.s.err.message,
                  text);
    cr_assert(strstr(e.s.err.message, "secret") == NULL, "C17");
    e_close();
}

static ProtobufCBinaryData e_bytes(char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

/* A transaction that puts a key. */
static void e_put_add(struct etcd_rpc *rpc, const char *key)
{
    char text[64];
    Pb__PutRequest put = PB__PUT_REQUEST__INIT;
    Pb__RequestOp op = PB__REQUEST_OP__INIT;
    Pb__RequestOp *ops[] = {&op};
    Pb__TxnRequest txn = PB__TXN_REQUEST__INIT;

    (void)snprintf(text, sizeof text, "%s", key);
    put.key = e_bytes(text);
    op.of_case = PB__REQUEST_OP__OF_PUT;
    op.put = &put;
    txn.success = ops;
    txn.n_success = 1;
    etcd_rpc_init(rpc, ETCD_TXN, 1);
    cr_assert(etcd_rpc_add(rpc, &txn.base));
}

static void e_get_add(struct etcd_rpc *rpc, const char *key)
{
    char text[64];
    Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;

    (void)snprintf(text, sizeof text, "%s", key);
    range.key = e_bytes(text);
    etcd_rpc_init(rpc, ETCD_RANGE, 1);
    cr_assert(etcd_rpc_add(rpc, &range.base));
}

/* One call in a exchange of its own, which is freed. */
static enum dlock_status e_exchange(struct etcd_rpc *rpc, bool writes)
{
    enum dlock_status each = DLOCK_INTERNAL, status = DLOCK_INTERNAL;

    e.s.err = (struct dlock_error)DLOCK_ERROR_INIT;
    status = etcd_exchange(&e.endpoints, &rpc, 1, writes, e_deadline(), &each, &e.s.err);
    cr_assert_eq(each, status);
    cr_assert(status == DLOCK_OK || (e.s.err.status == status && e.s.err.message[0] != '\0'));
    return status;
}

__attribute__((unused)) static enum dlock_status e_put(const char *key)
{
    struct etcd_rpc rpc;
    enum dlock_status status = DLOCK_INTERNAL;

    e_put_add(&rpc, key);
    status = e_exchange(&rpc, true);
    etcd_rpc_fini(&rpc);
    return status;
}

/* found: the number of keys; may be NULL. */
__attribute__((unused)) static enum dlock_status e_get(const char *key, size_t *found)
{
    struct etcd_rpc rpc;
    enum dlock_status status = DLOCK_INTERNAL;

    e_get_add(&rpc, key);
    status = e_exchange(&rpc, false);
    if (status == DLOCK_OK && found != NULL)
        *found = ((const Pb__RangeResponse *)etcd_rpc_answer(&rpc, 0))->n_kvs;
    etcd_rpc_fini(&rpc);
    return status;
}

#endif
