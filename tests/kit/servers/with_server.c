/* SPDX-License-Identifier: MIT */
/*
 * with_server redis|redis-sentinel|redis-cluster|mariadb|mysql|postgres|pgbouncer|etcd|
 *     etcd-cluster|etcd-auth|zookeeper|zookeeper-cluster [--count N] [--tls] [SERVER-ARGUMENT...]
 *     -- COMMAND [ARGUMENT...]
 *
 * Runs COMMAND beside servers of its own and ends with its status. {port}, {tls} (the port with
 * TLS), {socket}, {dir} and {pid} (of redis, mariadb and postgres) in the arguments stand for what
 * the first server got, {port2} and so on for the others. redis-sentinel: {port}, {port2}, {port3}
 * are those of the sentinels of the service "locks"; redis-cluster: six servers, the first three
 * are masters. mysql: the real one, of Debian sid (scripts/root). --tls: with certificates in
 * {dir}, and the one named "server". pgbouncer: in front
 * of a PostgreSQL server; its first SERVER-ARGUMENT is the mode, and {direct} the server's own
 * port. etcd-cluster: one cluster of three members; {port}, {port2}, {port3} are theirs. etcd-auth:
 * user u (password secret) may use the keys that begin with "locks/", and nothing else.
 * zookeeper-cluster: three servers with a leader; {port}, {port2}, {port3} are theirs. An argument
 * of zookeeper is a line of its zoo.cfg. {name} is the database, prefix or root that is there for
 * COMMAND: "locks". If COMMAND fails, the ends of the logs of its servers are shown.
 *
 * with_server mariadb|postgres|etcd|zookeeper --begin|--end
 *
 * Begins, and ends, a server that lives for the run of ctest that calls it. With
 * DLT_RUN_SERVER=KIND in the environment a command beside one server of this kind without arguments
 * uses that one, with a {name} of its own, and fails if there is none.
 */
#include "kinds.h"
#include "ruler.h"
#include "run_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVERS_MAX  9
#define EXIT_SKIPPED 77
#define WORDS_MAX    ((2 * 6 + DLT_CLUSTER_COUNT) * SERVERS_MAX + 1)

struct word {
    char name[24], value[96];
};

/* The text with each of the words in it replaced; not freed, the command begins soon. */
static char *expand(char *text, const struct word *words)
{
    for (; words->name[0] != '\0'; words++) {
        for (const char *at = strstr(text, words->name); at != NULL;
             at = strstr(text, words->name)) {
            char *longer = NULL;

            if (asprintf(&longer, "%.*s%s%s", (int)(at - text), text, words->value,
                         at + strlen(words->name)) < 0 ||
                longer == NULL)
                _exit(71);
            text = longer;
        }
    }
    return text;
}

