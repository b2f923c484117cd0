/* SPDX-License-Identifier: MIT */
#include "subjects.h"

#include "rival.h"

#include <stdio.h>
#include <string.h>

#define MANY (BENCH_FITS_ALONE | BENCH_FITS_OWN)
#define ONE  (BENCH_FITS_ONE)

/* The store's figures are divided by the figures of its first limit that fits the workload. */
static const struct {
    enum bench_kind kind;
    const char *label; /* "%d": the number of nodes */
    const struct bench_work *work;
    unsigned fits;
} limits[] = {
    {BENCH_MEMORY, "condition variables", &bench_work_fifo, BENCH_FITS_THREADS},
    {BENCH_SQLITE, "bare SQLite", &bench_work_sqlite, MANY | BENCH_FITS_OPEN},
    {BENCH_SQLITE, "a program with SQLite", &bench_work_run_sqlite, BENCH_FITS_RUN},
    {BENCH_SQLITE, "true, beside SQLite", &bench_work_true, BENCH_FITS_RUN},
    {BENCH_REDIS, "bare hiredis, with a fence", &bench_work_redis_fence, MANY},
    {BENCH_REDIS, "bare hiredis", &bench_work_redis, MANY},
    {BENCH_REDIS, "bare hiredis, opened", &bench_work_redis_once, BENCH_FITS_OPEN},
    {BENCH_REDIS, "a program with hiredis", &bench_work_run_redis, BENCH_FITS_RUN},
    {BENCH_REDIS, "true, beside Redis", &bench_work_true, BENCH_FITS_RUN},
    {BENCH_REDIS, "bare hiredis, spinning", &bench_work_redis_spin, BENCH_FITS_ALONE},
    {BENCH_REDIS, "bare hiredis, spinning with a fence", &bench_work_redis_fence_spin,
     BENCH_FITS_ALONE},
    {BENCH_REDIS, "bare hiredis, 64 at once", &bench_work_redis_pipe, BENCH_FITS_ALONE},
    {BENCH_REDIS, "bare queue, fence and grant", &bench_work_grant_fence, ONE},
    {BENCH_REDIS, "bare queue and grant", &bench_work_grant, ONE},
    {BENCH_REDLOCK, "%d bare nodes, all answers", &bench_work_nodes, BENCH_FITS_ALONE},
    {BENCH_MYSQL, "bare UPDATE", &bench_work_maria_update, MANY},
    {BENCH_MYSQL, "bare UPDATE, opened", &bench_work_maria_text, BENCH_FITS_OPEN},
    {BENCH_MYSQL, "a program with libmariadb", &bench_work_run_maria, BENCH_FITS_RUN},
    {BENCH_MYSQL, "true, beside MariaDB", &bench_work_true, BENCH_FITS_RUN},
    {BENCH_MYSQL, "bare UPDATEs under GET_LOCK", &bench_work_maria_queue, ONE},
    {BENCH_MYSQL, "bare GET_LOCK", &bench_work_maria_getlock, ONE | BENCH_FITS_ALONE},
    {BENCH_MYSQL_SESSION, "bare FOR UPDATE and fence", &bench_work_maria_session,
     BENCH_FITS_ALONE | ONE},
    {BENCH_POSTGRESQL, "bare plpgsql", &bench_work_postgresql_function, MANY},
    {BENCH_POSTGRESQL, "bare prepared UPDATE", &bench_work_postgresql_update, MANY},
    {BENCH_POSTGRESQL, "bare plpgsql, not prepared", &bench_work_postgresql_text, MANY},
    {BENCH_POSTGRESQL, "bare plpgsql, opened", &bench_work_postgresql_text, BENCH_FITS_OPEN},
    {BENCH_POSTGRESQL, "bare queue and NOTIFY", &bench_work_postgresql_grant, ONE},
    {BENCH_POSTGRESQL_SESSION, "bare advisory lock and fence", &bench_work_postgresql_fence,
     BENCH_FITS_ALONE | ONE},
    {BENCH_POSTGRESQL_SESSION, "bare advisory lock", &bench_work_postgresql_advisory,
     BENCH_FITS_ALONE | ONE},
    {BENCH_ETCD, "bare Txns", &bench_work_etcd, MANY | BENCH_FITS_OPEN},
    {BENCH_ETCD, "bare queue and watch", &bench_work_etcd_queue, ONE},
    {BENCH_ZOOKEEPER, "bare flight", &bench_work_zookeeper, MANY | BENCH_FITS_OPEN},
    {BENCH_ZOOKEEPER, "bare nodes and watch", &bench_work_zookeeper, ONE},
};

