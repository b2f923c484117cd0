/* SPDX-License-Identifier: MIT */
/* dlock backends: the plugins that are found, and what they can do at most. */
#include "args.h"
#include "exitcode.h"
#include "output.h"

#include <stdio.h>
#include <string.h>

static const struct option no_options[] = {{NULL, 0, NULL, 0}};

struct listing {
    json_t *array; /* NULL: print text */
    size_t count;
};

static json_t *backend_json(const struct dlock_plugin_info *info)
{
    json_t *backend = json_object();
    json_t *schemes = json_array();

    for (size_t i = 0; info->schemes != NULL && info->schemes[i] != NULL; i++)
        (void)json_array_append_new(schemes, json_string(info->schemes[i]));
    (void)json_object_set_new(backend, "path",
                              json_string(cli_output_printable(info->path, strlen(info->path))));
    (void)json_object_set_new(backend, "name", cli_output_json_text(info->name));
    (void)json_object_set_new(backend, "version", cli_output_json_text(info->version));
    (void)json_object_set_new(backend, "schemes", schemes);
    (void)json_object_set_new(backend, "caps", cli_output_caps_json(info->caps));
    (void)json_object_set_new(backend, "error",
                              info->err != NULL ? json_string(info->err->message) : json_null());
    return backend;
}

static void backend_print(const struct dlock_plugin_info *info)
{
    const char *path = cli_output_printable(info->path, strlen(info->path));

    if (info->err != NULL) {
        (void)printf("%s\n  does not load: %s\n", path, info->err->message);
        return;
    }
    (void)printf("%s\n  name     %s %s\n  schemes ", path, info->name, info->version);
    for (size_t i = 0; info->schemes[i] != NULL; i++)
        (void)printf(" %s", info->schemes[i]);
    (void)printf("\n  caps    ");
    cli_output_caps(info->caps);
    (void)printf("\n");
}

static bool backend_take(void *arg, const struct dlock_plugin_info *info)
{
    struct listing *listing = arg;

    listing->count++;
    if (listing->array != NULL)
        (void)json_array_append_new(listing->array, backend_json(info));
    else
        backend_print(info);
    return false;
}

static int listing_end(const struct cli *cli, struct listing *listing)
{
    int exit_code = listing->count > 0 ? CLI_EXIT_OK : CLI_EXIT_UNAVAILABLE;

    if (listing->count == 0)
        cli_output_fail(cli, "no plugin found");
    if (listing->array == NULL)
        return cli_output_close(cli, exit_code);
    return cli_output_json_print(cli, json_pack("{s:o}", "backends", listing->array), exit_code);
}

int cli_backends(struct cli *cli, int argc, char **argv)
{
    struct dlock_error err = CLI_ERROR_INIT;
    struct listing listing = {0};
    enum dlock_status status;
    int exit_code;

    if (cli_args_next(cli, argc, argv, no_options, false, &exit_code) == -2)
        return exit_code;
    if (optind < argc)
        return cli_args_usage(cli, "backends takes no operand");
    if (cli->json)
        listing.array = json_array();
    status = dlock_plugin_list(NULL, backend_take, &listing, &err);
    if (status == DLOCK_OK)
        return listing_end(cli, &listing);
    json_decref(listing.array);
    err.status = status;
    return cli_output_fail_status(cli, NULL, &err);
}