static int run(char **argv, const struct word *words)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        for (size_t i = 0; argv[i] != NULL; i++)
            argv[i] = expand(argv[i], words);
        (void)execvp(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 126;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A command that fails, and is no skipped one: what the machine took, and what the servers said. */
static int run_and_tell(char **argv, const struct word *words)
{
    int64_t begin_ns = dlt_ruler_now_ns();
    struct dlt_measure measure;
    int status = 0;

    dlt_ruler_start();
    status = run(argv, words);
    if (status != 0 && status != EXIT_SKIPPED) {
        (void)dlt_ruler_judge(begin_ns, dlt_ruler_now_ns(), 0, &measure);
        (void)fprintf(stderr, "# status %d after %.0f ms, of which the machine took %.0f\n", status,
                      measure.took_ms, measure.stolen_ms);
        dlt_process_logs_show();
    }
    return status;
}

/* "{port}" or, with a number, "{port2}". */
static struct word *name_set(struct word *word, const char *name, int number)
{
    if (number > 0)
        (void)snprintf(word->name, sizeof word->name, "{%s%d}", name, number);
    else
        (void)snprintf(word->name, sizeof word->name, "{%s}", name);
    return word;
}

static struct word *words_add(struct word *words, const struct dlt_server *server, int number)
{
    struct word *word = name_set(words++, "port", number);

    (void)snprintf(word->value, sizeof word->value, "%u", server->port);
    word = name_set(words++, "tls", number);
    (void)snprintf(word->value, sizeof word->value, "%u", server->tls_port);
    word = name_set(words++, "direct", number);
    (void)snprintf(word->value, sizeof word->value, "%u", server->direct_port);
    word = name_set(words++, "socket", number);
    (void)snprintf(word->value, sizeof word->value, "%s", server->socket);
    word = name_set(words++, "dir", number);
    (void)snprintf(word->value, sizeof word->value, "%s", server->directory);
    word = name_set(words++, "pid", number);
    (void)snprintf(word->value, sizeof word->value, "%d", (int)server->pid);
    return words;
}

static struct word *port_add(struct word *words, unsigned i, unsigned port)
{
    (void)snprintf(name_set(words, "port", (int)i + 1)->value, sizeof words->value, "%u", port);
    return words + 1;
}

/* The members of a cluster after the first one. */
static struct word *members_add(struct word *words, const struct dlt_server *server)
{
    for (unsigned i = 1; i < server->etcd.count; i++)
        words = port_add(words, i, server->etcd.members[i].port);
    for (unsigned i = 1; i < server->zk.count; i++)
        words = port_add(words, i, server->zk.members[i].port);
    for (unsigned i = 1; i < DLT_SENTINELS_COUNT && server->sentinels.hosts[0] != '\0'; i++)
        words = port_add(words, i, server->sentinels.sentinels[i].port);
    for (unsigned i = 1; i < DLT_CLUSTER_COUNT && server->cluster.hosts[0] != '\0'; i++)
        words = port_add(words, i, server->cluster.redis[i].port);
    return words;
}

struct order {
    const struct dlt_kind *kind;
    int count;
    bool tls;
    const char *args[DLT_REDIS_ARGS_MAX];
    char **command;
};

static bool order_read(struct order *order, char **argv)
{
    int args = 0;

    if (argv[1] != NULL)
        order->kind = dlt_kind_find(argv[1]);
    if (order->kind == NULL)
        return false;
    for (argv += 2; *argv != NULL && strcmp(*argv, "--") != 0; argv++) {
        if (strcmp(*argv, "--count") == 0 && argv[1] != NULL)
            order->count = (int)strtol(*++argv, NULL, 10);
        else if (strcmp(*argv, "--tls") == 0)
            order->tls = true;
        else if (args + 1 < DLT_REDIS_ARGS_MAX)
            order->args[args++] = *argv;
        else
            return false;
    }
    order->command = *argv != NULL ? argv + 1 : argv;
    return *order->command != NULL && order->count >= 1 && order->count <= SERVERS_MAX;
}

static struct word *name_add(struct word *words, const char *name)
{
    (void)snprintf(name_set(words, "name", 0)->value, sizeof words->value, "%s", name);
    return words + 1;
}

/* Tests in C read {name} from the environment. */
static int run_with_path(char **argv, const struct word *words, const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/%s", name);
    (void)setenv("DLT_PATH", path, 1);
    return run_and_tell(argv, words);
}

static int usage(void)
{
    (void)fputs(
        "usage: with_server "
        "redis|redis-sentinel|redis-cluster|mariadb|mysql|postgres|pgbouncer|etcd|"
        "etcd-cluster|etcd-auth|zookeeper|zookeeper-cluster [--count N] [--tls] [ARGUMENT...] "
        "-- COMMAND...\n       with_server mariadb|postgres|etcd|zookeeper --begin|--end\n",
        stderr);
    return 64;
}

static int beside_own(const struct order *order)
{
    static struct dlt_server servers[SERVERS_MAX];
    static struct word words[WORDS_MAX];
    struct word *end = name_add(words, "locks");
    int started = 0, status = 69;

    while (started < order->count &&
           order->kind->start(&servers[started], order->tls, order->args)) {
        if (started == 0)
            end = words_add(end, &servers[0], 0);
        end = words_add(end, &servers[started], started + 1);
        end = members_add(end, &servers[started]);
        started++;
    }
    if (started == order->count)
        status = run_with_path(order->command, words, "locks");
    else
        (void)fprintf(stderr, "with_server: %s\n", servers[started].why);
    for (int i = 0; i < order->count && i <= started; i++)
        order->kind->stop(&servers[i]);
    return status;
}

/* ---- the server of a run of ctest ---- */

static bool is_of_a_server(const char *variable)
{
    static const char *const names[] = {"DLT_MARIA_", "DLT_POSTGRES_", "DLT_ETCD_", "DLT_ZK_"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void print(FILE *file, const struct dlt_server *server)
{
    struct word words[WORDS_MAX] = {{"", ""}};

    (void)words_add(words, server, 0);
    for (const struct word *word = words; word->name[0] != '\0'; word++)
        if (strcmp(word->name, "{pid}") != 0) /* nobody is to end it or stop it */
            (void)fprintf(file, "%s=%s\n", word->name, word->value);
    for (char **variable = environ; *variable != NULL; variable++)
        if (is_of_a_server(*variable))
            (void)fprintf(file, "%s\n", *variable);
}

/* What print wrote: words, and the environment. */
static void lines_read(FILE *file, struct word *words)
{
    char line[256];

    while (fgets(line, sizeof line, file) != NULL) {
        char *value = strchr(line, '=');

        if (value == NULL)
            continue;
        *value++ = '\0';
        value[strcspn(value, "\n")] = '\0';
        if (line[0] != '{') {
            (void)setenv(line, value, 1);
            continue;
        }
        (void)snprintf(words->name, sizeof words->name, "%.23s", line);
        (void)snprintf(words->value, sizeof words->value, "%.95s", value);
        words++;
    }
}

static int beside_the_runs(const struct order *order)
{
    static struct word words[WORDS_MAX];
    FILE *file = dlt_run_open(order->kind);
    char name[32];

    if (file == NULL) {
        (void)fprintf(stderr, "with_server: this run has no server: %s\n", order->kind->name);
        return 69;
    }
    /* A run may have more processes than there are pids. */
    (void)snprintf(name, sizeof name, "locks_%d_%x", (int)getpid(),
                   (unsigned)(dlt_ruler_now_ns() / 1000000));
    lines_read(file, name_add(words, name));
    (void)fclose(file);
    for (const struct word *word = words; word->name[0] != '\0'; word++)
        if (strcmp(word->name, "{dir}") == 0)
            dlt_process_logs_add(word->value);
    return order->kind->name_make(name) ? run_with_path(order->command, words, name) : 69;
}

int main(int argc, char **argv)
{
    struct order order = {.count = 1};

    if (argc == 3 && dlt_kind_find(argv[1]) != NULL && dlt_kind_find(argv[1])->name_make != NULL) {
        if (strcmp(argv[2], "--begin") == 0)
            return dlt_run_begin(dlt_kind_find(argv[1]), print);
        if (strcmp(argv[2], "--end") == 0)
            return dlt_run_end(dlt_kind_find(argv[1]));
    }
    if (argc < 2 || !order_read(&order, argv))
        return usage();
    if (order.count == 1 && !order.tls && order.args[0] == NULL && dlt_run_wanted(order.kind))
        return beside_the_runs(&order);
    return beside_own(&order);
}
