/* SPDX-License-Identifier: MIT */
/* test_redis_rotate - rotation.h, on Redis. */
#include "rotation.h"

static struct dlt_redis redis;

int main(void)
{
    static const struct dlt_rotation rotation = {
        .what = "", .database = "", .options = "&restart_guard=0", .from = "first", .to = "second"};
    const struct dlt_store_server server = dlt_store_redis(&redis);

    return dlt_rotation_run(&server, &rotation, 1);
}
