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
    uint64_t caps = 0;

    if (!run->has_expected)
        dlt_skip("nothing is known about this scheme: say --expect CAPS");
    client = dlt_client(run, NULL);
    caps = dlock_client_caps(client);
    DLT_CHECK(caps == run->expected, "caps are %s, want %s",
              dlt_caps_format(caps, have, sizeof have),
              dlt_caps_format(run->expected, want, sizeof want));
    dlock_client_close(client);
}

static bool finding_check(void *arg, const struct dlock_check *finding)
{
    const uint64_t *caps = arg;

    DLT_CHECK(finding->name[0] != '\0' && finding->found[0] != '\0',
              "a finding has name \"%s\" and found \"%s\", want text in both", finding->name,
              finding->found);
    DLT_CHECK((finding->clears & *caps) == 0,
              "finding \"%s\" says that it clears a capability that is in force", finding->name);
    return false;
}

void dlt_case_probe_finds_what_is_in_force(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    uint64_t caps = dlock_client_caps(client);

    if (dlt_may_lack(run, dlock_client_probe(client, NULL, NULL, &dlt_err)))
        dlt_skip("this store has no probe");
    DLT_OK(dlock_client_probe(client, finding_check, &caps, &dlt_err));
    DLT_CHECK(dlock_client_caps(client) == caps,
              "the capabilities are others after the probe, want the same");
    dlock_client_close(client);
}

void dlt_case_client_names_its_store(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);

    DLT_CHECK(dlock_client_uri(client)[0] != '\0',
              "dlock_client_uri is empty, want the URI without secrets");
    DLT_CHECK(dlock_client_server(client)[0] != '\0',
              "dlock_client_server is empty: the plugin leaves info->server empty");
    DLT_CHECK(dlock_client_fd(client) >= 0, "dlock_client_fd is %d, want a descriptor",
              dlock_client_fd(client));
    dlock_client_close(client);
}

/* A node of several that answers late may count for a holder. */
static bool shows_none_soon(const struct dlt_run *run, struct dlock_client *client,
                            const struct dlt_name *name)
{
    int64_t start_ns = dlt_now_ns();

    while (dlt_inspect(client, name).count > 0) {
        if (dlt_ruler_judge(start_ns, dlt_now_ns(), run->slack_ms, NULL) == DLT_LATE)
            return false;
        dlt_sleep_ms(10);
    }
    return true;
}

void dlt_case_inspect_tells_all(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 20000,
                                    .label = "nightly report"};
    struct dlock_handle *lock = dlt_lock_with(run, client, "x", &options);
    struct dlt_name name = dlt_name(run, "x");
    struct dlt_holder holder = dlt_inspect(other, &name);
    int64_t ttl_ms = dlt_ttl(client, options.ttl_ms);

    DLT_CHECK(holder.count == 0, "inspect shows %u holders of a free name, want 0", holder.count);
    DLT_OK(dlock_trylock(lock, &dlt_err));
    dlt_sleep_ms(300);
    holder = dlt_inspect(other, &name);
    DLT_CHECK(holder.count == 1, "inspect shows %u holders, want 1", holder.count);
    DLT_CHECK(holder.info.struct_size == sizeof holder.info, "struct_size is %u, want %zu",
              holder.info.struct_size, sizeof holder.info);
    DLT_CHECK(holder.info.name_len == name.len && memcmp(holder.name, name.text, name.len) == 0,
              "inspect shows another name, want %s", name.text);
    DLT_CHECK(holder.info.mode == DLOCK_EXCLUSIVE, "inspect shows mode %d, want EXCLUSIVE",
              (int)holder.info.mode);
    DLT_CHECK(holder.info.fence == dlock_fence(lock), "fence %" PRIu64 ", the holder has %" PRIu64,
              holder.info.fence, dlock_fence(lock));
    DLT_CHECK((holder.info.remaining_ms > (dlt_ends_with_claim(client) ? 0 : ttl_ms / 2) &&
               holder.info.remaining_ms <= ttl_ms + 1) ||
                  (dlt_is_tethered(client) && holder.info.remaining_ms == -1),
              "inspect shows %" PRId64 " ms left of a lease of %" PRId64, holder.info.remaining_ms,
              ttl_ms);
    DLT_CHECK(holder.info.held_ms == -1 ||
                  (holder.info.held_ms >= 299 && holder.info.held_ms < 10000),
              "inspect shows it held for %" PRId64 " ms, want about 300, or -1 for not known",
              holder.info.held_ms);
    DLT_CHECK(strstr(holder.label, "nightly report") != NULL,
              "inspect shows label \"%s\", want \"nightly report\" in it", holder.label);
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_CHECK(shows_none_soon(run, other, &name),
              "inspect shows a holder after the unlock, want none");
    dlock_free(lock);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_inspect_forgets_the_expired(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lease(run, client, "x", 150);
    struct dlt_name name = dlt_name(run, "x");

    DLT_TAKE(lock);
    DLT_CHECK(dlt_inspect(client, &name).count <= 1,
              "inspect shows more than one holder of an exclusive lock");
    dlt_sleep_ms(dlt_ttl(client, 150) + 10);
    DLT_CHECK(dlt_inspect_expired(run, client, &name).count == 0,
              "inspect shows a lease that ran out, want no holder");
    dlock_free(lock);
    dlock_client_close(client);
}

