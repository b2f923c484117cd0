/* SPDX-License-Identifier: MIT */
/*
 * fake_member.h - a server of gRPC over HTTP/2 in a thread of the test, which answers what the
 * paths of the calls say. It reads what there is, and answers the last call first.
 *
 *   /echo     headers, each message of the request, status 0
 *   /pieces   the same, in frames of DATA of 3 bytes
 *   /refuse   RST_STREAM, REFUSED_STREAM
 *   /fail     one header list: status 14, "no leader"
 *   /silent   nothing
 */
#ifndef DLT_FAKE_MEMBER_H
#define DLT_FAKE_MEMBER_H

#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define DLT_MEMBER_CALLS 512

struct dlt_member_call {
    int32_t id; /* 0: free */
    char path[16];
    unsigned char bytes[4096]; /* of the request, and of the answer */
    size_t len, said;
    bool complete, answered;
};

struct dlt_member {
    int fd;              /* the member closes it */
    uint32_t most_calls; /* SETTINGS_MAX_CONCURRENT_STREAMS; 0: says nothing of it */
    /* Results; of the first call: "name: value" a line, "!" before those that HPACK may not keep.
     */
    char headers[1024];
    _Atomic unsigned calls, resets;

    pthread_t thread;
    nghttp2_session *session;
    struct dlt_member_call call[DLT_MEMBER_CALLS];
};

/* Zeroed but for the first part. Serves until the other end is closed. */
void dlt_member_start(struct dlt_member *member);
/* The other end is closed. */
void dlt_member_join(struct dlt_member *member);

#endif
