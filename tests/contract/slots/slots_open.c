/* SPDX-License-Identifier: MIT */
/* What a session says of its store, and what it needs to be made. */
#include "calls.h"
#include "session/slot.h"
#include "slots.h"
#include "sys/error.h"

#include <string.h>

/* They follow from the target alone. */
#define SAME_CAPS                                                                    \
    (DLOCK_CAP_NATIVE_WAIT | DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_SESSION | \
     DLOCK_CAP_TETHERED | DLOCK_CAP_CONCURRENT)

static void check_info(const struct dlt_side *side, const struct dlock_session_info *info)
{
    const uint64_t most = side->plugin->caps;

    DLT_CHECK((info->caps & ~most) == 0,
              "capabilities 0x%llx are not of the plugin's 0x%llx [OPN-5]",
              (unsigned long long)info->caps, (unsigned long long)most);
    DLT_CHECK(((info->caps ^ most) & DLOCK_CAP_CONCURRENT) == 0,
              "CONCURRENT is not as in the descriptor [OPN-5]");
    DLT_CHECK(info->server[0] != '\0' && strnlen(info->server, 64) < 64, "no name of the server");
    DLT_CHECK(info->endpoint[0] != '\0' && strnlen(info->endpoint, 64) < 64, "no endpoint");
    DLT_CHECK(info->ttl_least_ms >= 0 && info->ttl_most_ms >= 0 && info->ttl_step_ms >= 0 &&
                  (info->ttl_most_ms == 0 || info->ttl_most_ms >= info->ttl_least_ms) &&
                  (info->ttl_step_ms == 0 || (info->ttl_least_ms % info->ttl_step_ms == 0 &&
                                              info->ttl_most_ms % info->ttl_step_ms == 0)),
              "ttls from %lld to %lld in steps of %lld [TTL-1]", (long long)info->ttl_least_ms,
              (long long)info->ttl_most_ms, (long long)info->ttl_step_ms);
}

static bool check_count(void *arg, const struct dlock_check *check)
{
    DLT_CHECK(check->name != NULL && check->found != NULL, "a check without a name or a finding");
    ++*(unsigned *)arg;
    return false;
}

static void check_probe(struct dlt_party *party)
{
    struct dlt_side *side = &party->side;
    struct dlock_session_info found = {.struct_size = sizeof found};
    unsigned checks = 0;

    for (int i = 0; i < 2; i++) {
        dl_error_reset(&side->err);
        DLT_SAYS(party,
                 dl_slot_probe(side->plugin, side->self, dlt_now_ns() + 10000 * DLT_NS_PER_MS,
                               &found, i == 0 ? check_count : NULL, &checks, &side->err),
                 DLOCK_OK, "a store that is as it was");
        check_info(side, &found);
        DLT_CHECK(
            found.caps == side->info.caps && strcmp(found.endpoint, side->info.endpoint) == 0 &&
                found.ttl_least_ms == side->info.ttl_least_ms,
            "probe found 0x%llx at %s; open: 0x%llx at %s [OPN-5]", (unsigned long long)found.caps,
            found.endpoint, (unsigned long long)side->info.caps, side->info.endpoint);
    }
    DLT_CHECK(checks > 0, "probe told of no check");
}

void dlt_slots_open_says(struct dlt_run *run)
{
    struct dlt_party a, second, other;

    dlt_party_begin(&a, run, "a", NULL);
    dlt_party_join(&second, &a, "a second session of a");
    dlt_party_begin(&other, run, "another client", NULL);
    check_info(&a.side, &a.side.info);
    DLT_CHECK(((a.side.info.caps ^ second.side.info.caps) & SAME_CAPS) == 0 &&
                  ((a.side.info.caps ^ other.side.info.caps) & SAME_CAPS) == 0,
              "sessions of one target differ: 0x%llx, 0x%llx, 0x%llx [OPN-5]",
              (unsigned long long)a.side.info.caps, (unsigned long long)second.side.info.caps,
              (unsigned long long)other.side.info.caps);
    if (a.side.plugin->ops.probe != NULL)
        check_probe(&a);
    dlt_tries(&a, DLOCK_OK, "after a probe");
    dlt_unlocks(&a, DLOCK_OK, "after a probe");
    dlt_party_end(&other);
    dlt_party_end(&second);
    dlt_party_end(&a);
}

