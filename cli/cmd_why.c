/* SPDX-License-Identifier: MIT */
/* dlock why: why a name cannot be had, in one store or over several. */
#include "args.h"
#include "client.h"
#include "exitcode.h"
#include "why.h"

#include "lib/time.h"

#include <string.h>

#define STORES_MOST 8
/* What one snapshot shows may be the hand-over of two busy programs; a deadlock stays. */
#define SNAPSHOTS_MOST 5
#define PAUSE_MS       300

static const struct option why_options[] = {
    {"also", required_argument, NULL, CLI_OPTION_OWN},
    {NULL, 0, NULL, 0},
};

struct asking {
    struct cli_name name;
    const char *uris[STORES_MOST]; /* as given; the first one is that of the global options */
    char *secrets[STORES_MOST];
    struct dlock_client *clients[STORES_MOST];
    const char *shown[STORES_MOST]; /* without secrets */
    size_t stores;
};

static void asking_fini(struct asking *asking)
{
    for (size_t i = 0; i < asking->stores; i++) {
        dlock_client_close(asking->clients[i]);
        cli_args_uri_free(asking->secrets[i]);
    }
}

/* -1: go on; else the exit code. */
static int asking_read(struct cli *cli, int argc, char **argv, struct asking *asking)
{
    int exit_code;
    int option;

    asking->stores = 1;
    while ((option = cli_args_next(cli, argc, argv, why_options, false, &exit_code)) != -1) {
        if (option == -2)
            return exit_code;
        if (asking->stores == STORES_MOST)
            return cli_args_usage(cli, "why: more than %d stores", STORES_MOST);
        asking->uris[asking->stores] = cli_args_uri(optarg, &asking->secrets[asking->stores]);
        asking->stores++;
    }
    return cli_args_name_operand(cli, argc, argv, &asking->name);
}

/* -1: go on; else the exit code. */
static int stores_open(struct cli *cli, struct asking *asking)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    asking->uris[0] = cli->uri;
    for (size_t i = 0; i < asking->stores; i++) {
        if (cli_client_open_uri(cli, asking->uris[i], CLI_TO_INSPECT, &asking->clients[i], &err) !=
            DLOCK_OK)
            return cli_output_fail_status(cli, NULL, &err);
        asking->shown[i] = dlock_client_uri(asking->clients[i]);
        for (size_t k = 0; k < i; k++)
            if (strcmp(asking->shown[i], asking->shown[k]) == 0)
                return cli_args_usage(cli, "why: %s is given twice", asking->shown[i]);
    }
    return -1;
}

static enum dlock_status why_read(const struct asking *asking, struct why *why,
                                  struct dlock_error *err)
{
    enum dlock_status status = snapshot_read(&why->snapshot, asking->clients, asking->stores, err);

    if (status == DLOCK_OK && !why_find(why, &asking->name)) {
        err->status = DLOCK_NOMEM;
        err->message[0] = '\0';
        status = DLOCK_NOMEM;
    }
    return status;
}

/* A deadlock counts when it is found twice. */
static enum dlock_status why_confirm(const struct asking *asking, struct why *why,
                                     struct dlock_error *err)
{
    const struct timespec pause = dl_time_spec(PAUSE_MS * DL_NS_PER_MS);
    enum dlock_status status = why_read(asking, why, err);
    bool confirmed = why->length == 0;

    for (int i = 1; i < SNAPSHOTS_MOST && status == DLOCK_OK && !confirmed; i++) {
        struct why again = {0};

        (void)nanosleep(&pause, NULL);
        status = why_read(asking, &again, err);
        confirmed = again.length == 0 || why_is_same_deadlock(why, &again);
        why_fini(why);
        *why = again;
    }
    if (!confirmed)
        why->length = 0;
    return status;
}

static int why_report(const struct cli *cli, const struct asking *asking, const struct why *why)
{
    const int exit_code = why->first < why->snapshot.count ? CLI_EXIT_OK : CLI_EXIT_NO;

    if (cli->json)
        return cli_output_json_print(cli, why_json(why, &asking->name, asking->shown), exit_code);
    why_print(why, &asking->name, asking->shown);
    return cli_output_close(cli, exit_code);
}

int cli_why(struct cli *cli, int argc, char **argv)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct asking asking = {0};
    struct why why = {0};
    int exit_code = asking_read(cli, argc, argv, &asking);

    if (exit_code < 0)
        exit_code = stores_open(cli, &asking);
    if (exit_code < 0)
        exit_code = why_confirm(&asking, &why, &err) == DLOCK_OK
                        ? why_report(cli, &asking, &why)
                        : cli_output_fail_status(cli, NULL, &err);
    why_fini(&why);
    asking_fini(&asking);
    return exit_code;
}
