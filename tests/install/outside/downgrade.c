/* SPDX-License-Identifier: MIT */
/* Becomes a reader, in the store of argv[1], and sees who gets in before and after. */
#include <dlock/dlock.h>
#include <stdio.h>

static struct dlock_client *client;
static struct dlock_error err = DLOCK_ERROR_INIT;

static struct dlock_handle *handle(void)
{
    struct dlock_handle *lock = NULL;

    if (dlock_new(client, "x", DLOCK_NUL, NULL, &lock, &err) != DLOCK_OK)
        fprintf(stderr, "%s\n", err.message);
    return lock;
}

static int wrong(const char *what, enum dlock_status got, enum dlock_status wanted)
{
    if (got == wanted)
        return 0;
    fprintf(stderr, "%s: %s, wanted %s (%s)\n", what, dlock_status_name(got),
            dlock_status_name(wanted), err.message);
    return 1;
}

static bool count_shared(void *arg, const struct dlock_holder *info)
{
    *(int *)arg += info->mode == DLOCK_SHARED;
    return 0;
}

int main(int argc, char **argv)
{
    struct dlock_handle *first, *reader, *writer;
    int bad = 0, shared = 0;

    if (argc != 2 || wrong(argv[1], dlock_client_open(argv[1], NULL, &client, &err), DLOCK_OK))
        return 1;
    first = handle();
    reader = handle();
    writer = handle();
    bad += wrong("writer", dlock_trylock(first, &err), DLOCK_OK);
    bad += wrong("reader beside it", dlock_tryrdlock(reader, &err), DLOCK_BUSY);
    bad += wrong("downgrade", dlock_downgrade(first, &err), DLOCK_OK);
    bad += wrong("reader now", dlock_tryrdlock(reader, &err), DLOCK_OK);
    bad += wrong("writer now", dlock_trylock(writer, &err), DLOCK_BUSY);
    bad += wrong("renewal", dlock_renew(first, 0, &err), DLOCK_OK);
    bad += wrong("inspect", dlock_client_inspect(client, "x", 1, count_shared, &shared, &err),
                 DLOCK_OK);
    bad += shared != 2;
    bad += wrong("unlock", dlock_unlock(first, &err), DLOCK_OK);
    bad += wrong("unlock", dlock_unlock(reader, &err), DLOCK_OK);
    bad += wrong("writer at last", dlock_trylock(writer, &err), DLOCK_OK);
    dlock_free(first);
    dlock_free(reader);
    dlock_free(writer);
    dlock_client_close(client);
    return bad == 0 ? 0 : 1;
}
