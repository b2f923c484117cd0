/* SPDX-License-Identifier: MIT */
#include "session/ttl_grid.h"
#include "load/settings.h"
#include "sys/error.h"

#include <stdio.h>
#include <string.h>

#define DURATION_TEXT 32

static int64_t round_up(int64_t ttl_ms, int64_t least_ms, int64_t step_ms)
{
    int64_t ms = ttl_ms > least_ms ? ttl_ms : least_ms;

    return step_ms > 1 ? (ms + step_ms - 1) / step_ms * step_ms : ms;
}

bool dl_ttl_grid_valid(const struct dlock_session_info *info)
{
    if (info->ttl_least_ms < 0 || info->ttl_least_ms > DL_TTL_MAX_MS || info->ttl_step_ms < 0 ||
        info->ttl_step_ms > DL_TTL_MAX_MS || info->ttl_most_ms < 0)
        return false;
    return info->ttl_most_ms == 0 ||
           round_up(DL_TTL_MIN_MS, info->ttl_least_ms, info->ttl_step_ms) <= info->ttl_most_ms;
}

static void raise_to(_Atomic int64_t *limit_ms, int64_t ms)
{
    int64_t was_ms = atomic_load(limit_ms);

    while (ms > was_ms && !atomic_compare_exchange_weak(limit_ms, &was_ms, ms))
        continue;
}

static void lower_to(_Atomic int64_t *limit_ms, int64_t ms)
{
    int64_t was_ms = atomic_load(limit_ms);

    while (ms != 0 && (was_ms == 0 || ms < was_ms) &&
           !atomic_compare_exchange_weak(limit_ms, &was_ms, ms))
        continue;
}

void dl_ttl_grid_narrow(struct dl_ttl_grid *grid, const struct dlock_session_info *info)
{
    raise_to(&grid->least_ms, info->ttl_least_ms);
    raise_to(&grid->step_ms, info->ttl_step_ms);
    lower_to(&grid->most_ms, info->ttl_most_ms);
}

int64_t dl_ttl_grid_round(const struct dl_ttl_grid *grid, int64_t ttl_ms)
{
    int64_t most_ms = atomic_load(&grid->most_ms);
    int64_t ms = round_up(ttl_ms, atomic_load(&grid->least_ms), atomic_load(&grid->step_ms));

    return most_ms != 0 && ms > most_ms ? 0 : ms;
}

/* "2 s", "1500 ms" */
static const char *duration_text(char out[DURATION_TEXT], int64_t ms)
{
    if (ms % 1000 == 0)
        (void)snprintf(out, DURATION_TEXT, "%lld s", (long long)ms / 1000);
    else
        (void)snprintf(out, DURATION_TEXT, "%lld ms", (long long)ms);
    return out;
}

enum dlock_status dl_ttl_grid_judge(const struct dl_ttl_grid *grid, int64_t ttl_ms,
                                    struct dlock_error *err)
{
    char text[DURATION_TEXT], grid_text[DL_TTL_GRID_TEXT];

    if (dl_ttl_grid_round(grid, ttl_ms) != 0)
        return DLOCK_OK;
    dl_ttl_grid_text(grid, grid_text);
    return dl_error(err, DLOCK_CONFIG,
                    "a ttl of %s is longer than the store gives (%s): use a shorter ttl, or let "
                    "the store allow longer ones",
                    duration_text(text, ttl_ms), grid_text);
}

void dl_ttl_grid_text(const struct dl_ttl_grid *grid, char out[DL_TTL_GRID_TEXT])
{
    int64_t least_ms = atomic_load(&grid->least_ms), most_ms = atomic_load(&grid->most_ms);
    int64_t step_ms = atomic_load(&grid->step_ms);
    char text[DURATION_TEXT];
    size_t used = 0;

    out[0] = '\0';
    if (step_ms == 1000)
        used += (size_t)snprintf(out, DL_TTL_GRID_TEXT, ", whole seconds");
    else if (step_ms > 1)
        used +=
            (size_t)snprintf(out, DL_TTL_GRID_TEXT, ", steps of %s", duration_text(text, step_ms));
    if (least_ms > DL_TTL_MIN_MS)
        used += (size_t)snprintf(out + used, DL_TTL_GRID_TEXT - used, ", at least %s",
                                 duration_text(text, round_up(0, least_ms, step_ms)));
    if (most_ms != 0 && most_ms < DL_TTL_MAX_MS)
        used += (size_t)snprintf(
            out + used, DL_TTL_GRID_TEXT - used, ", at most %s",
            duration_text(text, step_ms > 1 ? most_ms - most_ms % step_ms : most_ms));
    if (used > 0) /* without the first comma */
        memmove(out, out + 2, used - 1);
}
