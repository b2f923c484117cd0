/* SPDX-License-Identifier: MIT */
/* Are names bytes, all of them, and nothing but bytes? */
#include "conformance.h"

#include <stdlib.h>
#include <string.h>

struct bytes {
    const char *text;
    size_t len;
};

#define BYTES(literal)               \
    {                                \
        literal, sizeof(literal) - 1 \
    }

/* Pairs that a store may take for one name, and texts that it may take for a command. The random
 * prefix is in front, or behind where the beginning matters. */
static const struct bytes tails[] = {
    BYTES("job"),
    BYTES("Job"),
    BYTES("job "),
    BYTES(" job"),
    BYTES("job\0"),
    BYTES("job\0x"),
    BYTES("job\0\0"),
    BYTES("job\n"),
    BYTES("job\r\n"),
    BYTES("job\t"),
    BYTES("jo"),
    BYTES("jobs"),
    BYTES("caf\xc3\xa9"),  /* e acute, composed */
    BYTES("cafe\xcc\x81"), /* the same, decomposed */
    BYTES("caf\xc3\x89"),  /* upper case */
    BYTES("caf\xe9"),      /* Latin-1: no UTF-8 */
    BYTES("ss"),
    BYTES("\xc3\x9f"),
    BYTES("\xff"),
    BYTES("\xff\xfe"),
    BYTES("\xed\xa0\x80"),
    BYTES("%s%n%d"),
    BYTES("%00"),
    BYTES("%2e"),
    BYTES("../../etc/passwd"),
    BYTES("/"),
    BYTES("."),
    BYTES(".."),
    BYTES("*"),
    BYTES("?"),
    BYTES("_"),
    BYTES("%"),
    BYTES("{a}"),
    BYTES("{a}b"),
    BYTES(":"),
    BYTES("'"),
    BYTES("''"),
    BYTES("\""),
    BYTES("`"),
    BYTES("\\"),
    BYTES("\\0"),
    BYTES("'; DROP TABLE locks; --"),
    BYTES("x' OR '1'='1"),
    BYTES("\r\nSET x 1\r\n"),
    BYTES("$(id)"),
    BYTES("\x1b[2J"),
    BYTES("\x7f"),
    BYTES("0"),
    BYTES("00"),
    BYTES("1e3"),
    BYTES("NULL"),
};

#define TAILS (sizeof tails / sizeof tails[0])

static size_t name_build(const struct dlt_run *run, const struct bytes *tail, int behind,
                         char name[DLOCK_NAME_MAX])
{
    size_t prefix_len = strlen(run->prefix);

    memcpy(behind ? name + tail->len : name, run->prefix, prefix_len);
    memcpy(behind ? name : name + prefix_len, tail->text, tail->len);
    return prefix_len + tail->len;
}

struct expectation {
    const char *name;
    size_t len;
    int calls;
};

static bool name_expect(void *arg, const struct dlock_holder *info)
{
    struct expectation *want = arg;

    want->calls++;
    DLT_CHECK(info->name_len == want->len && memcmp(info->name, want->name, want->len) == 0,
              "inspect shows another name than the one asked for");
    return 0;
}

void dlt_case_names_are_bytes(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, "connections=256"); /* all are held at once */
    struct dlock_handle *locks[2 * TAILS] = {NULL};
    struct dlock_handle *second = NULL;
    int shown = dlt_can_inspect(client);
    char name[DLOCK_NAME_MAX];

    for (size_t i = 0; i < 2 * TAILS; i++) {
        size_t len = name_build(run, &tails[i / 2], i % 2 == 1, name);

        DLT_OK(dlock_new(client, name, len, NULL, &locks[i], &dlt_err));
        DLT_CHECK(dlock_trylock(locks[i], &dlt_err) == DLOCK_OK,
                  "name %zu (\"%s\", %zu bytes) is taken by another: %s", i / 2, tails[i / 2].text,
                  len, dlt_err.message);
    }
    for (size_t i = 0; i < 2 * TAILS; i++) {
        struct expectation want = {.name = name,
                                   .len = name_build(run, &tails[i / 2], i % 2 == 1, name)};

        if (shown) {
            DLT_OK(dlock_client_inspect(client, name, want.len, name_expect, &want, &dlt_err));
            DLT_CHECK(want.calls == 1, "name %zu: inspect shows %d holders, want 1", i / 2,
                      want.calls);
        }
        DLT_OK(dlock_new(client, name, want.len, NULL, &second, &dlt_err));
        DLT_STATUS(dlock_trylock(second, &dlt_err), DLOCK_BUSY);
        dlock_free(second);
        DLT_OK(dlock_unlock(locks[i], &dlt_err));
        dlock_free(locks[i]);
    }
    dlock_client_close(client);
}

