/* SPDX-License-Identifier: MIT */
/* answer.h - what the answer to a call means, and a copy of it. */
#ifndef ZK_ANSWER_H
#define ZK_ANSWER_H

#include "flight.h"
#include "heard.h"

enum zk_verdict {
    ZK_ANSWERED,     /* by the server */
    ZK_NOT_EXECUTED, /* certainly */
    ZK_IN_DOUBT      /* it may have been executed, or will be */
};

/* rc: of a completion, or of the function of the library that sends. */
enum zk_verdict zk_answer_judge(int rc);
/* A create or a delete. */
bool zk_answer_changes(const struct zk_call *call);
/* The server that gives this answer. */
enum zk_heard_of zk_answer_of(const struct zk_call *call, int rc);

/* Copies of what the library frees. False: no memory. */
bool zk_answer_text(struct zk_call *call, const char *text, size_t len);
bool zk_answer_children(struct zk_call *call, const struct String_vector *from);
void zk_answer_free(struct zk_call *call);

#endif
