/* SPDX-License-Identifier: MIT */
/* Rules, a beginning at 1000 ms and an answer, for the tests of acquire_fsm in virtual time. */
#ifndef ACQUIRE_FSM_KIT_H
#define ACQUIRE_FSM_KIT_H

#include "acquire/acquire_fsm.h"

#define MS       INT64_C(1000000)
#define BEGIN_NS (1000 * MS)

static const struct dl_acquire_fsm_rules try_once = {.margin = 10,
                                                     .connected = true,
                                                     .op_timeout_ns = 2000 * MS,
                                                     .poll_max_ns = 1000 * MS,
                                                     .wait = false,
                                                     .watch = true};
static const struct dl_acquire_fsm_rules wait_watching = {.margin = 10,
                                                          .connected = true,
                                                          .op_timeout_ns = 2000 * MS,
                                                          .poll_max_ns = 1000 * MS,
                                                          .wait = true,
                                                          .watch = true};
static const struct dl_acquire_fsm_rules wait_polling = {.margin = 10,
                                                         .connected = true,
                                                         .op_timeout_ns = 2000 * MS,
                                                         .poll_max_ns = 1000 * MS,
                                                         .wait = true};
static const struct dl_acquire_fsm_rules wait_native = {.margin = 10,
                                                        .connected = true,
                                                        .op_timeout_ns = 2000 * MS,
                                                        .poll_max_ns = 1000 * MS,
                                                        .wait = true,
                                                        .native = true};

static const struct dl_acquire_fsm_rules wait_queued = {.margin = 10,
                                                        .connected = true,
                                                        .op_timeout_ns = 2000 * MS,
                                                        .poll_max_ns = 1000 * MS,
                                                        .wait = true,
                                                        .watch = true,
                                                        .queue = true};

static inline struct dl_acquire_fsm begin(const struct dl_acquire_fsm_rules *rules,
                                          int64_t timeout_ms)
{
    struct dl_acquire_fsm attempt;

    dl_acquire_fsm_start(&attempt, rules, BEGIN_NS,
                         timeout_ms < 0 ? INT64_MAX : (1000 + timeout_ms) * MS);
    return attempt;
}

static inline void tried(struct dl_acquire_fsm *attempt, int64_t now_ms, enum dlock_status status,
                         struct dlock_grant grant)
{
    dl_acquire_fsm_tried(attempt, BEGIN_NS, now_ms * MS, status, &grant, 0);
}

static const struct dlock_grant nothing = {.holder_ms = -1};

#endif
