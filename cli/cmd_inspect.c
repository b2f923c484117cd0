/* SPDX-License-Identifier: MIT */
/* dlock inspect and dlock list: names and their holders. */
#include "args.h"
#include "client.h"
#include "exitcode.h"
#include "info.h"

#include <stdio.h>
#include <string.h>

static const struct option no_options[] = {{NULL, 0, NULL, 0}};
static const struct option inspect_options[] = {
    {"waiters", no_argument, NULL, CLI_OPTION_OWN},
    {NULL, 0, NULL, 0},
};

typedef enum dlock_status query_fn(struct dlock_client *client, const void *name, size_t name_len,
                                   dlock_holder_fn *fn, void *arg, struct dlock_error *err);

/* At least min operands, at most one. -1: go on; else the exit code. */
static int operand_read(struct cli *cli, int argc, char **argv, int min, struct cli_name *name,
                        bool *waiters)
{
    const char *what = min > 0 ? "NAME" : "PREFIX";
    const struct option *options = waiters != NULL ? inspect_options : no_options;
    int exit_code;
    int option;

    while ((option = cli_args_next(cli, argc, argv, options, false, &exit_code)) != -1) {
        if (option == -2)
            return exit_code;
        if (waiters != NULL)
            *waiters = true;
    }
    if (argc - optind < min)
        return cli_args_usage(cli, "%s: %s is missing", argv[0], what);
    if (argc - optind > 1)
        return cli_args_usage(cli, "%s: more than one %s", argv[0], what);
    if (!cli_args_name(optind < argc ? argv[optind] : "", cli->name_hex, name))
        return cli_args_usage(cli, "%s: %s is not hex, or too long", argv[0], what);
    return -1;
}

/* The exit code of a query. Nothing was to be changed, so that an unknown outcome is no conflict.
 */
static int query_exit(enum dlock_status status)
{
    return status == DLOCK_UNKNOWN ? CLI_EXIT_UNAVAILABLE : cli_exitcode_of(status);
}

/* 0, or the exit code, about which nothing is printed yet; list and queue (NULL: not asked for) are
 * to be freed in either case. err: the call's, also if it is 0. */
static int holders_query(struct cli *cli, query_fn *query, const struct cli_name *name,
                         struct info_list *list, struct queue *queue, struct dlock_error *err)
{
    struct dlock_client *client;
    enum dlock_status status;

    status = cli_client_open(cli, CLI_TO_INSPECT, &client, err);
    if (status == DLOCK_OK) {
        if (queue != NULL)
            status =
                dlock_client_list_waiters(client, name->bytes, name->len, queue_add, queue, err);
        if (status == DLOCK_OK) /* last, for what each server says */
            status = query(client, name->bytes, name->len, info_list_add, list, err);
        if ((dlock_client_caps(client) & DLOCK_CAP_NO_TTL) != 0)
            for (size_t i = 0; i < list->count; i++)
                list->items[i].no_ttl = list->items[i].remaining_ms < 0;
        dlock_client_close(client);
    }
    if (status == DLOCK_OK && (list->no_memory || (queue != NULL && queue->no_memory)))
        status = DLOCK_NOMEM;
    if (status == DLOCK_OK)
        return CLI_EXIT_OK;
    err->status = status;
    return query_exit(status);
}

/* What each server says, where there are several. */
static json_t *nodes_json(const struct dlock_error *err)
{
    json_t *nodes = json_array();

    for (const struct dlock_node_error *node = err->nodes; node < err->nodes + err->node_count;
         node++)
        (void)json_array_append_new(nodes, json_pack("{s:s, s:s, s:s}", "node", node->node,
                                                     "status", dlock_status_name((int)node->status),
                                                     "message", node->message));
    return nodes;
}

