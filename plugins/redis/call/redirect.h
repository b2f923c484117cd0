/* SPDX-License-Identifier: MIT */
/* redirect.h - answers of a cluster that name another server. Pure. */
#ifndef REDIS_REDIRECT_H
#define REDIS_REDIRECT_H

#include "net/address.h"
#include "redis/link/slot.h"

#include <hiredis/hiredis.h>

enum redis_redirect_kind {
    REDIS_REDIRECT_NONE,
    REDIS_REDIRECT_MOVED,   /* the slot belongs to `to` */
    REDIS_REDIRECT_ASK,     /* this request alone goes to `to` */
    REDIS_REDIRECT_TRYAGAIN /* the keys of the name are at two servers just now */
};

struct redis_redirect {
    enum redis_redirect_kind kind;
    unsigned slot;
    struct address to; /* an empty host: the one of the server that answered */
};

/* Reads an error of the server. In each of the three cases the request was not executed. */
void redis_redirect_read(struct redis_redirect *out, const redisReply *reply);

#endif
