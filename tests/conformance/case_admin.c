/* SPDX-License-Identifier: MIT */
/* Does an operator see what is there, and can he break it? And is the store what it should be? */
#include "conformance.h"
#include "expected.h"

#include <inttypes.h>
#include <string.h>

void dlt_case_caps_in_force(struct dlt_run *run)
{
    struct dlock_client *client = NULL;
    char have[160], want[160];
    uint32_t caps = 0;

    if (!run->has_expected)
        dlt_skip("nothing is known about this scheme: say --expect CAPS");
    client = dlt_client(run, NULL);
    caps = dlock_client_caps(client);
    DLT_CHECK(caps == run->expected, "caps are %s, want %s",
              dlt_caps_format(caps, have, sizeof have),
              dlt_caps_format(run->expected, want, sizeof want));
    dlock_client_close(client);
}

static void finding_check(void *arg, const struct dlock_finding *finding)
{
    const uint32_t *caps = arg;

    DLT_CHECK(finding->name[0] != '\0' && finding->found[0] != '\0', "a finding without words");
    DLT_CHECK((finding->clears & *caps) == 0, "\"%s\" costs what is in force", finding->name);
}

void dlt_case_probe_finds_what_is_in_force(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    uint32_t caps = dlock_client_caps(client);

    if (dlt_may_lack(run, dlock_probe(client, NULL, NULL, &dlt_err)))
        dlt_skip("this store has no probe");
    DLT_OK(dlock_probe(client, finding_check, &caps, &dlt_err));
    DLT_CHECK(dlock_client_caps(client) == caps, "the capabilities have changed");
    dlock_client_close(client);
}

void dlt_case_client_names_its_store(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);

    DLT_CHECK(dlock_client_uri(client)[0] != '\0', "no URI");
    DLT_CHECK(dlock_client_server(client)[0] != '\0', "no server");
    DLT_CHECK(dlock_client_event_fd(client) >= 0, "no event fd");
    dlock_client_close(client);
}

