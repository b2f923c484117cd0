/* SPDX-License-Identifier: MIT */
/* test_pg_rotate - rotation.h, on PostgreSQL. */
#include "rotation.h"

static struct dlt_postgres postgres;

int main(void)
{
    const struct dlt_store_server server = dlt_store_postgres(&postgres);

    return dlt_rotation_run(&server, dlt_rotation_strategies, 2);
}
