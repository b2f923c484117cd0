/* SPDX-License-Identifier: MIT */
/*
 * script.h - the scripts, which are the nodes' side of this plugin: *.lua in this directory, built
 * in by resp/embed.cmake. name.lua says what is stored where.
 */
#ifndef REDLOCK_SCRIPT_H
#define REDLOCK_SCRIPT_H

#include "resp/command.h"

enum redlock_script_id {
    REDLOCK_SCRIPT_ACQUIRE,
    REDLOCK_SCRIPT_RELEASE,
    REDLOCK_SCRIPT_RENEW,
    REDLOCK_SCRIPT_WAIT,
    REDLOCK_SCRIPT_INSPECT
};
#define REDLOCK_SCRIPT_COUNT 5

extern const struct resp_script redlock_scripts[REDLOCK_SCRIPT_COUNT];

#endif
