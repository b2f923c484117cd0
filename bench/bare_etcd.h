/* SPDX-License-Identifier: MIT */
/* bare_etcd.h - gRPC by nghttp2 with as little around it as will do: one connection without TLS,
 * used by one thread, which waits for each flight of calls. */
#ifndef BENCH_BARE_ETCD_H
#define BENCH_BARE_ETCD_H

#include "address.h"

#include <etcd.pb-c.h>

#define BENCH_ETCD_REQUEST 1024
#define BENCH_ETCD_ANSWER  8192

struct bench_etcd;

struct bench_etcd_call {
    int stream, ended;
    int status; /* of gRPC, when it has ended */
    unsigned char request[BENCH_ETCD_REQUEST], answer[BENCH_ETCD_ANSWER];
    size_t length, sent; /* of the request */
    size_t got;          /* of the answer, whose first message is not taken yet */
};

/* NULL: why. */
struct bench_etcd *bench_etcd_connect(const struct bench_address *address, char *why);
/* NULL is fine. */
void bench_etcd_close(struct bench_etcd *etcd);

/* -1 and why, always. */
int bench_etcd_failed(const char *text, char *why);

/* A call of a method, as "KV/Txn", in the next flight. The call must not move until it has ended.
 * 0, or -1 and why. */
int bench_etcd_begin(struct bench_etcd *etcd, struct bench_etcd_call *call, const char *method,
                     const ProtobufCMessage *request, char *why);

/* Sends the flight, and waits until the call has ended with status 0. 0, or -1 and why. */
int bench_etcd_end(struct bench_etcd *etcd, struct bench_etcd_call *call, char *why);
/* Gives it up. */
void bench_etcd_reset(struct bench_etcd *etcd, struct bench_etcd_call *call);

/* Sends the flight, waits until a message is there, and takes it: unpacked as this type, to be
 * freed by protobuf_c_message_free_unpacked. NULL: why. */
ProtobufCMessage *bench_etcd_message(struct bench_etcd *etcd, struct bench_etcd_call *call,
                                     const ProtobufCMessageDescriptor *type, char *why);

#endif
