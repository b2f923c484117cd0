/* SPDX-License-Identifier: MIT */
/*
 * storm_days.h - storms (storm.h) on a store that has a server: calm ones, and one in which
 * something happens to the server each day. What each of them shows is said as TAP.
 */
#ifndef DLT_STORM_DAYS_H
#define DLT_STORM_DAYS_H

#include "store_server.h"
#include "storm.h"

#include <stddef.h>

struct dlt_storm_day {
    const char *what; /* the name of the test */
    void (*happens)(const struct dlt_store_server *server);
};

/* Fifteen times in a second. */
void dlt_storm_disconnects(const struct dlt_store_server *server);
/* The server is killed and runs again, twice, and is away for up to half a second. */
void dlt_storm_restarts(const struct dlt_store_server *server);
/* The server is stopped for 1.5 s. */
void dlt_storm_pause(const struct dlt_store_server *server);

/* C1, C6, C8, C4 of a storm that has ended. Without `exclusive` C1 and C6 are not promised, and the
 * overlaps are only told. */
void dlt_storm_verdict(const struct dlt_storm *storm, bool exclusive);

/* A storm while nothing happens to the server. */
void dlt_storm_calm(struct dlt_storm *storm, const char *what);
/* 24 threads of 8 clients, of which every n-th reads. */
void dlt_storm_readers_and_writers(const char *uri, unsigned readers_every, const char *what);
/* uri: with options, to which one more is added. */
void dlt_storm_small_pool(const char *uri);

/* 24 threads of 4 clients, which go on after each of the days. */
void dlt_storm_days(const char *uri, const struct dlt_store_server *server,
                    const struct dlt_storm_day *days, size_t count, bool exclusive);

#endif
