/* SPDX-License-Identifier: MIT */
/*
 * route.h - leads a client's connections. Sentinels and the servers of a cluster tell clients where
 * a master is; a client whose way there can be made bad has to go that way all the same. So this
 * program has a connect() of its own, which plugins that it loads use as well.
 */
#ifndef TORTURE_ROUTE_H
#define TORTURE_ROUTE_H

#include <stdbool.h>

/* In the environment of a client: "PORT=PORT,PORT=PORT", from where to where on 127.0.0.1. */
#define TORTURE_ROUTES "DLT_TORTURE_ROUTES"

/* Before the first connection; NULL and "": none are led. False: it makes no sense. */
bool route_read(const char *text);

#endif
