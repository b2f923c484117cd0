/* SPDX-License-Identifier: MIT */
#include "answer.h"

#include <stdlib.h>
#include <string.h>

enum zk_verdict zk_answer_judge(int rc)
{
    switch (rc) {
    case ZOK:
    case ZUNIMPLEMENTED:
    case ZBADARGUMENTS:
        return ZK_ANSWERED;
    case ZINVALIDSTATE: /* of the library: nothing was sent */
    case ZSESSIONMOVED:
    case ZNOTREADONLY:
    case ZTHROTTLEDOP:
        return ZK_NOT_EXECUTED;
    case ZSESSIONEXPIRED:
    case ZAUTHFAILED:
    case ZCLOSING:
        return ZK_IN_DOUBT;
    default:
        return rc < ZAPIERROR ? ZK_ANSWERED : ZK_IN_DOUBT;
    }
}

bool zk_answer_changes(const struct zk_call *call)
{
    return call->op == ZK_CREATE || call->op == ZK_DELETE || call->op == ZK_SET;
}

enum zk_heard_of zk_answer_of(const struct zk_call *call, int rc)
{
    if (rc == ZOK && zk_answer_changes(call))
        return ZK_HEARD_MAJORITY;
    if ((rc == ZOK && call->op == ZK_SYNC) || (rc == ZNONODE && zk_answer_changes(call)))
        return ZK_HEARD_LEADER;
    return ZK_HEARD_SERVER;
}

bool zk_answer_text(struct zk_call *call, const char *text, size_t len)
{
    call->text = malloc(len + 1);
    if (call->text == NULL)
        return false;
    if (len > 0)
        memcpy(call->text, text, len);
    call->text[len] = '\0';
    call->text_len = len;
    return true;
}

bool zk_answer_children(struct zk_call *call, const struct String_vector *from)
{
    struct String_vector *to = &call->children;

    to->data = calloc((size_t)from->count + 1, sizeof *to->data);
    if (to->data == NULL)
        return false;
    while (to->count < from->count) {
        to->data[to->count] = strdup(from->data[to->count]);
        if (to->data[to->count] == NULL)
            return false;
        to->count++;
    }
    return true;
}

void zk_answer_free(struct zk_call *call)
{
    for (int32_t i = 0; i < call->children.count; i++)
        free(call->children.data[i]);
    free(call->children.data);
    free(call->text);
}
