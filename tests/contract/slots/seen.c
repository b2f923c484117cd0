/* SPDX-License-Identifier: MIT */
#include "seen.h"
#include "session/slot.h"
#include "sys/error.h"

#include <string.h>

static void text_copy(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from != NULL ? from : "");
}

static bool holder_add(void *arg, const struct dlock_holder *holder)
{
    struct dlt_seen *seen = arg;
    struct dlt_seen_holder *to = &seen->holders[seen->count];

    DLT_CHECK(seen->count < DLT_SEEN_MOST, "more than %d holders are shown", DLT_SEEN_MOST);
    DLT_CHECK(holder->name_len <= DLOCK_NAME_MAX && holder->data_len <= DLOCK_DATA_MAX,
              "a holder with a name of %u bytes and %u bytes of data", holder->name_len,
              holder->data_len);
    to->told = *holder;
    text_copy(to->owner, sizeof to->owner, holder->owner);
    text_copy(to->label, sizeof to->label, holder->label);
    memcpy(to->name, holder->name, holder->name_len);
    to->name[holder->name_len] = '\0';
    if (holder->data_len > 0)
        memcpy(to->data, holder->data, holder->data_len);
    seen->count++;
    return false;
}

static int64_t due_ns(const struct dlt_party *party)
{
    return dlt_now_ns() + party->side.call_ms * DLT_NS_PER_MS;
}

static void list(struct dlt_seen *seen, struct dlt_party *asker, const char *prefix, size_t len)
{
    struct dlt_side *side = &asker->side;
    enum dlock_status status;

    dl_error_reset(&side->err);
    seen->count = 0;
    status = dl_slot_list(side->plugin, side->self, (const unsigned char *)prefix, (uint32_t)len,
                          due_ns(asker), holder_add, seen, &side->err);
    DLT_CHECK(status == DLOCK_OK, "list is %s", dlt_said(side, status));
}

static void same(const struct dlt_seen *seen, const struct dlt_seen *listed)
{
    DLT_CHECK(seen->count == listed->count, "inspect shows %zu holders, and list %zu", seen->count,
              listed->count);
    for (size_t i = 0; i < seen->count; i++) {
        const struct dlt_seen_holder *one = &seen->holders[i], *two = NULL;

        for (size_t j = 0; j < listed->count && two == NULL; j++)
            if (strcmp(listed->holders[j].owner, one->owner) == 0 &&
                listed->holders[j].told.permit == one->told.permit)
                two = &listed->holders[j];
        DLT_CHECK(two != NULL, "list does not show the holder %s", one->owner);
        DLT_CHECK(strcmp(one->name, two->name) == 0 && strcmp(one->label, two->label) == 0 &&
                      one->told.mode == two->told.mode && one->told.fence == two->told.fence &&
                      one->told.limit == two->told.limit && one->told.kept == two->told.kept &&
                      one->told.data_len == two->told.data_len &&
                      memcmp(one->data, two->data, one->told.data_len) == 0,
                  "inspect and list differ in what they show of the holder %s", one->owner);
    }
}

void dlt_look(struct dlt_seen *seen, struct dlt_party *asker)
{
    const struct dlock_request *req = &asker->attempt.req;
    struct dlt_side *side = &asker->side;
    struct dlt_seen listed;
    enum dlock_status status;

    if (side->plugin->ops.inspect == NULL)
        dlt_skip("no inspect");
    dl_error_reset(&side->err);
    seen->count = 0;
    status = dl_slot_inspect(side->plugin, side->self, req->name, req->name_len, due_ns(asker),
                             holder_add, seen, &side->err);
    DLT_CHECK(status == DLOCK_OK, "inspect is %s", dlt_said(side, status));
    if (side->plugin->ops.list == NULL)
        return;
    list(&listed, asker, (const char *)req->name, req->name_len);
    same(seen, &listed);
}

void dlt_look_list(struct dlt_seen *seen, struct dlt_party *asker, const char *text)
{
    struct dlt_name prefix = dlt_name(asker->run, text);

    if (asker->side.plugin->ops.list == NULL)
        dlt_skip("no list");
    list(seen, asker, prefix.text, prefix.len);
}

const char *dlt_token(const unsigned char token[DLOCK_TOKEN_SIZE])
{
    static _Thread_local char hex[2 * DLOCK_TOKEN_SIZE + 1];

    for (size_t i = 0; i < DLOCK_TOKEN_SIZE; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", token[i]);
    return hex;
}

const char *dlt_owner(const struct dlt_party *party)
{
    return dlt_token(party->attempt.req.token);
}

const struct dlt_seen_holder *dlt_seen_of(const struct dlt_seen *seen, struct dlt_party *party)
{
    for (size_t i = 0; i < seen->count; i++)
        if (seen->holders[i].told.kept == 0 &&
            strcmp(seen->holders[i].owner, dlt_owner(party)) == 0)
            return &seen->holders[i];
    dlt_fail(__FILE__, __LINE__, "%s, %s, is not among the %zu holders that are shown%s%s",
             party->who, dlt_owner(party), seen->count, seen->count > 0 ? ": " : "",
             seen->count > 0 ? seen->holders[0].owner : "");
}

const struct dlt_seen_holder *dlt_seen_kept(const struct dlt_seen *seen, uint32_t permit)
{
    for (size_t i = 0; i < seen->count; i++)
        if (seen->holders[i].told.kept && seen->holders[i].told.permit == permit)
            return &seen->holders[i];
    dlt_fail(__FILE__, __LINE__, "%zu holders are shown, and nothing is kept [KEP-1]", seen->count);
}

void dlt_look_counts(struct dlt_party *asker, size_t want, const char *when)
{
    struct dlt_seen seen;

    if (asker->side.plugin->ops.inspect == NULL)
        return;
    dlt_look(&seen, asker);
    DLT_CHECK(seen.count == want, "inspect shows %zu holders %s, want %zu", seen.count, when, want);
}
