/* SPDX-License-Identifier: MIT */
#include "acquired.h"

#include <inttypes.h>
#include <stdio.h>

#define KEY_SIZE 24

static void key_make(char key[KEY_SIZE], const char *field, int index)
{
    if (index < 0)
        (void)snprintf(key, KEY_SIZE, "%s", field);
    else
        (void)snprintf(key, KEY_SIZE, "%s_%d", field, index);
}

void acquired_report(const struct cli *cli, struct outcome *outcome, const char *server,
                     const struct environment_lock *locks, size_t count)
{
    json_t *fields = json_object();
    char key[KEY_SIZE];

    cli_output_say(cli, "server %s", server);
    for (size_t i = 0; i < count; i++) {
        const char *name = cli_output_printable(locks[i].name, locks[i].name_len);
        uint64_t fence = locks[i].fence;
        int at = count > 1 ? (int)i : -1;

        if (fence != 0)
            cli_output_say(cli, "%s: acquired, fence %" PRIu64 ", token %s", name, fence,
                           locks[i].token);
        else
            cli_output_say(cli, "%s: acquired, token %s; this store gives no fencing tokens", name,
                           locks[i].token);
        key_make(key, "fence", at);
        (void)json_object_set_new(fields, key, cli_output_json_number(fence, fence != 0));
        key_make(key, "token", at);
        (void)json_object_set_new(fields, key, json_string(locks[i].token));
    }
    outcome_write(outcome, "acquired", fields);
}