void dlt_case_inspect_tells_all(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_options options = {
        .struct_size = sizeof options, .ttl_ms = 20000, .label = "nightly report"};
    struct dlock *lock = dlt_lock_with(run, client, "x", &options);
    struct dlt_name name = dlt_name(run, "x");
    struct dlt_holder holder = dlt_inspect(other, &name);

    DLT_CHECK(holder.count == 0, "a holder of a free name");
    DLT_OK(dlock_trylock(lock, &dlt_err));
    dlt_sleep_ms(300);
    holder = dlt_inspect(other, &name);
    DLT_CHECK(holder.count == 1, "%u holders", holder.count);
    DLT_CHECK(holder.info.struct_size == sizeof holder.info, "struct_size %zu",
              holder.info.struct_size);
    DLT_CHECK(holder.info.name_len == name.len && memcmp(holder.name, name.text, name.len) == 0,
              "another name");
    DLT_CHECK(holder.info.mode == DLOCK_EXCLUSIVE, "mode %d", (int)holder.info.mode);
    DLT_CHECK(holder.info.fence == dlock_fence(lock), "fence %" PRIu64 ", the holder has %" PRIu64,
              holder.info.fence, dlock_fence(lock));
    DLT_CHECK(holder.info.remaining_ms > (dlt_session_lives(client) ? 0 : 10000) &&
                  holder.info.remaining_ms <= 20001,
              "%" PRId64 " ms left", holder.info.remaining_ms);
    DLT_CHECK(holder.info.held_ms == -1 ||
                  (holder.info.held_ms >= 299 && holder.info.held_ms < 10000),
              "held for %" PRId64 " ms", holder.info.held_ms);
    DLT_CHECK(strstr(holder.label, "nightly report") != NULL, "label \"%s\"", holder.label);
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_CHECK(dlt_inspect(other, &name).count == 0, "still shown after unlock");
    dlock_free(lock);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_inspect_forgets_the_expired(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock *lock = dlt_lease(run, client, "x", 150);
    struct dlt_name name = dlt_name(run, "x");

    DLT_TAKE(lock);
    DLT_CHECK(dlt_inspect(client, &name).count <= 1, "one holder at most");
    dlt_sleep_ms(160);
    DLT_CHECK(dlt_inspect_expired(client, &name).count == 0, "an expired lease is shown");
    dlock_free(lock);
    dlock_client_close(client);
}

struct listing {
    const struct dlt_run *run;
    unsigned calls, stop_after;
    unsigned seen; /* bits: last character, '0' to '9' */
};

static int listing_note(void *arg, const struct dlock_info *info)
{
    struct listing *listing = arg;
    const char *name = info->name;

    DLT_CHECK(info->name_len > strlen(listing->run->prefix) &&
                  memcmp(name, listing->run->prefix, strlen(listing->run->prefix)) == 0,
              "a name without the prefix");
    listing->calls++;
    listing->seen |= 1u << (name[info->name_len - 1] - '0');
    return listing->calls == listing->stop_after;
}

void dlt_case_list_by_prefix(struct dlt_run *run)
{
    static const char *const suffixes[] = {"a-0", "a-1", "a%2", "b-3", "A-4"};
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock *locks[5];
    struct dlt_name all = dlt_name(run, ""), some = dlt_name(run, "a-"), none = dlt_name(run, "_");
    struct listing listing = {.run = run};

    for (int i = 0; i < 5; i++) {
        locks[i] = dlt_lock(run, client, suffixes[i], 0);
        DLT_OK(dlock_trylock(locks[i], &dlt_err));
    }
    DLT_OK(dlock_unlock(locks[3], &dlt_err));
    if (dlt_may_lack(run, dlock_list(client, all.text, all.len, listing_note, &listing, &dlt_err)))
        dlt_skip("this store cannot list");
    listing = (struct listing){.run = run};
    DLT_OK(dlock_list(client, all.text, all.len, listing_note, &listing, &dlt_err));
    DLT_CHECK(listing.calls == 4 && listing.seen == 0x17, "all: %u calls, seen %#x", listing.calls,
              listing.seen);
    listing = (struct listing){.run = run};
    DLT_OK(dlock_list(client, some.text, some.len, listing_note, &listing, &dlt_err));
    DLT_CHECK(listing.calls == 2 && listing.seen == 0x3, "a-: %u calls, seen %#x", listing.calls,
              listing.seen);
    listing = (struct listing){.run = run};
    DLT_OK(dlock_list(client, none.text, none.len, listing_note, &listing, &dlt_err));
    DLT_CHECK(listing.calls == 0, "_ is no wildcard");
    listing = (struct listing){.run = run, .stop_after = 1};
    DLT_OK(dlock_list(client, all.text, all.len, listing_note, &listing, &dlt_err));
    DLT_CHECK(listing.calls == 1, "non-zero does not stop it");
    for (int i = 0; i < 5; i++)
        dlock_free(locks[i]);
    dlock_client_close(client);
}

void dlt_case_break_by_owner(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock *lock = dlt_lease(run, client, "x", 0), *next = dlt_lease(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    char owner[DLOCK_TOKEN_CHARS] = "", wrong[DLOCK_TOKEN_CHARS] = "";

    if (!dlt_can_break(run, client))
        dlt_skip("this store cannot break a lock");
    DLT_STATUS(dlock_break(client, name.text, name.len, NULL, &dlt_err), DLOCK_NOT_HELD);
    DLT_OK(dlock_trylock(lock, &dlt_err));
    (void)dlock_token(lock, owner, sizeof owner);
    (void)snprintf(wrong, sizeof wrong, "%s", owner);
    wrong[0] = wrong[0] == '0' ? '1' : '0';
    DLT_STATUS(dlock_break(client, name.text, name.len, wrong, &dlt_err), DLOCK_NOT_HELD);
    DLT_STATUS(dlock_trylock(next, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_break(client, name.text, name.len, owner, &dlt_err));
    DLT_OK(dlock_trylock(next, &dlt_err));
    DLT_STATUS(dlock_break(client, name.text, name.len, owner, &dlt_err), DLOCK_NOT_HELD);
    DLT_OK(dlock_renew(next, 0, &dlt_err));
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    DLT_OK(dlock_unlock(next, &dlt_err));
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
}
