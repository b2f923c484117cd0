/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/kv.c plugins/etcd/txn.c plugins/etcd/queue.c */
/* Which keys does a name have, and which place has a key in the queue of its name? */
#include "kv.h"
#include "queue.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct etcd_config config;
static struct etcd_keys keys;

static void prefix(const char *text)
{
    config = (struct etcd_config){.prefix_len = strlen(text), .fence_scale = 32};
    (void)snprintf(config.prefix, sizeof config.prefix, "%s", text);
}

static void key_is(const char *name, size_t len, const char *token, const char *want)
{
    etcd_kv_keys(&keys, &config, name, len, token);
    cr_assert_eq(keys.key_len, strlen(want), "%.*s", (int)keys.key_len, (const char *)keys.key);
    cr_assert_eq(memcmp(keys.key, want, keys.key_len), 0, "%.*s", (int)keys.key_len,
                 (const char *)keys.key);
    cr_assert_eq(keys.end[keys.dir_len - 1], '0');
    cr_assert_eq(memcmp(keys.key, keys.end, keys.dir_len - 1), 0);
}

Test(keys, TRY_7_the_key_is_the_name_a_slash_and_the_token)
{
    prefix("");
    key_is("job", 3, "0123", "job/0123");
    cr_assert_eq(keys.dir_len, 4);
    key_is("job", 3, NULL, "job/");
    prefix("locks/");
    key_is("job", 3, "0123", "locks/job/0123");
}

Test(keys, TRY_7_no_name_is_in_the_range_of_another)
{
    prefix("");
    key_is("a/b", 3, "t", "a%2Fb/t");
    key_is("a%2Fb", 5, "t", "a%252Fb/t");
    key_is("a%b/", 4, "t", "a%25b%2F/t");
    config.raw = true;
    key_is("a/b%", 4, "t", "a/b%/t");
}

Test(keys, TRY_7_any_bytes_and_the_longest_name_fit)
{
    unsigned char name[255];
    char token[ETCD_TOKEN_HEX + 1], long_prefix[ETCD_PREFIX_MAX + 2];

    memset(name, '/', sizeof name);
    memset(token, 'f', ETCD_TOKEN_HEX);
    memset(long_prefix, 'p', ETCD_PREFIX_MAX + 1);
    token[ETCD_TOKEN_HEX] = long_prefix[ETCD_PREFIX_MAX + 1] = '\0';
    prefix(long_prefix);
    etcd_kv_keys(&keys, &config, name, sizeof name, token);
    cr_assert_eq(keys.key_len, ETCD_KEY_MAX);
}

static bool parts_are(const char *key, size_t len, const char *name, size_t name_len,
                      const char *owner)
{
    struct etcd_key_parts parts;

    if (!etcd_kv_parse_key(&parts, &config, key, len))
        return false;
    return parts.name_len == name_len && memcmp(parts.name, name, name_len) == 0 &&
           parts.owner_len == strlen(owner) && memcmp(parts.owner, owner, parts.owner_len) == 0;
}

Test(keys, a_key_says_its_name_and_its_owner)
{
    prefix("p/");
    cr_assert(parts_are("p/job/0123", 10, "job", 3, "0123"));
    cr_assert(parts_are("p/a%2Fb%25/t", 12, "a/b%", 4, "t"));
    cr_assert(parts_are("p/a/b/t", 7, "a", 1, "b/t"), "it is in the way of the name a");
    cr_assert(parts_are("p/a\0b/t", 7, "a\0b", 3, "t"));
    config.raw = true;
    cr_assert(parts_are("p/a/b/t", 7, "a/b", 3, "t"));
    cr_assert(parts_are("p/a%2Fb/t", 9, "a%2Fb", 5, "t"));
}

Test(keys, a_key_of_something_else_has_no_name)
{
    struct etcd_key_parts parts;
    char key[3 * 256 + 4];

    prefix("p/");
    cr_assert_not(etcd_kv_parse_key(&parts, &config, "q/job/t", 7), "another prefix");
    cr_assert_not(etcd_kv_parse_key(&parts, &config, "p", 1));
    cr_assert_not(etcd_kv_parse_key(&parts, &config, "p/job", 5), "no slash");
    cr_assert_not(etcd_kv_parse_key(&parts, &config, "p//t", 4), "no name");
    cr_assert_not(etcd_kv_parse_key(&parts, &config, "p/a%20b/t", 9), "dlock writes no such name");
    cr_assert_not(etcd_kv_parse_key(&parts, &config, "p/a%2fb/t", 9));
    cr_assert_not(etcd_kv_parse_key(&parts, &config, "p/a%2/t", 7));
    memset(key, 'x', sizeof key);
    memcpy(key, "p/", 2);
    key[2 + 255] = '/';
    cr_assert(etcd_kv_parse_key(&parts, &config, key, 260));
    key[2 + 255] = 'x';
    key[2 + 256] = '/';
    cr_assert_not(etcd_kv_parse_key(&parts, &config, key, 260), "256 bytes are no name");
}

