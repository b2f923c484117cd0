/* SPDX-License-Identifier: MIT */
/* fault_fixture.h - each test has the server and the sessions of fault_kit.h. */
#ifndef DLT_FAULT_FIXTURE_H
#define DLT_FAULT_FIXTURE_H

#include "fault_kit.h"

static inline void begin(const char *strategy)
{
    server_begin(strategy);
}

static inline void end(void)
{
    server_end();
}

#endif