int bench_subjects_same_store(const struct bench_subject *one, const struct bench_subject *other)
{
    struct bench_address a, b;

    if (bench_address_parse(one->uri, &a) != 0 || bench_address_parse(other->uri, &b) != 0 ||
        a.nodes != b.nodes)
        return 0;
    for (int i = 0; i < a.hosts; i++)
        if (strcmp(a.host[i].name, b.host[i].name) != 0 || a.host[i].port != b.host[i].port)
            return 0;
    return strcmp(a.path, b.path) == 0 && strcmp(a.socket, b.socket) == 0;
}

static const struct bench_subject *find(const struct bench_subjects *subjects, const char *label)
{
    for (int i = 0; i < subjects->count; i++)
        if (strcmp(subjects->all[i].label, label) == 0)
            return &subjects->all[i];
    return NULL;
}

int bench_subjects_add(struct bench_subjects *subjects, const char *text, char *why)
{
    struct bench_subject *subject = &subjects->all[subjects->count];
    const char *colon = strchr(text, ':');
    const char *equals = colon != NULL ? memrchr(text, '=', (size_t)(colon - text)) : NULL;
    const char *uri = equals != NULL ? equals + 1 : text;
    struct bench_address address;

    if (subjects->count == BENCH_SUBJECTS_MAX || strlen(uri) >= sizeof subject->uri ||
        bench_address_parse(uri, &address) != 0) {
        (void)snprintf(why, BENCH_WHY_SIZE, "%.100s: not a URI, or too many", uri);
        return -1;
    }
    *subject = (struct bench_subject){.kind = address.kind,
                                      .work = &bench_work_dlock,
                                      .fits = BENCH_FITS_ALL,
                                      .group = subjects->count};
    (void)snprintf(subject->uri, sizeof subject->uri, "%s", uri);
    if (equals != NULL)
        (void)snprintf(subject->label, sizeof subject->label, "%.*s", (int)(equals - text), text);
    else
        (void)bench_address_show(uri, subject->label, sizeof subject->label);
    if (find(subjects, subject->label) != NULL) {
        (void)snprintf(why, BENCH_WHY_SIZE, "%s: twice; give labels (LABEL=URI)", subject->label);
        return -1;
    }
    for (int i = subjects->count - 1; i >= 0; i--)
        if (subjects->all[i].kind == subject->kind &&
            bench_subjects_same_store(&subjects->all[i], subject))
            subject->group = subjects->all[i].group;
    subjects->count++;
    return 0;
}

/* A new subject at the address of a store; NULL: there is no room. */
static struct bench_subject *beside(struct bench_subjects *subjects,
                                    const struct bench_subject *store, enum bench_role role,
                                    const char *label)
{
    struct bench_subject *subject = &subjects->all[subjects->count];

    if (subjects->count == BENCH_SUBJECTS_MAX)
        return NULL;
    *subject = *store;
    subject->role = role;
    subject->work = NULL;
    (void)snprintf(subject->label, sizeof subject->label, "%.70s", label);
    if (find(subjects, subject->label) != NULL)
        (void)snprintf(subject->label, sizeof subject->label, "%.70s (%d)", label, store->group);
    subjects->count++;
    return subject;
}

