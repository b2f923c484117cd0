/* SPDX-License-Identifier: MIT */
#include "grant.h"

#include "exitcode.h"
#include "info.h"

#include <stdio.h>
#include <stdlib.h>

static int json_line(const struct acquire *acquire, const char *token, uint64_t fence)
{
    json_t *root = cli_output_json_name(acquire->name->bytes, acquire->name->len);
    char *line = NULL;

    if (json_object_set_new(root, "token", json_string(token)) == 0 &&
        json_object_set_new(root, "fence", cli_output_json_number(fence, fence != 0)) == 0 &&
        json_object_set_new(root, "remaining_ms",
                            json_integer(dlock_remaining_ms(acquire->held.lock))) == 0)
        line = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (line == NULL) {
        cli_output_fail(acquire->cli, "out of memory");
        return CLI_EXIT_INTERNAL;
    }
    (void)puts(line);
    free(line);
    return CLI_EXIT_OK;
}

int grant_print(const struct acquire *acquire)
{
    uint64_t fence = dlock_fence(acquire->held.lock);
    char token[DLOCK_TOKEN_CHARS] = "";
    char number[24];
    int exit_code = CLI_EXIT_OK;

    (void)dlock_token(acquire->held.lock, token, sizeof token);
    info_number(number, fence, fence != 0);
    if (acquire->cli->json)
        exit_code = json_line(acquire, token, fence);
    else
        (void)printf("%s %s\n", token, number);
    return exit_code != CLI_EXIT_OK ? exit_code : cli_output_close(acquire->cli, CLI_EXIT_OK);
}
