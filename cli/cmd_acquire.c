/* SPDX-License-Identifier: MIT */
/* dlock acquire: takes a lock and leaves it to its ttl, for a script that renews and releases it by
 * its token. */
#include "acquire.h"
#include "exitcode.h"
#include "lock_options.h"
#include "output.h"

#include <unistd.h>

/* The lease outlives this process. False: it would end with the session of the client. */
static bool acquire_outlives(const struct acquire *acquire)
{
    return (dlock_client_caps(acquire->client) & (DLOCK_CAP_SESSION | DLOCK_CAP_TETHERED)) == 0;
}

/* Does not return if the lease is left to its token: to free the handle would release it. */
static int acquire_hand_out(struct acquire *acquire, const struct signals *signals)
{
    int exit_code;

    (void)signals;
    if (!acquire_outlives(acquire)) {
        cli_output_fail(acquire->cli,
                        "%s: the leases of this store end with the process that took them; use "
                        "dlock hold or dlock run",
                        cli_output_printable(acquire->name->bytes, acquire->name->len));
        return CLI_EXIT_CONFIG;
    }
    exit_code = acquire_print(acquire);
    if (exit_code == CLI_EXIT_OK)
        _exit(CLI_EXIT_OK);
    return exit_code; /* nobody knows the token */
}

int cli_acquire(struct cli *cli, int argc, char **argv)
{
    struct cli_name name = {0};
    struct acquire acquire;
    int exit_code;

    lock_options_init(&acquire, cli);
    exit_code = lock_options_read(&acquire, NULL, argc, argv, &name);
    if (exit_code >= 0)
        return exit_code;
    acquire.options.renew = DLOCK_OFF;
    acquire.options.end = DLOCK_END_TTL;
    return refusal_or_use(&acquire, acquire_hand_out);
}