static int inspect_print_json(const struct cli *cli, const struct cli_name *name,
                              const struct info_list *list, const struct queue *queue,
                              const struct dlock_error *err, int exit_code)
{
    json_t *root = cli_output_json_name(name->bytes, name->len);
    json_t *holders = json_array();
    bool known = list->count > 0 && list->items[0].waiters != UINT32_MAX;

    for (size_t i = 0; i < list->count; i++)
        (void)json_array_append_new(holders, info_json(&list->items[i]));
    (void)json_object_set_new(root, "held", json_boolean(list->count > 0));
    (void)json_object_set_new(root, "waiters",
                              cli_output_json_number(known ? list->items[0].waiters : 0, known));
    (void)json_object_set_new(root, "holders", holders);
    if (queue != NULL)
        (void)json_object_set_new(root, "queue", queue_json(queue));
    if (err->node_count > 0)
        (void)json_object_set_new(root, "nodes", nodes_json(err));
    return cli_output_json_print(cli, root, exit_code);
}

static void kept_print(const struct info *info)
{
    char until[24];

    info_time(until, info->remaining_ms);
    (void)printf("kept until %s, ran on %s\n", until,
                 cli_output_printable(info->label, strlen(info->label)));
}

static void holder_print(const struct info *info)
{
    char fence[24];
    char held[24];
    char remaining[24];

    if (info->limit > 0)
        (void)printf("permit     %u of %u\n", info->permit, info->limit);
    if (info->kept) {
        kept_print(info);
        return;
    }
    info_number(fence, info->fence, info->fence != 0);
    info_duration(held, info->held_ms);
    info_duration(remaining, info->remaining_ms);
    (void)printf("owner      %s\n", cli_output_printable(info->owner, strlen(info->owner)));
    (void)printf("holder     %s\n", info->label[0] != '\0'
                                        ? cli_output_printable(info->label, strlen(info->label))
                                        : "-");
    if (info->data_len > 0)
        (void)printf("data       %s\n", info_data(info));
    (void)printf("fence      %s\n", fence);
    (void)printf("held       %s\n", held);
    (void)printf("remaining  %s\n", info->no_ttl ? "while its process lives" : remaining);
}

static void holders_print(const struct info_list *list)
{
    char waiters[24];
    char kept[32] = "";
    size_t held = info_list_held(list);

    if (list->count == 0) {
        (void)printf("state      free\n");
        return;
    }
    info_number(waiters, list->items[0].waiters, list->items[0].waiters != UINT32_MAX);
    if (held < list->count)
        (void)snprintf(kept, sizeof kept, "; %zu kept", list->count - held);
    if (info_list_is_kept(list))
        (void)printf("state      kept\n");
    else if (list->items[0].limit > 0)
        (void)printf("state      held, %zu of %u%s\n", held, list->items[0].limit, kept);
    else
        (void)printf("state      held, %s\n", info_mode(&list->items[0]));
    (void)printf("waiters    %s\n", waiters);
    for (size_t i = 0; i < list->count; i++)
        holder_print(&list->items[i]);
}

static int inspect_print(const struct cli *cli, const struct cli_name *name,
                         const struct info_list *list, const struct queue *queue,
                         const struct dlock_error *err, int exit_code)
{
    (void)printf("name       %s\n", cli_output_printable(name->bytes, name->len));
    holders_print(list);
    if (queue != NULL)
        queue_print(queue);
    for (uint32_t i = 0; i < err->node_count; i++)
        (void)printf("node       %s: %s\n", err->nodes[i].node, err->nodes[i].message);
    return cli_output_close(cli, exit_code);
}

int cli_inspect(struct cli *cli, int argc, char **argv)
{
    struct info_list list = {0};
    struct cli_name name = {0};
    struct queue queue = {0};
    struct dlock_error err = CLI_ERROR_INIT;
    bool waiters = false;
    int exit_code = operand_read(cli, argc, argv, 1, &name, &waiters);

    if (exit_code >= 0)
        return exit_code;
    exit_code =
        holders_query(cli, dlock_client_inspect, &name, &list, waiters ? &queue : NULL, &err);
    if (exit_code != CLI_EXIT_OK) {
        (void)cli_output_fail_status(cli, NULL, &err);
    } else {
        exit_code = list.count > 0 ? CLI_EXIT_OK : CLI_EXIT_NO;
        info_list_sort(&list);
        exit_code =
            cli->json
                ? inspect_print_json(cli, &name, &list, waiters ? &queue : NULL, &err, exit_code)
                : inspect_print(cli, &name, &list, waiters ? &queue : NULL, &err, exit_code);
    }
    queue_fini(&queue);
    info_list_fini(&list);
    return exit_code;
}

