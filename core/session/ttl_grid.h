/* SPDX-License-Identifier: MIT */
/*
 * ttl_grid.h - the ttls that a store can give: a least one, a greatest one, and steps between.
 *
 * A client has one grid: what all its sessions and probes can give. Each of them narrows it. No
 * mutex is needed: a thread that sees one half of a change gets a ttl that fits the half, and the
 * next call sees the rest.
 */
#ifndef DL_TTL_GRID_H
#define DL_TTL_GRID_H

#include <dlock/plugin.h>
#include <stdatomic.h>
#include <stdbool.h>

/* As in struct dlock_session_info: 0 is no limit, or steps of 1 ms. */
struct dl_ttl_grid {
    _Atomic int64_t least_ms, most_ms, step_ms;
};

/* Whether a session's report has a ttl in it. */
bool dl_ttl_grid_valid(const struct dlock_session_info *info);

/* Takes over what is narrower in a valid report. */
void dl_ttl_grid_narrow(struct dl_ttl_grid *grid, const struct dlock_session_info *info);

/* Rounds a ttl up to the grid; 0: that is more than the greatest ttl. */
int64_t dl_ttl_grid_round(const struct dl_ttl_grid *grid, int64_t ttl_ms);

/* CONFIG: the ttl is more than the greatest one. */
enum dlock_status dl_ttl_grid_judge(const struct dl_ttl_grid *grid, int64_t ttl_ms,
                                    struct dlock_error *err);

/* "whole seconds, at least 2 s"; "": any ttl. */
#define DL_TTL_GRID_TEXT 96
void dl_ttl_grid_text(const struct dl_ttl_grid *grid, char out[DL_TTL_GRID_TEXT]);

#endif
