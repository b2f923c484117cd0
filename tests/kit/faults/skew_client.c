/* SPDX-License-Identifier: MIT */
#include "shim_page.h"
#include "skew.h"

#include <sys/syscall.h>
#include <unistd.h>

bool dlt_skew_open(struct dlt_skew *skew, const char *path)
{
    skew->page = dlt_page_map(path, sizeof *skew->page, true);
    return skew->page != NULL;
}

void dlt_skew_close(struct dlt_skew *skew)
{
    dlt_page_unmap(skew->page, sizeof *skew->page);
    skew->page = NULL;
}

bool dlt_skew_preload(const char *path)
{
    return dlt_page_preload("DLOCK_SKEW_FILE", path, DLT_SKEW_SHIM);
}

void dlt_skew_set(struct dlt_skew *skew, clockid_t id, int64_t offset_ns)
{
    atomic_store(&skew->page->offset_ns[dlt_skew_clock_of(id)], offset_ns);
}

void dlt_skew_step(struct dlt_skew *skew, clockid_t id, int64_t by_ns)
{
    (void)atomic_fetch_add(&skew->page->offset_ns[dlt_skew_clock_of(id)], by_ns);
}

uint64_t dlt_skew_reads(const struct dlt_skew *skew, clockid_t id)
{
    return atomic_load(&skew->page->reads[dlt_skew_clock_of(id)]);
}

int64_t dlt_skew_true_ns(clockid_t id)
{
    struct timespec ts = {0, 0};

    (void)syscall(SYS_clock_gettime, id, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}