struct listing {
    const struct dlt_run *run;
    unsigned calls, stop_after;
    unsigned seen; /* bits: last character, '0' to '9' */
};

static bool listing_note(void *arg, const struct dlock_holder *info)
{
    struct listing *listing = arg;
    const char *name = info->name;

    DLT_CHECK(info->name_len > strlen(listing->run->prefix) &&
                  memcmp(name, listing->run->prefix, strlen(listing->run->prefix)) == 0,
              "list shows a name that does not begin with the prefix");
    listing->calls++;
    listing->seen |= 1u << (name[info->name_len - 1] - '0');
    return listing->calls == listing->stop_after;
}

void dlt_case_list_by_prefix(struct dlt_run *run)
{
    static const char *const suffixes[] = {"a-0", "a-1", "a%2", "b-3", "A-4"};
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *locks[5];
    struct dlt_name all = dlt_name(run, ""), some = dlt_name(run, "a-"), none = dlt_name(run, "_");
    struct listing listing = {.run = run};

    for (int i = 0; i < 5; i++) {
        locks[i] = dlt_lock(run, client, suffixes[i], 0);
        DLT_OK(dlock_trylock(locks[i], &dlt_err));
    }
    DLT_OK(dlock_unlock(locks[3], &dlt_err));
    if (dlt_may_lack(
            run, dlock_client_list(client, all.text, all.len, listing_note, &listing, &dlt_err)))
        dlt_skip("this store cannot list");
    listing = (struct listing){.run = run};
    DLT_OK(dlock_client_list(client, all.text, all.len, listing_note, &listing, &dlt_err));
    DLT_CHECK(listing.calls == 4 && listing.seen == 0x17,
              "list of all 4 names that are held: %u calls of fn, names %#x, want 4 and 0x17",
              listing.calls, listing.seen);
    listing = (struct listing){.run = run};
    DLT_OK(dlock_client_list(client, some.text, some.len, listing_note, &listing, &dlt_err));
    DLT_CHECK(listing.calls == 2 && listing.seen == 0x3,
              "list of prefix a-: %u calls of fn, names %#x, want 2 and 0x3", listing.calls,
              listing.seen);
    listing = (struct listing){.run = run};
    DLT_OK(dlock_client_list(client, none.text, none.len, listing_note, &listing, &dlt_err));
    DLT_CHECK(listing.calls == 0, "list of prefix _: %u names, want 0: _ is a byte", listing.calls);
    listing = (struct listing){.run = run, .stop_after = 1};
    DLT_OK(dlock_client_list(client, all.text, all.len, listing_note, &listing, &dlt_err));
    DLT_CHECK(listing.calls == 1, "fn returned non-zero and was called %u times, want 1",
              listing.calls);
    for (int i = 0; i < 5; i++)
        dlock_free(locks[i]);
    dlock_client_close(client);
}

void dlt_case_break_by_owner(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lease(run, client, "x", 0),
                        *next = dlt_lease(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    char owner[DLOCK_TOKEN_CHARS] = "", wrong[DLOCK_TOKEN_CHARS] = "";

    if (!dlt_can_break(run, client))
        dlt_skip("this store cannot break a lock");
    DLT_STATUS(dlock_client_break(client, name.text, name.len, NULL, &dlt_err), DLOCK_NOT_HELD);
    DLT_OK(dlock_trylock(lock, &dlt_err));
    (void)dlock_token(lock, owner, sizeof owner);
    (void)snprintf(wrong, sizeof wrong, "%s", owner);
    wrong[0] = wrong[0] == '0' ? '1' : '0';
    DLT_STATUS(dlock_client_break(client, name.text, name.len, wrong, &dlt_err), DLOCK_NOT_HELD);
    DLT_STATUS(dlock_trylock(next, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_client_break(client, name.text, name.len, owner, &dlt_err));
    DLT_OK(dlock_trylock(next, &dlt_err));
    DLT_STATUS(dlock_client_break(client, name.text, name.len, owner, &dlt_err), DLOCK_NOT_HELD);
    DLT_OK(dlock_renew(next, 0, &dlt_err));
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    DLT_OK(dlock_unlock(next, &dlt_err));
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
}
