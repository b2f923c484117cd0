/* SPDX-License-Identifier: MIT */
/*
 * script.h - the scripts, which are the server's side of this plugin: *.lua in this directory,
 * which resp/embed.cmake builds in. CMakeLists.txt says which file and which variant of it a script
 * is. name.lua says what they store.
 */
#ifndef REDIS_SCRIPT_H
#define REDIS_SCRIPT_H

#include "resp/command.h"

enum redis_script_id {
    REDIS_SCRIPT_ACQUIRE,
    REDIS_SCRIPT_RELEASE,
    REDIS_SCRIPT_RENEW,
    REDIS_SCRIPT_INSPECT,
    REDIS_SCRIPT_RAW_ACQUIRE, /* with key=raw, in the same order */
    REDIS_SCRIPT_RAW_RELEASE,
    REDIS_SCRIPT_RAW_RENEW,
    REDIS_SCRIPT_RAW_INSPECT,
    REDIS_SCRIPT_KEEP,            /* without key=raw */
    REDIS_SCRIPT_GUARDED_ACQUIRE, /* with the failover guard, in the same order */
    REDIS_SCRIPT_GUARDED_RELEASE,
    REDIS_SCRIPT_GUARDED_RENEW,
    REDIS_SCRIPT_GUARDED_KEEP,
    REDIS_SCRIPT_VIEW,
    REDIS_SCRIPT_CLUSTER_VIEW, /* looks at the slots, too */
    REDIS_SCRIPT_WAITERS,      /* also with key=raw: other programs have no queue */
    REDIS_SCRIPT_ACQUIRE_MANY, /* names of one batch; without key=raw */
    REDIS_SCRIPT_RELEASE_MANY,
    REDIS_SCRIPT_GUARDED_ACQUIRE_MANY
};
#define REDIS_SCRIPT_COUNT 19

extern const struct resp_script redis_scripts[REDIS_SCRIPT_COUNT];

#endif
