/* SPDX-License-Identifier: MIT */
/* link_faults.h - a link for tests of bad days, and an eye on stderr. */
#ifndef DLT_LINK_FAULTS_H
#define DLT_LINK_FAULTS_H

#include "link_fixture.h"
#include "net/cloexec.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LATE_MS    1200 /* of a busy machine; the library's own waits are 1.5 s and more */
#define TIMEOUT_MS (TTL_MS + ZK_MARGIN_TICKS * TICK_MS)

static struct rig rig;
static int kept_stderr = -1, written = -1;

static inline void watch_stderr(void)
{
    kept_stderr = dup(2);
    written = memfd_create("stderr", MFD_CLOEXEC);
    cr_assert(dup2(written, 2) == 2);
}

static inline void set_up(void)
{
    cr_assert_eq(cloexec_init(), 0);
    cr_assert(dlt_zk_start(&server, NULL), "%s", server.why);
    watch_stderr();
}

static inline void tear_down(void)
{
    (void)dup2(kept_stderr, 2);
    dlt_zk_stop(&server);
}

/* No fault has made the library write to the application's stderr. */
static inline void close_rig(void)
{
    struct stat about;
    char text[256] = "";

    rig_close(&rig);
    cr_assert_eq(fstat(written, &about), 0);
    (void)!pread(written, text, sizeof text - 1, 0);
    cr_assert_eq(about.st_size, 0, "on stderr: %s", text);
}

static inline int64_t now_ms(void)
{
    return dlt_host_now(&rig.host) / DLT_NS_PER_MS;
}

static inline struct zk_exchange *exchange_of(enum zk_op op, const char *path)
{
    struct zk_exchange *exchange = zk_exchange_new(rig.link, 1);

    zk_exchange_add(exchange, op, path)->flags = ZOO_EPHEMERAL;
    return exchange;
}

#endif