void bench_subjects_add_async(struct bench_subjects *subjects)
{
    int stores = subjects->count;

    for (int i = 0; i < stores; i++) {
        const struct bench_subject *store = &subjects->all[i];
        struct bench_subject *subject = NULL;
        char label[BENCH_LABEL_SIZE + 16];

        if (store->role != BENCH_DLOCK || store->group != i)
            continue;
        (void)snprintf(label, sizeof label, "%s, dlock_op_start", store->label);
        subject = beside(subjects, store, BENCH_DLOCK, label);
        if (subject == NULL)
            return;
        subject->work = &bench_work_async;
        subject->fits = BENCH_FITS_OWN;
    }
}

/* True for the first store at an address, if a bare connection can use it. */
static int is_compared(const struct bench_subjects *subjects, int i)
{
    struct bench_address address;

    return subjects->all[i].role == BENCH_DLOCK && subjects->all[i].group == i &&
           bench_address_parse(subjects->all[i].uri, &address) == 0 && address.plain;
}

void bench_subjects_add_limits(struct bench_subjects *subjects)
{
    int stores = subjects->count;

    for (int i = 0; i < stores; i++) {
        const struct bench_subject *store = &subjects->all[i];

        for (size_t k = 0; is_compared(subjects, i) && k < sizeof limits / sizeof limits[0]; k++) {
            struct bench_address address;
            struct bench_subject *limit = NULL;
            char label[BENCH_LABEL_SIZE];

            if (limits[k].kind != store->kind || bench_address_parse(store->uri, &address) != 0)
                continue;
            if (strncmp(limits[k].label, "%d", 2) == 0)
                (void)snprintf(label, sizeof label, "%d%s", address.nodes, limits[k].label + 2);
            else
                (void)snprintf(label, sizeof label, "%s", limits[k].label);
            limit = beside(subjects, store, BENCH_LIMIT, label);
            if (limit == NULL)
                return;
            limit->work = limits[k].work;
            limit->fits = limits[k].fits;
            if (store->kind == BENCH_SQLITE)
                (void)snprintf(limit->uri, sizeof limit->uri, "%s-bare", address.path);
        }
    }
}

void bench_subjects_add_rivals(struct bench_subjects *subjects)
{
    int stores = subjects->count;

    for (int i = 0; i < stores; i++) {
        for (int k = 0; is_compared(subjects, i) && k < bench_rival_count; k++) {
            const struct bench_rival *rival = &bench_rivals[k];
            struct bench_subject *subject = NULL;
            struct bench_address address;
            char label[BENCH_LABEL_SIZE];

            if (rival->kind != subjects->all[i].kind ||
                bench_address_parse(subjects->all[i].uri, &address) != 0 ||
                address.socket[0] != '\0')
                continue;
            (void)snprintf(label, sizeof label, "%s", rival->label);
            if (rival->kind == BENCH_REDLOCK)
                (void)snprintf(label, sizeof label, "%s, %d nodes", rival->label, address.nodes);
            subject = beside(subjects, &subjects->all[i], BENCH_RIVAL, label);
            if (subject == NULL)
                return;
            subject->rival = rival;
            subject->fits = rival->fits;
        }
    }
}

int bench_subjects_open(struct bench_subjects *subjects, char *why)
{
    for (int i = 0; i < subjects->count; i++) {
        struct bench_subject *subject = &subjects->all[i];

        subject->meter = NULL;
        if (subject->group != i)
            subject->meter = subjects->all[subject->group].meter;
        else if (bench_meter_open(subject->uri, &subject->meter, why) != 0)
            return -1;
    }
    return 0;
}

void bench_subjects_close(struct bench_subjects *subjects)
{
    for (int i = 0; i < subjects->count; i++)
        if (subjects->all[i].group == i)
            bench_meter_close(subjects->all[i].meter);
}
