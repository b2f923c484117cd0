/* SPDX-License-Identifier: MIT */
#include "nth_script.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TTL_MS   1500
#define VALID_MS (TTL_MS - TTL_MS / 8) /* no lease counts as over before: a tenth, and drift */
#define WAIT_MS  500
#define NAME     "nth"

struct run {
    const struct nth_script *script;
    struct dlt_fault *fault;
    bool bad;
    bool failed; /* some call did */
    FILE *out;
    struct dlock_client *client;
    struct dlock_handle *lock;
    struct dlock_client *observer; /* opened while nothing fails */
    int64_t lease_end_ms;          /* at the earliest; 0: no lease */
};

__attribute__((format(printf, 2, 3))) static void bad(struct run *run, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fputs("#   ", run->out);
    (void)vfprintf(run->out, format, args);
    (void)fputc('\n', run->out);
    va_end(args);
    run->bad = true;
}

static bool is_clean(const char *text)
{
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++)
        if (!isprint((unsigned char)*text))
            return false;
    return true;
}

static int64_t now_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* True on a machine that is so slow that the lease may have ended: LOST is the truth then. */
static bool lease_may_be_over(const struct run *run)
{
    return run->lease_end_ms != 0 && now_ms() >= run->lease_end_ms;
}

/* True: OK. A failure has to be one that a failing machine explains, and to say so. */
static bool judge(struct run *run, const char *call, enum dlock_status st,
                  const struct dlock_error *err)
{
    if (st == DLOCK_OK)
        return true;
    if (st == DLOCK_LOST && lease_may_be_over(run))
        return false;
    run->failed = true;
    switch (st) {
    case DLOCK_TIMEOUT:
    case DLOCK_UNKNOWN:
    case DLOCK_UNAVAILABLE:
    case DLOCK_CONFIG:
    case DLOCK_PLUGIN_LOAD:
    case DLOCK_NO_PLUGIN:
    case DLOCK_NOMEM:
        break;
    default:
        if (st == run->script->also || (st == DLOCK_LOST && run->script->session))
            break;
        bad(run, "%s answers %s: %s", call, dlock_status_name((int)st), err->message);
        return false;
    }
    if (err->status != st || !is_clean(err->message))
        bad(run, "%s answers %s with %s and the text '%s'", call, dlock_status_name((int)st),
            dlock_status_name((int)err->status), err->message);
    if (run->script->transparent)
        (void)fprintf(run->out, "#   %s answers %s: %s\n", call, dlock_status_name((int)st),
                      err->message);
    return false;
}

/* What the store says about the name. */
struct sight {
    unsigned holders;
    bool ours;
    char token[DLOCK_TOKEN_CHARS];
};

static bool sight_add(void *arg, const struct dlock_holder *info)
{
    struct sight *sight = arg;

    sight->holders++;
    sight->ours |= strcmp(info->owner, sight->token) == 0;
    return 0;
}

static struct sight look(struct run *run)
{
    struct sight sight = {.holders = 0};
    struct dlock_error err = DLOCK_ERROR_INIT;

    if (run->lock != NULL)
        (void)dlock_token(run->lock, sight.token, sizeof sight.token);
    dlt_fault_pause(run->fault);
    if (run->observer == NULL &&
        dlock_client_open(run->script->uri, NULL, &run->observer, &err) != DLOCK_OK)
        bad(run, "the store cannot be opened any more: %s", err.message);
    else if (dlock_client_inspect(run->observer, NAME, strlen(NAME), sight_add, &sight, &err) !=
             DLOCK_OK)
        bad(run, "the store cannot be read any more: %s", err.message);
    dlt_fault_resume(run->fault);
    return sight;
}

static bool client_open(struct run *run)
{
    const struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = TTL_MS};
    struct dlock_error err = DLOCK_ERROR_INIT;

    if (!judge(run, "open", dlock_client_open(run->script->uri, NULL, &run->client, &err), &err))
        return false;
    return judge(run, "new", dlock_new(run->client, NAME, strlen(NAME), &options, &run->lock, &err),
                 &err);
}

static bool lock_acquire(struct run *run)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    int64_t start_ms = now_ms();
    enum dlock_status st = dlock_timedlock(run->lock, WAIT_MS, &err);
    bool got = judge(run, "lock", st, &err);
    struct sight sight = look(run);

    run->lease_end_ms = start_ms + VALID_MS;
    if (lease_may_be_over(run))
        return got;
    if (got && (!sight.ours || sight.holders != 1))
        bad(run, "lock answers OK, and the store has %u holders, this one %s", sight.holders,
            sight.ours ? "among them" : "is none");
    if (got && dlock_state(run->lock) == DLOCK_STATE_FREE)
        bad(run, "lock answers OK, and the handle is free");
    if (!got && st != DLOCK_UNKNOWN && sight.holders != 0)
        bad(run, "lock answers %s, and the store has a holder", dlock_status_name((int)st));
    return got;
}

static void lock_renew(struct run *run)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    if (judge(run, "renew", dlock_renew(run->lock, 0, &err), &err) &&
        dlock_remaining_ms(run->lock) <= 0 && !lease_may_be_over(run))
        bad(run, "renew answers OK, and no time is left");
}

static void lock_release(struct run *run)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status st = dlock_unlock(run->lock, &err);

    if (!judge(run, "unlock", st, &err) && st != DLOCK_LOST && !run->script->session) {
        st = dlock_unlock(run->lock, &err);
        if (st != DLOCK_OK)
            (void)judge(run, "unlock again", st, &err);
    }
    if (dlock_state(run->lock) != DLOCK_STATE_FREE)
        bad(run, "after unlock the handle is not free");
    if (st == DLOCK_OK && look(run).ours)
        bad(run, "unlock answers OK, and the store has this holder");
}

/* The name can be had within a ttl. An answer of the store that is late, as on a busy machine, is
 * asked for again; a name that stays taken is not. */
static bool is_to_be_had(struct dlock_handle *lock, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_UNKNOWN;

    for (int tries = 0; tries < 5 && (status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE);
         tries++) {
        status = dlock_timedlock(lock, TTL_MS + 2000, err);
        if (status == DLOCK_OK)
            status = dlock_unlock(lock, err);
    }
    return status == DLOCK_OK;
}

/* With nothing failing any more, the name can be had again within a ttl. */
static void check_aftermath(struct run *run)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *lock = NULL;

    (void)look(run);
    dlt_fault_pause(run->fault);
    if (run->observer == NULL)
        return;
    if (dlock_new(run->observer, NAME, strlen(NAME), NULL, &lock, &err) != DLOCK_OK ||
        !is_to_be_had(lock, &err))
        bad(run, "afterwards the name cannot be had: %s", err.message);
    dlock_free(lock);
    dlock_client_close(run->observer);
}

int nth_script_run(const struct nth_script *script, struct dlt_fault *fault,
                   const struct dlt_fault_plan *plan, FILE *out)
{
    struct run run = {.script = script, .fault = fault, .out = out};
    struct dlt_fault_plan here = *plan;
    uint64_t hits;

    here.pid = getpid();
    dlt_fault_arm(fault, &here);
    if (client_open(&run) && lock_acquire(&run)) {
        lock_renew(&run);
        lock_release(&run);
    }
    dlock_free(run.lock);
    run.lock = NULL;
    dlock_client_close(run.client);
    hits = dlt_fault_hits(fault);
    check_aftermath(&run);
    if (run.bad)
        return NTH_BAD;
    if (run.failed && (hits == 0 || script->transparent))
        return NTH_UNEXPLAINED;
    return hits == 0 ? NTH_UNTOUCHED : NTH_GOOD;
}
