/* SPDX-License-Identifier: MIT */
#include "hold/validity.h"
#include "sys/clock.h"

int64_t dl_validity_drift_ns(int64_t lease_ms)
{
    return lease_ms * (DL_NS_PER_MS / 100) + 2 * DL_NS_PER_MS;
}

int64_t dl_validity_until_ns(int64_t base_ns, int64_t lease_ms)
{
    return base_ns + lease_ms * DL_NS_PER_MS - dl_validity_drift_ns(lease_ms);
}

int64_t dl_validity_least_ns(int64_t lease_ms)
{
    int64_t tenth = lease_ms * (DL_NS_PER_MS / 10);

    return tenth > 10 * DL_NS_PER_MS ? tenth : 10 * DL_NS_PER_MS;
}

bool dl_validity_enough(int64_t now_ns, int64_t until_ns, int64_t lease_ms)
{
    return until_ns - now_ns > dl_validity_least_ns(lease_ms);
}
