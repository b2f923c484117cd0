/* SPDX-License-Identifier: MIT */
/* look.h - who holds names, a majority of the nodes being asked. */
#ifndef REDLOCK_LOOK_H
#define REDLOCK_LOOK_H

#include "redlock.h"

struct redlock_name {
    const unsigned char *bytes;
    uint32_t len;
};

#define REDLOCK_LOOK_MAX 64 /* names in one script; other clients wait meanwhile */

struct redlock_look {
    struct redlock_session *session;
    const struct redlock_name *names;
    size_t count;
    int64_t deadline_ns;
    dlock_holder_fn *fn;
    void *arg;
    struct dlock_error *err;
    bool node_lines; /* with OK, err gets a line for each node: what it says of the first name */
    bool listing;    /* fn is told of names that nobody can take, too */
    bool stopped;    /* out: fn wanted no more */
};

/* Calls fn for each holder of these names. OK, NO_QUORUM, NOMEM; not listing, CONFIG: on so many
 * nodes that nobody can take the first name, a key of it is something else. */
enum dlock_status redlock_look(struct redlock_look *look);
/* Whether it says CONFIG of this name; then err says so, too. */
bool redlock_look_foreign(struct redlock_session *session, const unsigned char *name,
                          uint32_t name_len, int64_t deadline_ns, struct dlock_error *err);

#endif
