/* SPDX-License-Identifier: MIT */
/*
 * script.h - a Lua script of a plugin and the SHA1 by which a server knows it; embed.cmake makes
 * the tables.
 */
#ifndef RESP_SCRIPT_H
#define RESP_SCRIPT_H

#include <stddef.h>

struct resp_script {
    const char *sha; /* 40 hex digits */
    const char *body;
    size_t len;
    const char *name;
};

#endif
