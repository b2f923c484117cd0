/* SPDX-License-Identifier: MIT */
/* hello_kit.h - a scripted server: what a new connection asks, and is told. */
#ifndef DLT_HELLO_KIT_H
#define DLT_HELLO_KIT_H

#include "scripted_client.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define INFO_OF(version, seconds)                                                             \
    "redis_version:" version "\\r\\nrole:master\\r\\nmaxmemory_policy:noeviction\\r\\nuptime" \
    "_in_seconds:" seconds "\\r\\nmaster_replid:0\\r\\n"
#define INFO_UP(seconds) INFO_OF("7.0.15", seconds)
/* What a new connection asks, and is told. 103 is the length of INFO. */
#define HELLO_OF(info)                                                                          \
    "any 7\nsend \"+OK\\r\\n$103\\r\\n" info "\\r\\n$0\\r\\n\\r\\n$0\\r\\n\\r\\n$0\\r\\n\\r\\n" \
    "-NOPERM no\\r\\n-NOPERM no\\r\\n\"\n"
#define HELLO                 HELLO_OF(INFO_UP("99"))
#define HELLO_AFTER_A_RESTART HELLO_OF(INFO_UP("00"))

/* Starts it with this script. */
__attribute__((format(printf, 2, 0))) static inline void
hello_play(struct dlt_scripted *server, const char *format, va_list args)
{
    static char script[1 << 17] = "framing resp\n";
    size_t used = strlen("framing resp\n");

    (void)vsnprintf(script + used, sizeof script - used, format, args);
    cr_assert(dlt_scripted_start(server, script), "%s", server->report);
}

#endif
