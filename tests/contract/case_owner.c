/* SPDX-License-Identifier: MIT */
/* Does a lock belong to the attempt that took it, and to nothing else? */
#include "conformance.h"

#include <stdlib.h>
#include <string.h>

#define ACQUISITIONS 1000

static int token_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

void dlt_case_owner_tokens_differ(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *locks[2] = {dlt_lock(run, client, "x", 0), dlt_lock(run, client, "y", 0)};
    char(*tokens)[DLOCK_TOKEN_CHARS] = calloc(ACQUISITIONS, DLOCK_TOKEN_CHARS);

    DLT_CHECK(tokens != NULL, "no memory");
    for (int i = 0; i < ACQUISITIONS; i++) {
        DLT_OK(dlock_trylock(locks[i % 2], &dlt_err));
        DLT_CHECK(dlock_token(locks[i % 2], tokens[i], DLOCK_TOKEN_CHARS) == DLOCK_TOKEN_CHARS - 1,
                  "dlock_token of a held lock gives no token");
        DLT_CHECK(strspn(tokens[i], "0123456789abcdef") == DLOCK_TOKEN_CHARS - 1,
                  "the token is \"%s\", want hexadecimal digits", tokens[i]);
        DLT_OK(dlock_unlock(locks[i % 2], &dlt_err));
    }
    qsort(tokens, ACQUISITIONS, DLOCK_TOKEN_CHARS, token_compare);
    for (int i = 1; i < ACQUISITIONS; i++)
        DLT_CHECK(strcmp(tokens[i - 1], tokens[i]) != 0, "token %s came twice", tokens[i]);
    free(tokens);
    dlock_free(locks[0]);
    dlock_free(locks[1]);
    dlock_client_close(client);
}

void dlt_case_owner_is_who_inspect_says(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    char token[DLOCK_TOKEN_CHARS] = "", small[DLOCK_TOKEN_CHARS - 1] = "unchanged";

    DLT_OK(dlock_trylock(lock, &dlt_err));
    (void)dlock_token(lock, token, sizeof token);
    DLT_CHECK(strcmp(dlt_inspect(client, &name).owner, token) == 0,
              "inspect shows another owner than %s", token);
    DLT_CHECK(dlock_token(lock, small, sizeof small) == 0 && strcmp(small, "unchanged") == 0,
              "a token was written to a buffer without room");
    dlock_free(lock);
    dlock_client_close(client);
}

void dlt_case_owner_alone_can_release(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *far = dlt_client(run, NULL);
    struct dlock_handle *holder = dlt_lock(run, client, "x", 0);
    struct dlock_handle *others[2] = {dlt_lock(run, client, "x", 0), dlt_lock(run, far, "x", 0)};

    DLT_OK(dlock_trylock(holder, &dlt_err));
    for (int i = 0; i < 2; i++) {
        DLT_STATUS(dlock_unlock(others[i], &dlt_err), DLOCK_NOT_HELD);
        DLT_STATUS(dlock_renew(others[i], 0, &dlt_err), DLOCK_NOT_HELD);
        DLT_STATUS(dlock_trylock(others[i], &dlt_err), DLOCK_BUSY);
        dlock_free(others[i]);
    }
    DLT_OK(dlock_renew(holder, 0, &dlt_err));
    DLT_OK(dlock_unlock(holder, &dlt_err));
    dlock_free(holder);
    dlock_client_close(client);
    dlock_client_close(far);
}