Test(keys, the_value_says_the_mode_and_the_label)
{
    char value[ETCD_VALUE_SIZE];
    size_t len = etcd_kv_make(value, sizeof value, DLOCK_SHARED, "host:1:x");

    cr_assert_eq(len, 10);
    cr_assert_eq(memcmp(value, "s host:1:x", 10), 0);
    cr_assert(etcd_kv_is_shared(value, len));
    len = etcd_kv_make(value, sizeof value, DLOCK_EXCLUSIVE, NULL);
    cr_assert_eq(len, 2);
    cr_assert_not(etcd_kv_is_shared(value, len));
    cr_assert_not(etcd_kv_is_shared("", 0), "of another program");
    cr_assert_not(etcd_kv_is_shared("s", 1));
    cr_assert_eq(etcd_kv_make(value, 4, DLOCK_SHARED, "long"), 3);
    etcd_kv_label(value, 5, "s label", 7);
    cr_assert_str_eq(value, "labe");
    etcd_kv_label(value, 5, "label", 5);
    cr_assert_str_eq(value, "");
    etcd_kv_label(value, 5, "", 0);
    cr_assert_str_eq(value, "");
}

/* What the holder of the value publishes. */
static struct dlock_holder data_of(const char *value, size_t len)
{
    struct dlock_holder holder = {.struct_size = sizeof holder};
    struct etcd_value parsed;

    etcd_kv_parse(&parsed, value, len);
    etcd_kv_data(&holder, &parsed);
    return holder;
}

/* C24 */
Test(keys, DAT_1_data_are_behind_the_label)
{
    struct dlock_request req = {.struct_size = sizeof req};
    char value[ETCD_VALUE_SIZE], label[ETCD_VALUE_SIZE];
    static unsigned char most[DLOCK_DATA_MAX];
    size_t len = etcd_kv_make(value, sizeof value, DLOCK_EXCLUSIVE, "host:1");
    struct dlock_holder holder;

    cr_assert_eq(etcd_kv_add_data(value, len, &req), len, "nothing");
    cr_assert_null(data_of(value, len).data);
    req.data = (const unsigned char *)"a\0b";
    req.data_len = 3;
    len = etcd_kv_add_data(value, len, &req);
    cr_assert_eq(len, 8 + 1 + 3);
    holder = data_of(value, len);
    cr_assert_eq(holder.data_len, 3);
    cr_assert_arr_eq(holder.data, "a\0b", 3);
    etcd_kv_label(label, sizeof label, value, len);
    cr_assert_str_eq(label, "host:1");
    req.data = most;
    req.data_len = sizeof most;
    len = etcd_kv_make_permit(value, sizeof value, 1000, 999, "host:1");
    holder = data_of(value, etcd_kv_add_data(value, len, &req));
    cr_assert_eq(holder.data_len, sizeof most);
    cr_assert_null(data_of("k host:1\0data", 13).data, "what is kept has none");
    cr_assert_null(data_of("foreign\0data", 12).data, "a value of another program");
}

/* ---- the queue ---- */

#define MOST 8

static Pb__KeyValue kvs[MOST];
static Pb__KeyValue *list[MOST];
static Pb__RangeResponse answer;
static struct etcd_position position;

/* Keys with these revisions, the newest first; modes: 's' or 'x' each. */
static void queue_is(const char *modes, const int64_t *revisions, bool more)
{
    static const Pb__KeyValue kv = PB__KEY_VALUE__INIT;
    static const Pb__RangeResponse range = PB__RANGE_RESPONSE__INIT;
    static uint8_t shared[] = "s ", exclusive[] = "x ";

    answer = range;
    answer.n_kvs = strlen(modes);
    answer.kvs = list;
    answer.more = more;
    answer.count = (int64_t)answer.n_kvs + (more ? 100 : 0);
    for (size_t i = 0; i < answer.n_kvs; i++) {
        kvs[i] = kv;
        kvs[i].create_revision = revisions[i];
        kvs[i].mod_revision = revisions[i] + 1;
        kvs[i].lease = 7;
        kvs[i].value = (ProtobufCBinaryData){2, modes[i] == 's' ? shared : exclusive};
        list[i] = &kvs[i];
    }
}

Test(queue, TRY_1_a_key_without_one_before_it_holds_the_name)
{
    const int64_t revisions[] = {9};

    position.revision = 12;
    queue_is("x", revisions, false);
    etcd_queue_judge(&position, list[0], &answer, false);
    cr_assert(position.holds);
    cr_assert_eq(position.create_revision, 9);
    cr_assert_eq(position.mod_revision, 10);
    cr_assert_eq(position.lease_id, 7);
    cr_assert_eq(position.keys, 1);
    cr_assert_eq(position.revision, 12);
    cr_assert_null(position.predecessor);
}

