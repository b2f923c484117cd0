/* SPDX-License-Identifier: MIT */
#include "held.h"

enum dlock_status held_acquire(const struct held *held, enum dlock_mode mode, int64_t timeout_ms,
                               struct dlock_error *err)
{
    return held->set != NULL ? dlock_set_acquire(held->set, mode, timeout_ms, err)
                             : dlock_acquire(held->lock, mode, timeout_ms, err);
}

enum dlock_status held_unlock(const struct held *held, struct dlock_error *err)
{
    return held->set != NULL ? dlock_set_unlock(held->set, err) : dlock_unlock(held->lock, err);
}

enum dlock_state held_state(const struct held *held)
{
    return held->set != NULL ? dlock_set_state(held->set) : dlock_state(held->lock);
}

int64_t held_remaining_ms(const struct held *held)
{
    return held->set != NULL ? dlock_set_remaining_ms(held->set) : dlock_remaining_ms(held->lock);
}

void held_cancel(const struct held *held)
{
    if (held->set != NULL)
        dlock_set_cancel(held->set);
    else
        dlock_cancel(held->lock);
}

const struct dlock_handle *held_member(const struct held *held, size_t index)
{
    if (held->set != NULL)
        return dlock_set_member(held->set, index);
    return index == 0 ? held->lock : NULL;
}

bool held_has(const struct held *held, const struct dlock_handle *lock)
{
    const struct dlock_handle *member;

    for (size_t i = 0; (member = held_member(held, i)) != NULL; i++)
        if (member == lock)
            return true;
    return false;
}

void held_free(struct held *held)
{
    dlock_free(held->lock);
    dlock_set_free(held->set);
    *held = (struct held){NULL, NULL};
}
