/* SPDX-License-Identifier: MIT */
#include "conformance.h"

int main(int argc, char **argv)
{
    return dlt_main(&dlt_table, argc, argv);
}