void dlt_case_names_have_limits(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    char name[DLOCK_NAME_MAX + 1];
    struct dlock_handle *locks[3] = {NULL}, *none = NULL;

    memset(name, 'n', sizeof name);
    memcpy(name, run->prefix, strlen(run->prefix));
    DLT_STATUS(dlock_new(client, name, 0, NULL, &none, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_new(client, name, sizeof name, NULL, &none, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_new(client, name, SIZE_MAX, NULL, &none, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_new(client, NULL, 3, NULL, &none, &dlt_err), DLOCK_INVALID);
    DLT_CHECK(strstr(dlt_err.message, "name is NULL") != NULL, "a name of NULL: \"%s\"",
              dlt_err.message);
    DLT_CHECK(none == NULL, "a refused dlock_new made a handle");
    /* Full length, one byte different at the end, one byte shorter: three names. */
    DLT_OK(dlock_new(client, name, DLOCK_NAME_MAX, NULL, &locks[0], &dlt_err));
    name[DLOCK_NAME_MAX - 1] = 'N';
    DLT_OK(dlock_new(client, name, DLOCK_NAME_MAX, NULL, &locks[1], &dlt_err));
    DLT_OK(dlock_new(client, name, DLOCK_NAME_MAX - 1, NULL, &locks[2], &dlt_err));
    for (int i = 0; i < 3; i++)
        DLT_OK(dlock_trylock(locks[i], &dlt_err));
    for (int i = 0; i < 3; i++)
        dlock_free(locks[i]);
    dlock_client_close(client);
}

void dlt_case_names_of_one_byte(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = NULL;

    /* Other runs use these names as well: wait for them. */
    for (int byte = 0; byte < 256; byte += 15) {
        unsigned char name = (unsigned char)byte;

        DLT_OK(dlock_new(client, &name, 1, NULL, &lock, &dlt_err));
        DLT_OK(dlock_timedlock(lock, 60000, &dlt_err));
        DLT_OK(dlock_unlock(lock, &dlt_err));
        dlock_free(lock);
    }
    dlock_client_close(client);
}

#define MANY 1000

static bool count_names(void *arg, const struct dlock_holder *info)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

/* A few short leases are renewed among the many. Where a client has one ttl for all of its leases,
 * all are short. */
void dlt_case_names_by_the_thousand(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, "op_timeout=15s");
    const int64_t short_ms = dlt_kept_ttl_ms(run) + 1000; /* fifty are renewed in that time */
    struct dlock_handle **locks = calloc(MANY, sizeof(struct dlock_handle *));
    struct dlt_name prefix = dlt_name(run, "many-");
    enum dlock_status status = DLOCK_INTERNAL;
    int listed = 0;

    if (dlt_session_lives(client))
        dlt_skip("a session a lock: not by the thousand");
    DLT_CHECK(locks != NULL, "no memory");
    for (int i = 0; i < MANY; i++) {
        char suffix[32];

        (void)snprintf(suffix, sizeof suffix, "many-%d", i);
        locks[i] = dlt_lock(run, client, suffix, i % 20 == 0 ? short_ms : 60000);
        DLT_OK(dlock_trylock(locks[i], &dlt_err));
    }
    status = dlock_client_list(client, prefix.text, prefix.len, count_names, &listed, &dlt_err);
    if (!dlt_may_lack(run, status)) {
        DLT_OK(status);
        DLT_CHECK(listed == MANY, "list shows %d names, want %d", listed, MANY);
    }
    dlt_sleep_ms(dlt_ttl(client, short_ms) + 500);
    for (int i = 0; i < MANY; i++)
        DLT_STATE(locks[i], DLOCK_STATE_HELD, "name %d of %d: not renewed", i, MANY);
    for (int i = 0; i < MANY; i++) {
        DLT_OK(dlock_unlock(locks[i], &dlt_err));
        dlock_free(locks[i]);
    }
    free(locks);
    dlock_client_close(client);
}
