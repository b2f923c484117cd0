/* SPDX-License-Identifier: MIT */
/* test_mysql_rotate - rotation.h, on MariaDB. */
#include "rotation.h"

static struct dlt_maria maria;

int main(void)
{
    const struct dlt_store_server server = dlt_store_maria(&maria);

    return dlt_rotation_run(&server, dlt_rotation_strategies, 2);
}
