/* SPDX-License-Identifier: MIT */
/* Tests: lib/pid_space.c */
/* Are processes of one PID namespace told from those of another one? As root, which makes some. */
#include "lib/pid_space.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

static char own[DL_PID_SPACE_SIZE];

/* In a child of this process: in a namespace of its own, with its own /proc or that of this one. */
static void child_space(char out[DL_PID_SPACE_SIZE], bool namespace, bool proc)
{
    int fds[2];
    pid_t child;

    cr_assert_eq(pipe(fds), 0);
    child = fork();
    if (child == 0) {
        if (namespace && unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
            _exit(1);
        if (namespace && fork() > 0) {
            (void)wait(NULL);
            _exit(0);
        }
        if (proc && (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
                     mount("proc", "/proc", "proc", 0, NULL) != 0))
            _exit(1);
        dl_pid_space_read(out);
        _exit(write(fds[1], out, DL_PID_SPACE_SIZE) == DL_PID_SPACE_SIZE ? 0 : 1);
    }
    (void)close(fds[1]);
    cr_assert_eq(read(fds[0], out, DL_PID_SPACE_SIZE), DL_PID_SPACE_SIZE);
    (void)close(fds[0]);
    cr_assert_eq(waitpid(child, NULL, 0), child);
}

Test(pid_space, of_one_namespace_is_the_same)
{
    char other[DL_PID_SPACE_SIZE];

    dl_pid_space_read(own);
    cr_assert(dl_pid_space_is_in_proc());
    cr_assert_eq(strlen(own), 8);
    cr_assert_eq(strspn(own, "0123456789abcdef"), 8);
    child_space(other, false, false);
    cr_assert_str_eq(other, own);
}

Test(pid_space, of_another_namespace_differs)
{
    char other[DL_PID_SPACE_SIZE];

    dl_pid_space_read(own);
    child_space(other, true, true);
    cr_assert_eq(strlen(other), 8);
    cr_assert_str_neq(other, own);
}

Test(pid_space, is_not_known_where_proc_is_that_of_another_namespace)
{
    char other[DL_PID_SPACE_SIZE];

    child_space(other, true, false);
    cr_assert_str_eq(other, "");
}