static int list_print_json(const struct cli *cli, const struct info_list *list, int exit_code)
{
    json_t *root = json_object();
    json_t *locks = json_array();

    for (size_t i = 0; i < list->count; i++) {
        const struct info *info = &list->items[i];
        json_t *lock = cli_output_json_name(info->name, info->name_len);
        json_t *holder = info_json(info);
        bool known = info->waiters != UINT32_MAX;

        (void)json_object_update(lock, holder);
        json_decref(holder);
        (void)json_object_set_new(lock, "waiters", cli_output_json_number(info->waiters, known));
        (void)json_array_append_new(locks, lock);
    }
    (void)json_object_set_new(root, "locks", locks);
    (void)json_object_set_new(root, "complete", json_boolean(exit_code == CLI_EXIT_OK));
    return cli_output_json_print(cli, root, exit_code);
}

/* One line a holder; the texts, which may be long, come last. */
static int list_print(const struct cli *cli, const struct info_list *list, int exit_code)
{
    if (list->count > 0)
        (void)printf("%-9s  %8s  %9s  %7s  %16s  %s  %s%s\n", "MODE", "HELD", "REMAINING",
                     "WAITERS", "FENCE", "NAME", "HOLDER",
                     info_list_has_data(list) ? "  DATA" : "");
    for (size_t i = 0; i < list->count; i++) {
        const struct info *info = &list->items[i];
        char held[24];
        char remaining[24];
        char waiters[24];
        char fence[24];

        info_duration(held, info->held_ms);
        info_duration(remaining, info->remaining_ms);
        info_number(waiters, info->waiters, info->waiters != UINT32_MAX);
        info_number(fence, info->fence, info->fence != 0);
        (void)printf(
            "%-9s  %8s  %9s  %7s  %16s  %s  %s%s%s\n", info->kept ? "kept" : info_mode(info), held,
            remaining, waiters, fence, cli_output_printable(info->name, info->name_len),
            info->label[0] != '\0' ? cli_output_printable(info->label, strlen(info->label)) : "-",
            info->data_len > 0 ? "  " : "", info_data(info));
    }
    return cli_output_close(cli, exit_code);
}

/* The locks before the failure have been printed. */
static void list_complain(const struct cli *cli, const struct info_list *list,
                          const struct dlock_error *err)
{
    char what[128];

    if (list->count == 0) {
        (void)cli_output_fail_status(cli, NULL, err);
        return;
    }
    (void)snprintf(
        what, sizeof what,
        "the list is incomplete, it ends after %zu locks; give a PREFIX, or a longer op_timeout= "
        "in the URI",
        list->count);
    (void)cli_output_fail_status(cli, what, err);
}

int cli_inspect_list(struct cli *cli, int argc, char **argv)
{
    struct info_list list = {0};
    struct cli_name prefix = {0};
    struct dlock_error err = CLI_ERROR_INIT;
    int exit_code = operand_read(cli, argc, argv, 0, &prefix, NULL);

    if (exit_code >= 0)
        return exit_code;
    exit_code = holders_query(cli, dlock_client_list, &prefix, &list, NULL, &err);
    if (exit_code == CLI_EXIT_OK || list.count > 0) {
        info_list_sort(&list);
        exit_code =
            cli->json ? list_print_json(cli, &list, exit_code) : list_print(cli, &list, exit_code);
    }
    if (err.status != DLOCK_OK)
        list_complain(cli, &list, &err);
    info_list_fini(&list);
    return exit_code;
}
