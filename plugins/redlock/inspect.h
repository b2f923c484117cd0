/* SPDX-License-Identifier: MIT */
/* inspect.h - the holders of names, as a majority of the nodes reports them. */
#ifndef REDLOCK_INSPECT_H
#define REDLOCK_INSPECT_H

#include "session.h"

#define REDLOCK_INSPECT_MAX 64  /* names in one script; other clients wait meanwhile */
#define REDLOCK_OWNER_SIZE  256 /* with its NUL: the owner may be the text of another program */

struct redlock_name {
    const unsigned char *bytes;
    uint32_t len;
};

struct redlock_inspection {
    struct redlock_session *session;
    const struct redlock_name *names;
    size_t count;
    int64_t deadline_ns;
    dlock_holder_fn *fn;
    void *arg;
    struct dlock_error *err;
    bool node_lines; /* with OK, err gets a line for each node: what it says of the first name */
    bool listing;    /* fn is called for names that nobody can take, too */
    bool stopped;    /* out: fn wanted no more */
};

/* Calls fn for each holder of these names. OK, NO_QUORUM or NOMEM. CONFIG, unless listing: the
 * first name has a foreign key on so many nodes that nobody can take it. */
enum dlock_status redlock_inspect_names(struct redlock_inspection *inspection);
/* True: redlock_inspect_names says CONFIG of this name; err has the error. */
bool redlock_inspect_foreign(struct redlock_session *session, const unsigned char *name,
                             uint32_t name_len, int64_t deadline_ns, struct dlock_error *err);

#endif
