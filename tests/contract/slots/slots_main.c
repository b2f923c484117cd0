/* SPDX-License-Identifier: MIT */
/* dlock-slot-check: a plugin's slots while the network between it and its store fails. */
#include "slots.h"
#include "subject.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct dlt_case cases[] = {
    {"one_of_two", "TRY-1 TRY-3 UNL-1", 0, 0, 60, dlt_slots_one_of_two,
     "Of two clients one gets the name; the other is told BUSY, and for how long."},
    {"readers_share", "TRY-1 TRY-3 UNL-1", DLOCK_CAP_RWLOCK, 0, 60, dlt_slots_readers_share,
     "Readers hold a name together; a writer waits for the last of them, and they for it."},
    {"lease_ends", "TRY-2 REN-2 UNL-1", 0, DLT_SERIAL, 60, dlt_slots_lease_ends,
     "A lease ends by itself, never early and soon enough; its holder is told LOST then."},
    {"same_token", "TRY-5 TRY-2", 0, 0, 60, dlt_slots_same_token,
     "The token that holds the name takes it again, and the lease is not shortened."},
    {"renew_makes_nothing", "REN-2", 0, 0, 60, dlt_slots_renew_makes_nothing,
     "Renew by a token that does not hold the name is LOST, also when the name is free."},
    {"request_swallowed", "TRY-4 REN-4 UNL-2", 0, DLT_SERIAL, 120, dlt_slots_request_swallowed,
     "The request of each call goes into a black hole: it ends by its deadline, with the truth."},
    {"answer_swallowed", "TRY-4 TRY-5 REN-4 UNL-2", 0, DLT_SERIAL, 120, dlt_slots_answer_swallowed,
     "The store executes each call, and its answer goes into a black hole: UNKNOWN."},
    {"request_cut", "TRY-4 TRY-5 REN-4 UNL-2", 0, 0, 300, dlt_slots_request_cut,
     "The connection is reset in the middle of each request, here and there."},
    {"answer_cut", "TRY-4 TRY-5 REN-4 UNL-2", 0, 0, 300, dlt_slots_answer_cut,
     "The connection ends in the middle of each answer, here and there."},
    {"half_an_answer", "TRY-4 TRY-5 REN-4 UNL-2", 0, DLT_SERIAL, 300, dlt_slots_half_an_answer,
     "Half of each answer comes, and then nothing."},
    {"answer_late", "TRY-4 TRY-5 REN-4 UNL-2", 0, DLT_SERIAL, 120, dlt_slots_answer_late,
     "Each answer comes after the deadline."},
    {"request_late", "TRY-4 TRY-5 REN-4 UNL-2", 0, DLT_SERIAL, 120, dlt_slots_request_late,
     "Each request reaches the store after its deadline, and is executed then."},
    {"answer_dribbles", "TRY-4 REN-4 UNL-2", 0, DLT_SERIAL, 120, dlt_slots_answer_dribbles,
     "Each answer comes so slowly, a byte a second, that its deadline passes."},
    {"slow_network", "TRY-4", 0, 0, 120, dlt_slots_slow_network,
     "A network that is slow, but in time, changes nothing."},
    {"batch_unanswered", "BAT-1 BAT-2 BAT-3", 0, DLT_SERIAL, 120, dlt_slots_batch_unanswered,
     "A batch without answers, or with some of them lost, ends by its deadlines, with the truth."},
    {"batch_cut", "BAT-1 BAT-2", 0, 0, 300, dlt_slots_batch_cut,
     "The connection ends in the middle of a batch: each element says what is true of it."},
    {"late_answer_is_nobodys", "FAI-1 FAI-2", 0, DLT_SERIAL, 120, dlt_slots_late_answer_is_nobodys,
     "An answer that came too late is not taken for that of the next call."},
    {"closed_while_idle", "FAI-1 FAI-2 TRY-4", 0, 0, 60, dlt_slots_closed_while_idle,
     "A connection was closed while nobody used it: the next call does not get stuck or lie."},
    {"open_and_no_answer", "OPN-3", 0, DLT_SERIAL, 120, dlt_slots_open_and_no_answer,
     "Open ends by its deadline, with UNAVAILABLE, whatever the network does."},
    {"renewal_in_doubt", "REN-4", 0, DLT_SERIAL, 120, dlt_slots_renewal_in_doubt,
     "A renewal without an answer is UNAVAILABLE only if the lease was not extended."},
    {"wait_without_an_answer", "WAT-1 LCK-1", 0, DLT_SERIAL, 120, dlt_slots_wait_without_an_answer,
     "A wait on a dead connection ends by its deadline, and takes nothing afterwards."},
    {"stopped_server", "TRY-4", 0, DLT_SERIAL, 120, dlt_slots_stopped_server,
     "A server that is stopped: trylock ends by its deadline, with UNKNOWN."},
    {"lease_after_a_stop", "TRY-2", 0, DLT_SERIAL, 120, dlt_slots_lease_after_a_stop,
     "A request that waited at a stopped server gets a lease that lasts as long as it says."},
    {"wait_is_told", "WAT-1 C13", DLOCK_CAP_WATCH, 0, 60, dlt_slots_wait_is_told,
     "A waiter that sleeps is woken by a release, and its grant is worth what it says."},
    {"wait_misses_nothing", "WAT-2", DLOCK_CAP_WATCH, 0, 60, dlt_slots_wait_misses_nothing,
     "A release between the refused trylock and the watch is not missed."},
    {"wait_keeps_its_deadline", "WAT-1 WAT-2 WAT-3", DLOCK_CAP_WATCH, 0, 60,
     dlt_slots_wait_keeps_its_deadline,
     "A watch of a name that is held ends at its deadline, and the next one goes on."},
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
    "usage: dlock-slot-check --proxy HOST:PORT [option...] PLUGIN URI\n"
    "\n"
    "Calls the slots of a plugin while the network to its store fails, and asks the store whether\n"
    "the answers are true. PLUGIN is the file of the plugin, dlock_NAME.so, or NAME, if dlock "
    "finds\n"
    "it by itself. The store has to be running.\n"
    "\n"
    "  --proxy HOST:PORT  the address of the store as it stands in the URI: a proxy takes its "
    "place\n"
    "  --framing FORM   what the proxy takes for one message: raw (what one read returned), resp,\n"
    "                   mysql, postgresql, http2, zookeeper\n"
    "  --step N         bytes between two places at which a message is cut (23)\n"
    "  --deadline MS    of calls that get no answer (150)\n"
    "  --stop-cmd CMD   a command of the shell that stops the server (kill -STOP ...); without it\n"
    "  --cont-cmd CMD   and the one that lets the server go on, two cases are skipped\n"
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

    if (where == NULL || options->uri_count != 2) {
        (void)fputs("dlock-slot-check: want --proxy HOST:PORT, a plugin and a URI (--help tells "
                    "more)\n",
                    stderr);
        return DLT_EXIT_USAGE;
    }
    if (!module_set(plugin) || !plugin_path_set(is_file ? plugin : NULL)) {
        (void)fprintf(stderr, "dlock-slot-check: %s is no file of a plugin, dlock_NAME.so\n",
                      plugin);
        return DLT_EXIT_USAGE;
    }
    if (strstr(options->uris[1], where) == NULL) {
        (void)fprintf(stderr, "dlock-slot-check: the URI does not have the address %s of --proxy\n",
                      where);
        return DLT_EXIT_USAGE;
    }
    options->uris++;
    options->uri_count--;
    return 0;
}

int main(int argc, char **argv)
{
    static const struct dlt_program program = {
        .name = "dlock-slot-check", .usage = usage, .own = own, .take = take, .ready = ready};
    static const struct dlt_table table = {
        .cases = cases, .count = sizeof cases / sizeof cases[0], .program = &program};

    return dlt_main(&table, argc, argv);
}
