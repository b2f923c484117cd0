/* SPDX-License-Identifier: MIT */
#include "probe.h"
#include "../kit/drop.h"
#include "kit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAMES       32     /* enough to meet each master of a cluster */
#define LONG_TTL_MS 600000 /* no case asks for more */

/* One attempt for a name that nobody else has. */
static enum dlock_status attempt(const struct dlt_run *run, struct dlock_client *client,
                                 const char *suffix, int64_t ttl_ms)
{
    const struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = ttl_ms};
    const struct dlt_name name = dlt_name(run, suffix);
    struct dlock_handle *lock = NULL;
    enum dlock_status status = dlock_new(client, name.text, name.len, &options, &lock, &dlt_err);

    if (status == DLOCK_OK)
        status = dlock_trylock(lock, &dlt_err);
    if (status == DLOCK_OK)
        dlt_drop(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    return status;
}

/* Nobody holds the names: the store itself keeps them back. "": it does not. */
static const char *why_busy(const struct dlt_run *run, struct dlock_client *client)
{
    for (int i = 0; i < NAMES; i++) {
        char suffix[16];

        (void)snprintf(suffix, sizeof suffix, "%d", i);
        if (attempt(run, client, suffix, 0) == DLOCK_BUSY)
            return dlt_err.message;
    }
    return "";
}

static int64_t ttl_most(const struct dlt_run *run, struct dlock_client *client)
{
    if (dlock_client_ttl_ms(client, LONG_TTL_MS) == 0 ||
        attempt(run, client, "long", LONG_TTL_MS) != DLOCK_CONFIG)
        return 0;
    return dlock_client_ttl_ms(client, 0);
}

static int has_one_ttl(const struct dlock_client *client)
{
    int64_t ttl_ms = dlock_client_ttl_ms(client, 0);

    return ttl_ms > DLT_ONE_TTL_MS && dlock_client_ttl_ms(client, 50) == ttl_ms;
}

static bool tick_take(void *arg, const struct dlock_check *check)
{
    if (strcmp(check->name, "tick") == 0)
        *(int64_t *)arg = strtoll(check->found, NULL, 10);
    return false;
}

static int open_fails(void)
{
    (void)printf("%s: %s: %s\n", dlt_err.origin, dlock_status_name((int)dlt_err.status),
                 dlt_err.message);
    return DLT_EXIT_FAILED;
}

int dlt_probe_main(int strict)
{
    struct dlt_run run = {.uri = getenv("DLT_URI")};
    struct dlock_client *client = NULL;
    int64_t step_ms;

    (void)unsetenv("DLOCK_TRACE"); /* its lines would be taken for the answer */
    if (dlock_client_open(run.uri, NULL, &client, &dlt_err) != DLOCK_OK)
        return open_fails();
    dlt_run_init(&run);
    step_ms = dlt_step_ms(client);
    if (!strict)
        (void)dlock_client_probe(client, tick_take, &step_ms, &dlt_err);
    (void)printf("%" PRIx64 " %" PRId64 " %" PRId64 " %d\n%s\n", dlock_client_caps(client), step_ms,
                 strict ? 0 : ttl_most(&run, client), has_one_ttl(client),
                 dlock_client_uri(client));
    (void)printf("%s\n", strict ? "" : why_busy(&run, client));
    dlock_client_close(client);
    return 0;
}

int dlt_room_main(int64_t most)
{
    struct dlock_client **clients = calloc((size_t)most, sizeof(struct dlock_client *));
    int64_t count = 0;

    (void)unsetenv("DLOCK_TRACE");
    DLT_CHECK(clients != NULL, "no memory");
    while (count < most &&
           dlock_client_open(getenv("DLT_URI"), NULL, &clients[count], &dlt_err) == DLOCK_OK)
        count++;
    (void)printf("%" PRId64 "\n", count);
    for (int64_t i = 0; i < count; i++)
        dlock_client_close(clients[i]);
    free(clients);
    return 0;
}
