/* SPDX-License-Identifier: MIT */
/* dlock doctor: the capabilities of a store as it is configured now, and advice. */
#include "args.h"
#include "caps.h"
#include "checks.h"
#include "client.h"
#include "doctor_watch.h"
#include "exitcode.h"
#include "output.h"

#include <stdio.h>
#include <string.h>

enum doctor_option { DOCTOR_STRICT = CLI_OPTION_OWN, DOCTOR_WATCH, DOCTOR_METRICS };

static const struct option doctor_options[] = {
    {"strict", no_argument, NULL, DOCTOR_STRICT},
    {"watch", required_argument, NULL, DOCTOR_WATCH},
    {"metrics", required_argument, NULL, DOCTOR_METRICS},
    {NULL, 0, NULL, 0},
};

static int doctor_print(const struct cli *cli, struct dlock_client *client, json_t *checks,
                        int exit_code)
{
    const char *server = dlock_client_server(client);
    size_t i;
    json_t *check;

    (void)printf("store      %s\nserver     %s\ncaps      ", dlock_client_uri(client),
                 cli_output_printable(server, strlen(server)));
    caps_print(dlock_client_caps(client));
    (void)printf("\n");
    json_array_foreach(checks, i, check)
    {
        const char *advice = json_string_value(json_object_get(check, "advice"));

        (void)printf("check      %s: %s\n", json_string_value(json_object_get(check, "name")),
                     json_string_value(json_object_get(check, "found")));
        if (advice != NULL)
            (void)printf("  advice   %s\n", advice);
    }
    return cli_output_close(cli, exit_code);
}

static int doctor_report(const struct cli *cli, struct dlock_client *client, json_t *checks,
                         int exit_code)
{
    const char *server = dlock_client_server(client);

    if (!cli->json)
        return doctor_print(cli, client, checks, exit_code);
    return cli_output_json_print(cli,
                                 json_pack("{s:s, s:o, s:o, s:O}", "store",
                                           dlock_client_uri(client), "server", checks_text(server),
                                           "caps", caps_json(dlock_client_caps(client)), "checks",
                                           checks),
                                 exit_code);
}

struct doctor {
    bool strict;
    int64_t every_ms; /* of --watch; 0: not given */
    const char *metrics_path;
};

/* -1: go on; else the exit code. */
static int doctor_options_read(struct cli *cli, int argc, char **argv, struct doctor *doctor)
{
    static const struct cli_duration every = {1000, INT64_C(86400000), "1s..1d", false};
    char why[CLI_WHY];
    int exit_code, option;

    while ((option = cli_args_next(cli, argc, argv, doctor_options, false, &exit_code)) != -1) {
        if (option == -2)
            return exit_code;
        if (option == DOCTOR_STRICT)
            doctor->strict = true;
        else if (option == DOCTOR_METRICS)
            doctor->metrics_path = optarg;
        else if (!cli_args_duration(optarg, &every, &doctor->every_ms, why))
            return cli_args_usage(cli, "--watch=%s %s",
                                  cli_output_printable(optarg, strlen(optarg)), why);
    }
    if (optind < argc)
        return cli_args_usage(cli, "doctor takes no operand; -u names the store");
    if (doctor->strict && doctor->every_ms > 0)
        return cli_args_usage(cli, "--strict and --watch exclude each other");
    if (doctor->metrics_path != NULL && doctor->every_ms == 0)
        return cli_args_usage(cli, "--metrics is for --watch");
    return -1;
}

static int doctor_once(struct cli *cli, bool strict)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    json_t *checks = json_array();
    enum dlock_status status = cli_client_open(cli, CLI_TO_INSPECT, &client, &err);
    int exit_code;

    if (status == DLOCK_OK)
        status = checks_read(client, checks, &err);
    err.status = status;
    if (status == DLOCK_OK || (status == DLOCK_UNSUPPORTED && client != NULL))
        exit_code = doctor_report(cli, client, checks,
                                  strict && checks_advice(checks) > 0 ? CLI_EXIT_NO : CLI_EXIT_OK);
    else
        exit_code = cli_output_fail_status(cli, NULL, &err);
    dlock_client_close(client);
    json_decref(checks);
    return exit_code;
}

static int doctor_watch_start(struct cli *cli, const struct doctor *doctor)
{
    struct metrics_file metrics = {.path = NULL};

    if (doctor->metrics_path != NULL)
        metrics.error = metrics_file_init(&metrics, doctor->metrics_path);
    metrics_file_report(&metrics, cli);
    return metrics.error != 0 ? CLI_EXIT_INTERNAL : doctor_watch(cli, doctor->every_ms, &metrics);
}

int cli_doctor(struct cli *cli, int argc, char **argv)
{
    struct doctor doctor = {.strict = false};
    int exit_code = doctor_options_read(cli, argc, argv, &doctor);

    if (exit_code >= 0)
        return exit_code;
    return doctor.every_ms > 0 ? doctor_watch_start(cli, &doctor) : doctor_once(cli, doctor.strict);
}
