/* SPDX-License-Identifier: MIT */
/* Takes the lock "x" of the store of argv[1], forks, prints the child's number and dies with the
 * lock held. The child lives on, and neither execs nor closes anything. */
#include <dlock/dlock.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;
    pid_t child;

    if (argc != 2 || dlock_client_open(argv[1], NULL, &client, &err) != DLOCK_OK ||
        dlock_new(client, "x", DLOCK_NUL, NULL, &lock, &err) != DLOCK_OK ||
        dlock_trylock(lock, &err) != DLOCK_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    child = fork();
    if (child == 0)
        _exit((int)sleep(60));
    printf("%ld\n", (long)child);
    fflush(stdout);
    raise(SIGKILL);
    return 1;
}
