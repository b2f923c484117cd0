/* SPDX-License-Identifier: MIT */
/*
 * settings.h - what the settings of a server are worth for the failover guard (guard.h): how many
 * replicas have to confirm, how long an old master goes on, and what FAILOVER_SAFE lacks. No I/O.
 */
#ifndef REDIS_SETTINGS_H
#define REDIS_SETTINGS_H

#include "redis/guard/guard.h"

/* Sets what the guard needs, and for how long. In a cluster info->replicas is what the cluster
 * knows. OK; CONFIG: how long an old master goes on is not bounded, err says what to set. */
enum dlock_status redis_settings_judge(const struct resp_config *config,
                                       const struct resp_info *info, struct redis_guard *guard,
                                       struct dlock_error *err);

/* Why a server with the guard is not FAILOVER_SAFE, and what to set; NULL: it is. */
const char *redis_settings_lack(const struct resp_info *info);

/* Passes the checks of probe to fn. */
void redis_settings_report(const struct resp_config *config, const struct resp_info *info,
                           dlock_check_fn *fn, void *arg);

#endif
