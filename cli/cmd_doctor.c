/* SPDX-License-Identifier: MIT */
/* dlock doctor: the capabilities of a store as it is configured now, and advice. */
#include "args.h"
#include "caps.h"
#include "client.h"
#include "exitcode.h"
#include "output.h"

#include <stdio.h>
#include <string.h>

enum { DOCTOR_STRICT = CLI_OPTION_OWN };

static const struct option doctor_options[] = {
    {"strict", no_argument, NULL, DOCTOR_STRICT},
    {NULL, 0, NULL, 0},
};

static json_t *text_json(const char *text)
{
    return text == NULL ? json_null() : json_string(cli_output_printable(text, strlen(text)));
}

static void check_take(void *arg, const struct dlock_check *check)
{
    json_t *array = arg;

    (void)json_array_append_new(
        array, json_pack("{s:o, s:o, s:o, s:o}", "name", text_json(check->name), "found",
                         text_json(check->found), "advice", text_json(check->advice), "clears",
                         caps_json(check->clears)));
}

static bool has_advice(json_t *checks)
{
    size_t i;
    json_t *check;

    json_array_foreach(checks, i, check)
    {
        if (json_is_string(json_object_get(check, "advice")))
            return true;
    }
    return false;
}

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
                                           dlock_client_uri(client), "server", text_json(server),
                                           "caps", caps_json(dlock_client_caps(client)), "checks",
                                           checks),
                                 exit_code);
}

int cli_doctor(struct cli *cli, int argc, char **argv)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    json_t *checks;
    enum dlock_status status;
    bool strict = false;
    int exit_code;
    int option;

    while ((option = cli_args_next(cli, argc, argv, doctor_options, false, &exit_code)) != -1) {
        if (option == -2)
            return exit_code;
        strict = true;
    }
    if (optind < argc)
        return cli_args_usage(cli, "doctor takes no operand; -u names the store");
    checks = json_array();
    status = cli_client_open(cli, CLI_TO_INSPECT, &client, &err);
    if (status == DLOCK_OK)
        status = dlock_client_probe(client, check_take, checks, &err);
    err.status = status;
    if (status == DLOCK_OK || (status == DLOCK_UNSUPPORTED && client != NULL))
        exit_code = doctor_report(cli, client, checks,
                                  strict && has_advice(checks) ? CLI_EXIT_NO : CLI_EXIT_OK);
    else
        exit_code = cli_output_fail_status(cli, NULL, &err);
    dlock_client_close(client);
    json_decref(checks);
    return exit_code;
}