Test(queue, TRY_1_a_writer_waits_for_the_key_before_it)
{
    const int64_t revisions[] = {9, 5, 3};

    queue_is("xsx", revisions, false);
    etcd_queue_judge(&position, list[0], &answer, false);
    cr_assert_not(position.holds);
    cr_assert_eq(position.predecessor, list[1]);
    cr_assert_not(position.predecessor_is_first);
    etcd_queue_judge(&position, list[1], &answer, false);
    cr_assert_eq(position.predecessor, list[2]);
    cr_assert(position.predecessor_is_first);
    etcd_queue_judge(&position, list[2], &answer, false);
    cr_assert(position.holds, "newer keys do not count");
}

Test(queue, C12_a_reader_waits_for_the_newest_writer_before_it)
{
    const int64_t revisions[] = {9, 7, 5, 3};

    queue_is("ssxs", revisions, false);
    etcd_queue_judge(&position, list[0], &answer, true);
    cr_assert_eq(position.predecessor, list[2]);
    etcd_queue_judge(&position, list[3], &answer, true);
    cr_assert(position.holds);
    queue_is("sss", revisions, false);
    etcd_queue_judge(&position, list[0], &answer, true);
    cr_assert(position.holds);
}

Test(queue, C12_what_was_not_read_is_not_taken_for_free)
{
    const int64_t revisions[] = {9, 7, 5};

    queue_is("sss", revisions, true);
    etcd_queue_judge(&position, list[0], &answer, true);
    cr_assert_not(position.holds);
    cr_assert_eq(position.further, 5, "an older key may be a writer's");
    kvs[0].create_revision = 6; /* an old key, beyond the page */
    queue_is("xx", revisions, true);
    etcd_queue_judge(&position, NULL, &answer, false);
    cr_assert_not(position.holds, "without a key");
    cr_assert_eq(position.create_revision, 0);
    cr_assert_eq(position.predecessor, list[0]);
}

Test(queue, only_the_very_key_is_found)
{
    const int64_t revisions[] = {9, 5};
    static uint8_t own[] = "job/0123", other[] = "job/0124";

    prefix("");
    etcd_kv_keys(&keys, &config, "job", 3, "0123");
    queue_is("xx", revisions, false);
    kvs[0].key = (ProtobufCBinaryData){8, other};
    kvs[1].key = (ProtobufCBinaryData){8, own};
    cr_assert_eq(etcd_queue_find(&answer, &keys), list[1]);
    kvs[1].key.len = 7;
    cr_assert_null(etcd_queue_find(&answer, &keys));
}

/* ---- the slot ---- */

Test(slot, UNL_4_cleared_it_has_nothing_left)
{
    const int64_t revisions[] = {9, 5};
    static uint8_t other[] = "job/0124";
    struct etcd_slot slot = {.interrupted = true};
    struct etcd_lease *lease = etcd_lease_adopt(7);

    queue_is("xx", revisions, false);
    kvs[1].key = (ProtobufCBinaryData){8, other};
    etcd_queue_judge(&position, list[0], &answer, false);
    etcd_queue_note(&slot, lease, &position);
    cr_assert_eq(slot.predecessor_len, 8);
    cr_assert_not(slot.holds);
    cr_assert_eq(etcd_queue_clear(&slot), lease);
    cr_assert_null(slot.predecessor);
    cr_assert_eq(slot.create_revision, 0);
    cr_assert_null(slot.lease);
    cr_assert(slot.interrupted, "sticky [INT-2]");
    etcd_queue_drop(&slot);
    etcd_lease_drop(lease);
}

Test(slot, TRY_6_the_fence_is_the_revision_at_a_scale)
{
    struct etcd_session session = {.config = {.fence_scale = 32}};
    struct etcd_slot slot = {.interrupted = false};
    struct etcd_lease *lease = etcd_lease_adopt(7);
    struct dlock_grant grant = {.struct_size = sizeof grant};

    lease->ttl_ms = 3000;
    etcd_queue_hold(&slot, lease, 100, 0);
    etcd_queue_grant(&session, &slot, 60000, &grant);
    cr_assert_eq(grant.fence, 3200);
    cr_assert_eq(grant.fence_room, 31);
    cr_assert_eq(grant.lease_ms, 3000, "not more than the lease has");
    etcd_queue_grant(&session, &slot, 300, &grant);
    cr_assert_eq(grant.lease_ms, 300, "not more than was asked for");
    session.config.fence_scale = 1;
    etcd_queue_grant(&session, &slot, 300, &grant);
    cr_assert_eq(grant.fence, 100);
    cr_assert_eq(grant.fence_room, 0);
    etcd_queue_drop(&slot);
}
