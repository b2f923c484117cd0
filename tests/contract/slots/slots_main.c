/* SPDX-License-Identifier: MIT */
/* dlock-slot-check: a plugin's slots, also while the network between it and its store fails. */
#include "slots.h"
#include "subject.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct dlt_case cases[] = {
#define DLT_SLOT(name, clauses, caps, flags, limit_s, sentence) \
    {#name, clauses, caps, flags, limit_s, dlt_slots_##name, sentence},
#include "cases.def"
#undef DLT_SLOT
};

enum {
    OPTION_PROXY = DLT_OPTION_OWN,
    OPTION_FRAMING,
    OPTION_STEP,
    OPTION_DEADLINE,
    OPTION_STOP,
    OPTION_CONT
};

static const struct option own[] = {
    {"proxy", required_argument, NULL, OPTION_PROXY},
    {"framing", required_argument, NULL, OPTION_FRAMING},
    {"step", required_argument, NULL, OPTION_STEP},
    {"deadline", required_argument, NULL, OPTION_DEADLINE},
    {"stop-cmd", required_argument, NULL, OPTION_STOP},
    {"cont-cmd", required_argument, NULL, OPTION_CONT},
    {NULL, 0, NULL, 0},
};

static const char usage[] =
    "usage: dlock-slot-check [option...] PLUGIN URI\n"
    "\n"
    "Calls the slots of a plugin, also while the network to its store fails, and asks the store\n"
    "whether the answers are true. PLUGIN is the file of the plugin, dlock_NAME.so, or NAME, if\n"
    "dlock finds it by itself. The store has to be running.\n"
    "\n"
    "  --proxy HOST:PORT  the address of the store, or of one of its servers, as it stands in the\n"
    "                   URI: a proxy takes its place. Without it, cases about the network are not\n"
    "                   applicable\n"
    "  --framing FORM   what the proxy takes for one message: raw (what one read returned), resp,\n"
    "                   mysql, postgresql, http2, zookeeper\n"
    "  --step N         bytes between two places at which a message is cut (23)\n"
    "  --deadline MS    of calls that get no answer (150)\n"
    "  --stop-cmd CMD   a command of the shell that stops the server (kill -STOP ...); without it\n"
    "  --cont-cmd CMD   and the one that lets the server go on, two cases are not applicable\n"
    "\n";

static bool number_valid(const char *text, long most)
{
    char *end = NULL;
    long number = strtol(text, &end, 10);

    return *text != '\0' && *end == '\0' && number > 0 && number <= most;
}

static bool take(int option, const char *value)
{
    static const char *const variables[] = {DLT_SLOTS_PROXY,    DLT_SLOTS_FRAMING, DLT_SLOTS_STEP,
                                            DLT_SLOTS_DEADLINE, DLT_SLOTS_STOP,    DLT_SLOTS_CONT};

    if (option == OPTION_PROXY && strchr(value, ':') == NULL)
        return false;
    if ((option == OPTION_STEP || option == OPTION_DEADLINE) && !number_valid(value, 10000))
        return false;
    return setenv(variables[option - OPTION_PROXY], value, 1) == 0;
}

/* Where dlock looks: the directory of a plugin's file, or those that it always has. */
static bool plugin_path_set(const char *file)
{
    const char *before = getenv("DLOCK_PLUGIN_PATH");
    char own_path[4096] = "", dir[8600], *path = NULL;
    int rc;

    if (file != NULL) {
        char *real = realpath(file, NULL);

        if (real == NULL)
            return false;
        (void)snprintf(dir, sizeof dir, "%s", dirname(real));
        free(real);
        rc =
            asprintf(&path, "%s%s%s", dir, before != NULL ? ":" : "", before != NULL ? before : "");
    } else {
        if (readlink("/proc/self/exe", own_path, sizeof own_path - 1) <= 0)
            return false;
        (void)snprintf(dir, sizeof dir, "%s", dirname(own_path));
        rc = asprintf(&path, "%s%s%s/" DLT_PLUGINS ":%s/../lib/dlock", before != NULL ? before : "",
                      before != NULL ? ":" : "", dir, dir);
    }
    if (rc < 0)
        return false;
    rc = setenv("DLOCK_PLUGIN_PATH", path, 1);
    free(path);
    return rc == 0;
}

/* "redis" of "/x/dlock_redis.so" or of "redis". */
static bool module_set(const char *plugin)
{
    const char *base = strrchr(plugin, '/');
    char module[64];
    size_t len;

    base = base != NULL ? base + 1 : plugin;
    len = strlen(base);
    if (strncmp(base, "dlock_", 6) == 0 && len > 9 && strcmp(base + len - 3, ".so") == 0)
        (void)snprintf(module, sizeof module, "%.*s", (int)(len - 9), base + 6);
    else if (base == plugin)
        (void)snprintf(module, sizeof module, "%s", base);
    else
        return false;
    return setenv(DLT_SLOTS_MODULE, module, 1) == 0;
}

static int ready(struct dlt_options *options)
{
    const char *plugin = options->uri_count > 0 ? options->uris[0] : "";
    const char *where = getenv(DLT_SLOTS_PROXY);
    bool is_file = strchr(plugin, '/') != NULL || strstr(plugin, ".so") != NULL;

    if (options->uri_count != 2) {
        (void)fputs("dlock-slot-check: want a plugin and a URI (--help tells more)\n", stderr);
        return DLT_EXIT_USAGE;
    }
    if (!module_set(plugin) || !plugin_path_set(is_file ? plugin : NULL)) {
        (void)fprintf(stderr, "dlock-slot-check: %s is no file of a plugin, dlock_NAME.so\n",
                      plugin);
        return DLT_EXIT_USAGE;
    }
    if (where != NULL && strstr(options->uris[1], where) == NULL) {
        (void)fprintf(stderr, "dlock-slot-check: the URI does not have the address %s of --proxy\n",
                      where);
        return DLT_EXIT_USAGE;
    }
    options->uris++;
    options->uri_count--;
    return 0;
}

static const char *lacks(const struct dlt_case *c)
{
    if ((c->flags & DLT_PROXY) != 0 && getenv(DLT_SLOTS_PROXY) == NULL)
        return "--proxy";
    return (c->flags & DLT_STOPS) != 0 && getenv(DLT_SLOTS_STOP) == NULL ? "--stop-cmd" : NULL;
}

int main(int argc, char **argv)
{
    static const struct dlt_program program = {.name = "dlock-slot-check",
                                               .usage = usage,
                                               .own = own,
                                               .take = take,
                                               .ready = ready,
                                               .lacks = lacks};
    static const struct dlt_table table = {
        .cases = cases, .count = sizeof cases / sizeof cases[0], .program = &program};

    return dlt_main(&table, argc, argv);
}
