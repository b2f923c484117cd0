/* SPDX-License-Identifier: MIT */
/* skewed_server.h - a server whose wall clock the test steps (skew.h). */
#ifndef DLT_SKEWED_SERVER_H
#define DLT_SKEWED_SERVER_H

#include "skew.h"
#include "store_server.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define DLT_HOUR_NS (3600 * INT64_C(1000000000))

struct dlt_skewed {
    struct dlt_store_server server;
    struct dlt_skew skew;
    char file[32];
};

static inline void dlt_skewed_start(struct dlt_skewed *skewed, struct dlt_store_server store)
{
    int fd = -1;

    *skewed = (struct dlt_skewed){.server = store, .file = "/tmp/dlock-skew.XXXXXX"};
    fd = mkstemp(skewed->file);
    cr_assert_geq(fd, 0);
    cr_assert_eq(fchmod(fd, 0666), 0); /* the server may be another user */
    (void)close(fd);
    cr_assert(dlt_skew_open(&skewed->skew, skewed->file) && dlt_skew_preload(skewed->file));
    cr_assert(store.start(store.self), "%s", store.why);
    cr_assert_eq(unsetenv("LD_PRELOAD"), 0);
    cr_assert_gt(dlt_skew_reads(&skewed->skew, CLOCK_REALTIME), 0,
                 "the server is not under the shim");
}

static inline void dlt_skewed_step(struct dlt_skewed *skewed, int64_t by_ns)
{
    dlt_skew_step(&skewed->skew, CLOCK_REALTIME, by_ns);
}

static inline void dlt_skewed_stop(struct dlt_skewed *skewed)
{
    skewed->server.stop(skewed->server.self);
    dlt_skew_close(&skewed->skew);
    (void)unlink(skewed->file);
}

#endif
