/* SPDX-License-Identifier: MIT */
/* Does a program under the shim see each of its clocks step alone, and wait no longer for it? */
#include "child.h"
#include "ruler.h"
#include "skew.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define HOUR     (3600 * NS_PER_S)
#define NEAR     (2 * NS_PER_S) /* two reads, one after the other, on a busy machine */

static char file[] = "/tmp/dlock-skew.XXXXXX";
static struct dlt_skew skew;
static pid_t child;
static int child_fd;

static void setup(void)
{
    char *argv[] = {(char[]){SKEW_CHILD}, NULL};
    int fd = mkstemp(file);

    cr_assert_geq(fd, 0);
    (void)close(fd);
    cr_assert(dlt_skew_open(&skew, file));
    cr_assert(dlt_skew_preload(file));
    child = dlt_tool_start(argv, &child_fd);
    cr_assert_gt(child, 0);
    cr_assert_eq(unsetenv("LD_PRELOAD"), 0);
}

static void teardown(void)
{
    int status = -1;

    (void)close(child_fd);
    (void)waitpid(child, &status, 0);
    dlt_skew_close(&skew);
    (void)unlink(file);
    cr_assert_eq(status, 0);
}

TestSuite(skew, .init = setup, .fini = teardown, .timeout = 30);

static void ask(const char *question, char *answer, size_t size)
{
    cr_assert(dlt_write_all(child_fd, question, strlen(question)));
    cr_assert(dlt_line_read(child_fd, answer, size));
}

/* How far the child's clocks are from the true ones, in hours, rounded. */
struct hours {
    int realtime, monotonic, boottime, timeofday, time;
};

static int hours(int64_t seen, clockid_t id)
{
    int64_t off = seen - dlt_skew_true_ns(id);
    int64_t whole = off >= 0 ? (off + HOUR / 2) / HOUR : -((HOUR / 2 - off) / HOUR);

    cr_assert(off - whole * HOUR < NEAR && whole * HOUR - off < NEAR, "off by %lld ns",
              (long long)off);
    return (int)whole;
}

static struct hours look(void)
{
    long long ns[5];
    char answer[256];

    ask("read\n", answer, sizeof answer);
    cr_assert_eq(sscanf(answer, "%lld %lld %lld %lld %lld", &ns[0], &ns[1], &ns[2], &ns[3], &ns[4]),
                 5);
    return (struct hours){hours(ns[0], CLOCK_REALTIME), hours(ns[1], CLOCK_MONOTONIC),
                          hours(ns[2], CLOCK_BOOTTIME), hours(ns[3], CLOCK_REALTIME),
                          hours(ns[4] * NS_PER_S, CLOCK_REALTIME)};
}

#define sees(real, mono, boot)                                                                 \
    do {                                                                                       \
        struct hours seen = look();                                                            \
                                                                                               \
        cr_assert(seen.realtime == (real) && seen.timeofday == (real) && seen.time == (real)); \
        cr_assert(seen.monotonic == (mono) && seen.boottime == (boot));                        \
    } while (0)

Test(skew, each_clock_steps_alone_and_at_once)
{
    sees(0, 0, 0);
    dlt_skew_step(&skew, CLOCK_REALTIME, HOUR);
    sees(1, 0, 0);
    dlt_skew_step(&skew, CLOCK_BOOTTIME, 2 * HOUR);
    sees(1, 0, 2);
    dlt_skew_step(&skew, CLOCK_MONOTONIC, 3 * HOUR);
    sees(1, 3, 2);
    dlt_skew_step(&skew, CLOCK_REALTIME, -5 * HOUR);
    sees(-4, 3, 2);
    dlt_skew_set(&skew, CLOCK_MONOTONIC, 0);
    dlt_skew_set(&skew, CLOCK_BOOTTIME, 0);
    sees(-4, 0, 0);
}

Test(skew, counts_the_reads)
{
    uint64_t real = dlt_skew_reads(&skew, CLOCK_REALTIME);
    uint64_t boot = dlt_skew_reads(&skew, CLOCK_BOOTTIME);

    (void)look();
    cr_assert_eq(dlt_skew_reads(&skew, CLOCK_REALTIME), real + 3);
    cr_assert_eq(dlt_skew_reads(&skew, CLOCK_BOOTTIME), boot + 1);
}

Test(skew, fractions_carry)
{
    long long before = 0, after = 0;
    char answer[256];

    for (int64_t off = -NS_PER_S * 3 / 2; off <= NS_PER_S * 3 / 2; off += NS_PER_S / 4) {
        int64_t least = dlt_skew_true_ns(CLOCK_MONOTONIC) + off;

        dlt_skew_set(&skew, CLOCK_MONOTONIC, off);
        ask("read\n", answer, sizeof answer);
        cr_assert_eq(sscanf(answer, "%lld %lld", &before, &after), 2);
        cr_assert(after >= least && after < least + NEAR);
    }
}

/* A deadline on a clock that is wrong since before the wait is as far away as on a right one. */
Test(skew, waits_take_as_long_as_ever)
{
    static const char *const waits[] = {
        "cond realtime",   "cond monotonic", "clockwait realtime", "clockwait monotonic",
        "sem realtime",    "sem monotonic",  "mutex realtime",     "sleep realtime",
        "sleep monotonic", "sleep boottime", "timer realtime",     "timer monotonic",
        "timer boottime",
    };
    static const int64_t offsets[] = {HOUR, -HOUR};

    for (size_t o = 0; o < 2; o++) {
        dlt_skew_set(&skew, CLOCK_REALTIME, offsets[o]);
        dlt_skew_set(&skew, CLOCK_MONOTONIC, offsets[o] / 2);
        dlt_skew_set(&skew, CLOCK_BOOTTIME, offsets[o] / 4);
        for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
            char line[64], answer[64];
            long ms;

            (void)snprintf(line, sizeof line, "wait %s\n", waits[i]);
            ask(line, answer, sizeof answer);
            ms = strtol(answer, NULL, 10);
            cr_assert(ms >= 95 && dlt_took_within(ms, 3000), "%s: %ld ms", waits[i], ms);
        }
    }
}
