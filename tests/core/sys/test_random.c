/* SPDX-License-Identifier: MIT */
/* Tests: core/sys/random.c lib/text.c */
/* Are owner tokens random (C7), and is jitter of use? */
#include "sys/random.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

Test(random, bytes_fill_all_and_differ)
{
    unsigned char a[512] = {0}, b[512] = {0};
    int zeros = 0;

    cr_assert_eq(dl_random_bytes(a, sizeof a), 0);
    cr_assert_eq(dl_random_bytes(b, sizeof b), 0);
    cr_expect_neq(memcmp(a, b, sizeof a), 0);
    for (size_t i = 0; i < sizeof a; i++)
        zeros += a[i] == 0;
    cr_expect_lt(zeros, 30, "512 random bytes have 2 zeros, not %d", zeros);
    cr_expect_eq(dl_random_bytes(a, 0), 0);
}

/* A child must not repeat its parent's tokens. */
Test(random, a_forked_child_has_its_own)
{
    unsigned char mine[16], childs[16];
    int ends[2], wait_status = -1;
    pid_t child = -1;

    cr_assert_eq(dl_random_bytes(mine, sizeof mine), 0);
    cr_assert_eq(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        (void)dl_random_bytes(childs, sizeof childs);
        _exit(write(ends[1], childs, sizeof childs) != sizeof childs);
    }
    cr_assert_eq(read(ends[0], childs, sizeof childs), sizeof childs);
    cr_assert_eq(waitpid(child, &wait_status, 0), child);
    cr_assert_eq(dl_random_bytes(mine, sizeof mine), 0);
    cr_expect_neq(memcmp(mine, childs, sizeof mine), 0);
}

Test(random, jitter_moves_and_spreads)
{
    uint64_t state = 1, again = 1;
    int upper = 0;

    for (int i = 0; i < 1000; i++) {
        uint64_t x = dl_random_jitter(&state);

        cr_assert_eq(x, dl_random_jitter(&again), "the same seed, the same sequence");
        cr_assert_neq(state, 0);
        upper += x >> 63 != 0;
    }
    cr_expect(upper > 400 && upper < 600, "%d of 1000 in the upper half", upper);
}
