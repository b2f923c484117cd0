/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/rpc.c */
/* Messages as they go over the line, and answers that make no sense. */
#include "rpc.h"

#include <criterion/criterion.h>
#include <string.h>

static struct etcd_rpc rpc;

static void tear_down(void)
{
    etcd_rpc_fini(&rpc);
    etcd_rpc_fini(&rpc); /* harmless twice */
}

TestSuite(rpc, .fini = tear_down);

static bool hear(const void *message, size_t len)
{
    return rpc.call.on_message(&rpc.call, message, len);
}

Test(rpc, requests_have_their_length_in_front)
{
    static const unsigned char two[] = {0, 0, 0, 0, 2, 0x08, 1, 0, 0, 0, 0, 3, 0x08, 0x80, 1};
    Pb__LeaseRequest request = PB__LEASE_REQUEST__INIT;

    etcd_rpc_init(&rpc, ETCD_LEASE_KEEP_ALIVE, 2);
    request.id = 1;
    cr_assert(etcd_rpc_add(&rpc, &request.base));
    request.id = 128;
    cr_assert(etcd_rpc_add(&rpc, &request.base));
    cr_assert_eq(rpc.call.request_len, sizeof two);
    cr_assert_eq(memcmp(rpc.call.request, two, sizeof two), 0);
    cr_assert_str_eq(rpc.call.path, "/etcdserverpb.Lease/LeaseKeepAlive");
    cr_assert(!etcd_rpc_writes(&rpc));
}

Test(rpc, requests_of_many_messages)
{
    Pb__LeaseRequest request = PB__LEASE_REQUEST__INIT;

    etcd_rpc_init(&rpc, ETCD_LEASE_KEEP_ALIVE, 1000);
    for (int i = 0; i < 1000; i++) {
        request.id = INT64_MAX - i;
        cr_assert(etcd_rpc_add(&rpc, &request.base));
    }
    cr_assert_eq(rpc.call.request_len, 1000 * 15);
}

Test(rpc, answers)
{
    static const unsigned char kept[] = {0x0a, 2, 0x18, 5, 0x10, 1, 0x18, 7};
    static const unsigned char unknown_fields[] = {0x0a, 4, 0x18, 9, 0x20, 3, 0x10, 2, 0x98, 6, 1};
    Pb__LeaseRequest request = PB__LEASE_REQUEST__INIT;
    const Pb__LeaseResponse *answer = NULL;

    etcd_rpc_init(&rpc, ETCD_LEASE_KEEP_ALIVE, 2);
    cr_assert(etcd_rpc_add(&rpc, &request.base));
    cr_assert_eq(etcd_rpc_revision(&rpc), 0);
    cr_assert(hear(kept, sizeof kept));
    cr_assert(hear(unknown_fields, sizeof unknown_fields));
    cr_assert(!hear(kept, sizeof kept), "a third answer to two");
    cr_assert_eq(rpc.count, 2);
    answer = (const Pb__LeaseResponse *)etcd_rpc_answer(&rpc, 0);
    cr_assert_eq(answer->ttl, 7);
    cr_assert_eq(answer->header->revision, 5);
    answer = (const Pb__LeaseResponse *)etcd_rpc_answer(&rpc, 1);
    cr_assert_eq(answer->id, 2);
    cr_assert_eq(etcd_rpc_revision(&rpc), 9);
    etcd_rpc_again(&rpc);
    cr_assert_eq(rpc.count, 0);
    cr_assert_eq(rpc.call.end, ETCD_OPEN);
    cr_assert_gt(rpc.call.request_len, 0);
    cr_assert(hear(kept, sizeof kept));
}

Test(rpc, answers_that_make_no_sense)
{
    static const char *const bad[] = {"\x0a\x7f", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                                      "\x0a\x02\x18", "\x0b", "\x18\x80"};
    Pb__TxnRequest request = PB__TXN_REQUEST__INIT;

    etcd_rpc_init(&rpc, ETCD_TXN, 1);
    cr_assert(etcd_rpc_writes(&rpc));
    cr_assert(etcd_rpc_add(&rpc, &request.base));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert(!hear(bad[i], strlen(bad[i])), "%zu", i);
        cr_assert(!rpc.no_memory);
    }
    cr_assert_eq(rpc.count, 0);
    cr_assert(hear("", 0), "all fields have their defaults");
    cr_assert_eq(etcd_rpc_revision(&rpc), 0);
}

/* Transactions inside of transactions would take the stack of the thread that reads. */
Test(rpc, an_answer_of_endless_depth)
{
    enum { DEPTH = 200000, SIZE = DEPTH * 10 };
    static unsigned char message[SIZE];
    size_t begin = SIZE;
    Pb__TxnRequest request = PB__TXN_REQUEST__INIT;

    for (int i = 0; i < DEPTH; i++) {
        for (int tag = 0x22; tag >= 0x1a; tag -= 8) { /* ResponseOp.txn, TxnResponse.responses */
            size_t len = SIZE - begin;

            message[--begin] = (unsigned char)(len >> 21);
            message[--begin] = (unsigned char)((len >> 14 & 0x7f) | 0x80);
            message[--begin] = (unsigned char)((len >> 7 & 0x7f) | 0x80);
            message[--begin] = (unsigned char)((len & 0x7f) | 0x80);
            message[--begin] = (unsigned char)tag;
        }
    }
    etcd_rpc_init(&rpc, ETCD_TXN, 1);
    cr_assert(etcd_rpc_add(&rpc, &request.base));
    cr_assert(!hear(message + begin, SIZE - begin));
    cr_assert(!rpc.no_memory);
}

Test(rpc, zeroes_have_nothing_to_free)
{
    struct etcd_rpc zeroes;

    memset(&zeroes, 0, sizeof zeroes);
    etcd_rpc_fini(&zeroes);
    cr_assert_null(zeroes.packed);
}
