/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/guard/view.c */
/* What a server's settings are worth for the failover guard (guarantees, redis). */
#include "redis/guard/view.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct resp_config config = {
    .origin = "redis", .restart_guard_ms = 30000, .failover = RESP_FAILOVER_IF_REPLICAS};

/* A master with two replicas, and all settings right. */
static struct resp_info good(void)
{
    return (struct resp_info){.major = 7,
                              .replicas = 2,
                              .min_replicas = 1,
                              .max_lag_s = 10,
                              .node_timeout_ms = 15000,
                              .is_guarded = true};
}

static char found[160], advice[256];
static uint64_t clears;

static bool check_keep(void *arg, const struct dlock_check *check)
{
    (void)arg;
    cr_assert(strcmp(check->name, "failover guard") == 0 ||
              strcmp(check->name, "followers of the server") == 0);
    (void)snprintf(found, sizeof found, "%s", check->found);
    (void)snprintf(advice, sizeof advice, "%s", check->advice != NULL ? check->advice : "");
    clears = check->clears;
    return false;
}

Test(settings, of_Sentinel)
{
    struct resp_info info = good();
    struct redis_guard guard = {.on = true};
    struct dlock_error err = DLOCK_ERROR_INIT;

    cr_assert_eq(redis_view_judge(&config, &info, &guard, &err), DLOCK_OK);
    cr_assert(guard.is_safe);
    cr_assert_eq(guard.needed, 1);
    cr_assert_eq(guard.grants_ms, 41000);
    cr_assert_eq(guard.yours_ms, 12000);
    redis_view_report(&config, &info, check_keep, NULL);
    cr_assert_str_eq(found, "41 s (T 30 s, D 11 s), 1 of 2 replicas have to confirm");
    cr_assert_str_eq(advice, "");
    cr_assert_eq(clears, 0);
}

/* Two of three servers are more than half, two of four are not. */
Test(settings, more_than_half_of_the_servers)
{
    struct resp_info info = good();
    struct redis_guard guard = {.on = true};
    struct dlock_error err = DLOCK_ERROR_INIT;

    info.replicas = 3;
    cr_assert_eq(redis_view_judge(&config, &info, &guard, &err), DLOCK_CONFIG);
    cr_assert(strstr(err.message, "min-replicas-to-write 2 (now 1)") != NULL, "%s", err.message);
    info.min_replicas = 2;
    cr_assert_eq(redis_view_judge(&config, &info, &guard, &err), DLOCK_OK);
}

/* They replicate PEXPIRE as it is: the lease lasts longer at a replica that lags. */
Test(settings, servers_before_7_are_not_FAILOVER_SAFE)
{
    struct resp_info info = good();
    struct redis_guard guard = {.on = true};
    struct dlock_error err = DLOCK_ERROR_INIT;

    info.major = 6;
    cr_assert_eq(redis_view_judge(&config, &info, &guard, &err), DLOCK_OK, "%s", err.message);
    cr_assert_not(guard.is_safe);
    redis_view_report(&config, &info, check_keep, NULL);
    cr_assert(strstr(advice, "before Redis 7.0") != NULL, "%s", advice);
    cr_assert_eq(clears, DLOCK_CAP_FAILOVER_SAFE);
}

Test(settings, replicas_of_a_cluster_must_not_migrate)
{
    struct resp_info info = good();

    info.cluster = true;
    cr_assert(strstr(redis_view_lack(&info), "set cluster-allow-replica-migration no in all") !=
              NULL);
    info.replicas_stay = true;
    cr_assert_null(redis_view_lack(&info));
    info.replicas_stay = false;
    info.replicas = info.min_replicas; /* none of them can go without ending the master */
    cr_assert_null(redis_view_lack(&info));
}

Test(settings, a_user_who_may_not_read_them)
{
    struct resp_config blind = config;
    struct resp_info info = good();
    struct redis_guard guard = {.on = true};
    struct dlock_error err = DLOCK_ERROR_INIT;

    info.min_replicas = -1;
    info.max_lag_s = 0;
    cr_assert_eq(redis_view_judge(&blind, &info, &guard, &err), DLOCK_CONFIG);
    blind.failover_guard_ms = 41000;
    cr_assert_eq(redis_view_judge(&blind, &info, &guard, &err), DLOCK_OK);
    cr_assert_not(guard.is_safe);
    redis_view_report(&blind, &info, check_keep, NULL);
    cr_assert(strstr(advice, "+config|get") != NULL, "%s", advice);
}

Test(settings, without_the_guard)
{
    struct resp_config unsafe = config;
    struct resp_info info = good();

    info.is_guarded = false;
    unsafe.failover = RESP_FAILOVER_UNSAFE;
    redis_view_report(&unsafe, &info, check_keep, NULL);
    cr_assert_str_eq(found, "off");
    cr_assert_str_eq(advice, "a failover may make two holders");
    info.replicas = 0;
    redis_view_report(&config, &info, check_keep, NULL);
    cr_assert_str_eq(found, "off, as no replica is seen");
    cr_assert_eq(clears, 0);
}

/* A tool that acknowledges cannot be told from a replica, but by its address. A backup says no
 * port.
 */
Test(settings, what_follows_the_server_is_told)
{
    static const char text[] = "role:master\r\nconnected_slaves:3\r\n"
                               "slave0:ip=10.0.0.2,port=6379,state=online,offset=9,lag=1\r\n"
                               "slave1:ip=10.0.0.3,port=0,state=send_bulk,offset=0,lag=0\r\n"
                               "slave2:ip=::1,port=10007,state=online,offset=9,lag=0\r\n";
    struct resp_info info = {.role = ""};

    resp_info_parse(&info, text, sizeof text - 1);
    cr_assert_eq(info.replicas, 2);
    redis_view_report(&config, &info, check_keep, NULL);
    cr_assert_str_eq(found, "10.0.0.2 port 6379, 10.0.0.3 port 0, ::1 port 10007");
}
