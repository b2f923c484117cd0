/* SPDX-License-Identifier: MIT */
/* verdict.h - what a run showed, and whether that is what its profile promises. Prints TAP. */
#ifndef TORTURE_VERDICT_H
#define TORTURE_VERDICT_H

#include "figures.h"
#include "nemesis.h"
#include "settings.h"

struct verdict {
    const struct settings *settings;
    const struct nemesis *nemesis;
    const struct shared *shared;
    const char *directory; /* where the logs are */
    double took_s;
    bool ended; /* all clients did by themselves */
};

/* Is "not yours" during a lease a violation? */
bool verdict_kept(const struct settings *settings);

/* Reads the logs. True: all is as it should be. */
bool verdict_print(const struct verdict *verdict);

#endif
