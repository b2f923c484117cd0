/* SPDX-License-Identifier: MIT */
#include "fault.h"
#include "shim_page.h"

#include <stdio.h>

bool dlt_fault_open(struct dlt_fault *fault, const char *path)
{
    fault->page = dlt_page_map(path, sizeof *fault->page, true);
    return fault->page != NULL;
}

void dlt_fault_close(struct dlt_fault *fault)
{
    dlt_page_unmap(fault->page, sizeof *fault->page);
    fault->page = NULL;
}

bool dlt_fault_preload(const char *path)
{
    return dlt_page_preload("DLOCK_FAULT_FILE", path, DLT_FAULT_SHIM);
}

void dlt_fault_arm(struct dlt_fault *fault, const struct dlt_fault_plan *plan)
{
    struct dlt_fault_page *page = fault->page;

    atomic_store(&page->armed, 0);
    page->pid = plan->pid;
    page->kinds = plan->kinds;
    page->nth = plan->nth;
    page->times = plan->times == 0 ? 1 : plan->times;
    page->most = plan->most;
    page->error = plan->error;
    page->calls = 0;
    page->hits = 0;
    for (int i = 0; i < DLT_FAULT_KINDS; i++)
        page->of_kind[i] = 0;
    (void)snprintf(page->spare, sizeof page->spare, "%s", plan->spare != NULL ? plan->spare : "");
    atomic_store(&page->armed, 1);
}

void dlt_fault_pause(struct dlt_fault *fault)
{
    atomic_store(&fault->page->armed, 0);
}

void dlt_fault_resume(struct dlt_fault *fault)
{
    atomic_store(&fault->page->armed, 1);
}

uint64_t dlt_fault_calls(const struct dlt_fault *fault)
{
    return fault->page->calls;
}

uint64_t dlt_fault_hits(const struct dlt_fault *fault)
{
    return fault->page->hits;
}

uint64_t dlt_fault_calls_of(const struct dlt_fault *fault, enum dlt_fault_kind kind)
{
    return fault->page->of_kind[kind];
}

const char *dlt_fault_name(enum dlt_fault_kind kind)
{
#define NAME(name) #name,
    static const char *const names[] = {DLT_FAULT_MAP(NAME)};
#undef NAME

    return names[kind];
}
