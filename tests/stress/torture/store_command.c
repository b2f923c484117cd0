/* SPDX-License-Identifier: MIT */
#include "store_command.h"
#include "through.h"

#include <dlock/dlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static struct store_commands given;
static char scheme[32], shown[512], address[128], why_text[300];
static bool running; /* by start */

static struct backend backend = {
    .name = scheme, .kind = STORE_COMMAND, .nodes = 1, .place_ms = 3000};

/* True: it ended with 0. */
static bool run(const char *command)
{
    int status = command != NULL ? system(command) : -1; /* NOLINT: the user's own command */

    return command != NULL && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* NULL: the store is as its URI says, and the backend is filled. */
static const char *learn(void)
{
    struct dlock_client *client = NULL;
    struct dlock_error err = DLOCK_ERROR_INIT;
    uint64_t caps;

    if (dlock_client_open(given.uri, NULL, &client, &err) != DLOCK_OK) {
        (void)snprintf(why_text, sizeof why_text, "%s", err.message);
        return why_text;
    }
    caps = dlock_client_caps(client);
    (void)snprintf(shown, sizeof shown, "%s", dlock_client_uri(client));
    (void)snprintf(scheme, sizeof scheme, "%.*s", (int)strcspn(shown, ":"), shown);
    dlock_client_close(client);
    backend.fences = (caps & DLOCK_CAP_FENCE) != 0;
    backend.session = (caps & DLOCK_CAP_SESSION) != 0;
    backend.forgets = (caps & DLOCK_CAP_CRASH_SAFE) == 0;
    if (backend.session)
        (void)setenv(TORTURE_SESSION, "1", 1);
    return (caps & DLOCK_CAP_PRIVATE) == 0 ? NULL : "the store reaches no other process";
}

const struct backend *store_command_backend(const struct store_commands *commands, const char **why)
{
    given = *commands;
    *why = NULL;
    if (given.proxy != NULL)
        *why = dlt_through_address(given.proxy, address, sizeof address);
    if (*why == NULL && given.proxy != NULL && strstr(given.uri, given.proxy) == NULL)
        *why = "the URI does not have the address of --proxy";
    if (*why == NULL && !store_command_start(NULL))
        *why = "the command of --start-cmd failed";
    if (*why == NULL)
        *why = learn();
    if (*why != NULL)
        store_command_stop(NULL);
    return *why == NULL ? &backend : NULL;
}

static void option_print(FILE *out, const char *name, const char *value)
{
    if (value != NULL)
        (void)fprintf(out, " --%s '%s'", name, value);
}

void store_command_print(FILE *out)
{
    option_print(out, "uri", shown);
    option_print(out, "start-cmd", given.start);
    option_print(out, "stop-cmd", given.stop);
    option_print(out, "cont-cmd", given.cont);
    option_print(out, "kill-cmd", given.kill);
    option_print(out, "proxy", given.proxy);
}

bool store_command_can_pause(void)
{
    return given.stop != NULL && given.cont != NULL;
}

bool store_command_can_kill(void)
{
    return given.kill != NULL && given.start != NULL;
}

bool store_command_can_cut(void)
{
    return given.proxy != NULL;
}

bool store_command_start(struct store *store)
{
    (void)store;
    if (given.start == NULL || running)
        return true;
    running = run(given.start);
    return running;
}

/* What was started for the run does not outlive it. */
void store_command_stop(struct store *store)
{
    (void)store;
    if (running && given.kill != NULL)
        (void)run(given.kill);
    running = false;
}

const char *store_command_address(void)
{
    return address;
}

void store_command_uri(const struct store *store, unsigned client, char *uri, size_t size)
{
    if (given.proxy == NULL)
        (void)snprintf(uri, size, "%s", given.uri);
    else
        dlt_through_uri(given.uri, given.proxy, store->ways[client][0].port, uri, size);
}

bool store_command_pause(bool pause)
{
    return run(pause ? given.stop : given.cont);
}

bool store_command_kill(void)
{
    bool right = run(given.kill);

    running = running && !right;
    return right;
}

bool store_command_again(void)
{
    running = run(given.start);
    return running;
}
