/* SPDX-License-Identifier: MIT */
#include "world.h"

/* clang-format off */
const struct sim_profile sim_profiles[] = {
    /* name          lose   late    slow  refuse  max_hold  stall   cut  stop  kill close   grid tethered fails_over semaphores publishes keeps sets */
    {"calm",            0,     0,      0,      0,        0,     0,    0,    0,    0,    0, false,   false,      false,      false,     false,  false, false},
    {"lossy",       15000, 15000,  50000,   5000,   100000,     3, 2000,    0,    0,    0, false,   false,      false,      false,     false,  false, false},
    {"storm",      100000, 100000, 100000,  20000,   100000,     3, 1000,    0,    0,    0, false,   false,      false,      false,     false,  false, false},
    {"pauses",          0,  3000,      0,      0,   100000,     3,    0,  300,    0,    0, false,   false,      false,      false,     false,  false, false},
    {"deaths",          0,     0,      0,      0,   100000,     3,    0,    0,  500, 1500, false,   false,      false,      false,     false,  false, false},
    {"everything",   8000,  8000,  20000,   3000,   100000,     3, 4000, 1000, 1500, 4000, false,   false,      false,      false,     false,  false, false},
    {"grid",         8000,  8000,  20000,   3000,   100000,     3, 4000, 1000, 1500, 4000,  true,   false,      false,      false,     false,  false, false},
    {"tethered",     8000,  8000,  20000,   3000,   200000,     4, 3000, 1000, 1500, 4000, false,    true,      false,      false,     false,  false, false},
    {"failover",     4000,  4000,  10000,   2000,    50000,     3, 8000, 2000, 3000, 8000, false,   false,       true,      false,     false,  false, false},
    {"permits",      8000,  8000,  20000,   3000,   100000,     3, 4000, 1000, 1500, 4000, false,   false,      false,       true,     false,  false, false},
    {"data",         8000,  8000,  20000,   3000,   100000,     3, 4000, 1000, 1500, 4000, false,   false,      false,       true,      true,  false, false},
    {"keep",         8000,  8000,  20000,   3000,   100000,     3, 4000, 1000, 1500, 4000, false,   false,      false,       true,     false,   true, false},
    {"sets",         8000,  8000,  20000,   3000,   100000,     3, 4000, 1000, 1500, 4000, false,   false,      false,      false,     false,  false,  true},
    {0},
};
/* clang-format on */