void dlt_slots_ttls(struct dlt_run *run)
{
    struct dlt_party a;
    int64_t most_ms;

    dlt_party_begin(&a, run, "a", NULL);
    a.attempt.req.ttl_ms = 100; /* of a core that rounds nothing [TTL-2] */
    dlt_tries(&a, DLOCK_OK, "with a ttl of 100 ms");
    (void)dlt_party_unlock(&a); /* LOST, if it has ended */
    dlt_party_anew(&a, "longest", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    most_ms = a.side.info.ttl_most_ms;
    a.attempt.req.ttl_ms = most_ms > 0 ? most_ms : dlt_ttl_within(INT64_C(7) * 24 * 3600 * 1000);
    dlt_tries(&a, DLOCK_OK, "with the greatest ttl");
    dlt_renews(&a, DLOCK_OK, "with the greatest ttl");
    dlt_unlocks(&a, DLOCK_OK, "with the greatest ttl");
    dlt_party_end(&a);
}

void dlt_slots_create_off(struct dlt_run *run)
{
    struct dlt_party a, b;

    dlt_party_begin(&a, run, "a", NULL);
    if (!dlt_party_may_set(&a, "create"))
        dlt_skip("not applicable: no option create");
    dlt_party_begin(&b, run, "a client with create=off", "create=off");
    dlt_tries(&b, DLOCK_OK, "of a free name");
    dlt_tries(&a, DLOCK_BUSY, "of a name that a client with create=off holds");
    dlt_unlocks(&b, DLOCK_OK, "the holder");
    dlt_party_end(&b);
    dlt_party_end(&a);
}

/* ---- a password that was changed ---- */

#define WRONG "n0t-the-passw0rd"

static int (*right)(const struct dlock_target *target, const char *option, char *buf, size_t size,
                    struct dlock_error *err);
static int wrong_left; /* so many times the wrong one; -1: always */
static int calls;

static int read_secret(const struct dlock_target *target, const char *option, char *buf,
                       size_t size, struct dlock_error *err)
{
    if (option != NULL)
        return right(target, option, buf, size, err);
    calls++;
    if (wrong_left == 0)
        return right(target, option, buf, size, err);
    if (wrong_left > 0)
        wrong_left--;
    return snprintf(buf, size, "%s", WRONG);
}

void dlt_slots_password_changed(struct dlt_run *run)
{
    struct dlt_party a;
    struct dlt_side *side = &a.side;
    enum dlock_status status;

    dlt_party_begin(&a, run, "a", NULL);
    if (side->store->target.password == NULL)
        dlt_skip("not applicable: no password in the URI");
    right = side->store->target.read_secret;
    side->store->target.read_secret = read_secret;
    dlt_side_close(side);
    wrong_left = 1;
    DLT_SAYS(&a, dlt_side_open(side), DLOCK_OK, "a password that was changed just now [SEC-1]");
    DLT_CHECK(calls >= 2 && wrong_left == 0, "the secret was read %d times [SEC-1]", calls);
    dlt_tries(&a, DLOCK_OK, "of a free name");
    dlt_unlocks(&a, DLOCK_OK, "the holder");
    dlt_party_over(&a);
    dlt_side_close(side);
    wrong_left = -1;
    status = dlt_side_open(side);
    DLT_SAYS(&a, status, DLOCK_AUTH, "a wrong password [OPN-3]");
    DLT_CHECK(side->err.message[0] != '\0' && strstr(side->err.message, WRONG) == NULL,
              "AUTH, and the text is: %s", side->err.message);
    wrong_left = 0;
    DLT_SAYS(&a, dlt_side_open(side), DLOCK_OK, "the right password");
    dlt_party_end(&a);
}
