/* SPDX-License-Identifier: MIT */
/* An application outside the tree: takes a lock of the store of argv[1], and sees it exclude. */
#include <dlock/dlock.h>
#include <stdio.h>

static int step(const char *what, enum dlock_status got, enum dlock_status wanted,
                const struct dlock_error *err)
{
    if (got == wanted)
        return 1;
    fprintf(stderr, "%s: %s (%s)\n", what, dlock_status_name(got), err->message);
    return 0;
}

static int take_and_give(struct dlock_client *client)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *mine = NULL;
    struct dlock_handle *other = NULL;
    int fine =
        step("new", dlock_new(client, "job", DLOCK_NUL, NULL, &mine, &err), DLOCK_OK, &err) &&
        step("new", dlock_new(client, "job", DLOCK_NUL, NULL, &other, &err), DLOCK_OK, &err) &&
        step("trylock", dlock_trylock(mine, &err), DLOCK_OK, &err) &&
        step("second trylock", dlock_trylock(other, &err), DLOCK_BUSY, &err) &&
        step("unlock", dlock_unlock(mine, &err), DLOCK_OK, &err) &&
        step("third trylock", dlock_trylock(other, &err), DLOCK_OK, &err) &&
        step("unlock", dlock_unlock(other, &err), DLOCK_OK, &err);

    dlock_free(other);
    dlock_free(mine);
    return fine;
}

int main(int argc, char **argv)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    int fine;

    if (argc != 2)
        return 2;
    if (!step(argv[1], dlock_client_open(argv[1], NULL, &client, &err), DLOCK_OK, &err))
        return 1;
    fine = take_and_give(client);
    dlock_client_close(client);
    if (fine)
        printf("dlock %s: exclusive\n", dlock_version());
    return fine ? 0 : 1;
}
