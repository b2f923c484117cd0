/* SPDX-License-Identifier: MIT */
/*
 * store_tables.c - the table of what each store can do, from the capabilities that
 * dlock-conformance expects of it (the case caps_in_force compares them with real servers).
 *
 *     store_tables PAGE...            compares, TAP on standard output
 *     store_tables --write PAGE...    rewrites them in place
 *
 * A table is what stands between "<!-- stores: LANGUAGE -->" and "<!-- end -->".
 */
#include "expected.h"
#include "page_table.h"

#include <dlock/types.h>
#include <stdlib.h>
#include <string.h>

enum language { ENGLISH, CHINESE, LANGUAGES };

typedef const char *const words[LANGUAGES];

#define WORDS(english, chinese) \
    {                           \
        english, chinese        \
    }

static const struct {
    const char *name; /* as a reader writes it */
    const char *uri;
    const char *more_uri, *more; /* a URI that can do more, and the option that makes it so */
    words order;                 /* without QUEUE */
    words server;                /* survives the loss of these servers, without FAILOVER_SAFE */
    bool ends_with_process;      /* without SESSION */
} stores[] = {
    {"`sqlite:`", "sqlite:x", NULL, NULL, {NULL}, {NULL}, true},
    {"`redis://`", "redis://h", NULL, NULL, {NULL}, {NULL}, false},
    {"`redis+sentinel://`", "redis+sentinel://h", NULL, NULL, {NULL}, {NULL}, false},
    {"`redis+cluster://`", "redis+cluster://h", NULL, NULL, {NULL}, {NULL}, false},
    {"`redlock://`", "redlock://h", "redlock://h?restart_guard=0&fence=on", "`fence=on`",
     WORDS("nearly", "大致"), WORDS("of a minority", "少数"), false},
    {"`mysql://`", "mysql://h", NULL, NULL, WORDS("nearly", "大致"),
     WORDS("no: a failover may make two holders", "否：故障切换可能产生两个持有者"), false},
    {"`mysql://`, `strategy=session`",
     "mysql://h?strategy=session",
     NULL,
     NULL,
     WORDS("nearly", "大致"),
     {NULL},
     false},
    {"`postgresql://`",
     "postgresql://h",
     NULL,
     NULL,
     {NULL},
     WORDS("only with a synchronous standby (not tested)", "仅限同步备库（未经测试）"),
     false},
    {"`postgresql://`, `strategy=session`",
     "postgresql://h?strategy=session",
     NULL,
     NULL,
     WORDS("yes", "是"),
     {NULL},
     false},
    {"`etcd://`", "etcd://h", NULL, NULL, {NULL}, WORDS("of a minority", "少数"), false},
    {"`zk://`", "zk://h", NULL, NULL, {NULL}, WORDS("of a minority", "少数"), false},
    {"`memory://`", "memory://x", NULL, NULL, {NULL}, {NULL}, false},
};

static const struct {
    uint32_t cap;
    words head;
} columns[] = {
    {DLOCK_CAP_FENCE, WORDS("fencing token", "防护令牌")},
    {DLOCK_CAP_QUEUE, WORDS("in order of arrival", "按到达顺序")},
    {DLOCK_CAP_RWLOCK, WORDS("readers and writers", "读写锁")},
    {DLOCK_CAP_LIMIT, WORDS("semaphores", "信号量")},
    {DLOCK_CAP_KEEP, WORDS("kept names", "保留名字")},
    {DLOCK_CAP_DATA, WORDS("data of the holder", "持有者的数据")},
    {DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FAILOVER_SAFE, /* [FO-1] holds after a restart, too */
     WORDS("a restart makes no second holder", "重启不会产生第二个持有者")},
    {DLOCK_CAP_FAILOVER_SAFE, WORDS("survives the loss of a server", "服务器故障后仍有效")},
    {DLOCK_CAP_SESSION, WORDS("a killed holder's name is free", "被杀死的持有者的名字空闲于")},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static uint64_t caps_of(const char *uri)
{
    uint64_t caps = 0;

    if (uri != NULL && !dlt_expected_caps(uri, &caps)) {
        (void)fprintf(stderr, "dlock-conformance expects nothing of %s\n", uri);
        exit(2);
    }
    return caps;
}

/* When the name of a killed holder is free. */
static const char *end_cell(size_t store, uint64_t caps, enum language language)
{
    static words at_once = WORDS("at once", "立刻"), ttl = WORDS("after its ttl", "一个 ttl 之后"),
                 ticks = WORDS("after its ttl and 4 ticks", "一个 ttl 加 4 个 tick 之后");

    if ((caps & DLOCK_CAP_SESSION) != 0 || stores[store].ends_with_process)
        return at_once[language];
    return (caps & DLOCK_CAP_TETHERED) != 0 ? ticks[language] : ttl[language];
}

static const char *cell(size_t store, uint32_t cap, enum language language)
{
    static words yes = WORDS("yes", "是"), no = WORDS("no", "否");
    const uint64_t of_a_server = DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FAILOVER_SAFE | DLOCK_CAP_SESSION;
    uint64_t caps = caps_of(stores[store].uri);

    if ((caps & DLOCK_CAP_PRIVATE) != 0 && (cap & of_a_server) != 0)
        return "-";
    if (cap == DLOCK_CAP_SESSION)
        return end_cell(store, caps, language);
    if ((caps & cap) != 0)
        return yes[language];
    if ((caps_of(stores[store].more_uri) & cap) != 0)
        return stores[store].more;
    if (cap == DLOCK_CAP_QUEUE && stores[store].order[language] != NULL)
        return stores[store].order[language];
    if (cap == DLOCK_CAP_FAILOVER_SAFE && stores[store].server[language] != NULL)
        return stores[store].server[language];
    return no[language];
}

static bool table_write(FILE *out, const char *name)
{
    static words store = WORDS("store", "存储");
    enum language language = strcmp(name, "zh") == 0 ? CHINESE : ENGLISH;

    if (language == ENGLISH && strcmp(name, "en") != 0)
        return false;
    (void)fprintf(out, "| %s |", store[language]);
    for (size_t i = 0; i < COUNT(columns); i++)
        (void)fprintf(out, " %s |", columns[i].head[language]);
    (void)fputs("\n|---|", out);
    for (size_t i = 0; i < COUNT(columns); i++)
        (void)fputs("---|", out);
    for (size_t i = 0; i < COUNT(stores); i++) {
        (void)fprintf(out, "\n| %s |", stores[i].name);
        for (size_t k = 0; k < COUNT(columns); k++)
            (void)fprintf(out, " %s |", cell(i, columns[k].cap, language));
    }
    (void)fputc('\n', out);
    return true;
}

int main(int argc, char **argv)
{
    bool write = argc > 2 && strcmp(argv[1], "--write") == 0;
    int failed = 0, first = write ? 2 : 1;

    if (argc < 2) {
        (void)fputs("usage: store_tables [--write] PAGE...\n", stderr);
        return 2;
    }
    for (int i = first; i < argc; i++) {
        struct page_tables tables = {.kind = "stores", .write = table_write};
        char *page = page_table_read(argv[i]), *right = page_table_make(page, &tables);
        bool good = tables.found == 1 && tables.unknown == 0;

        if (write)
            good = good && page_table_write(argv[i], right) == 0;
        else
            good = good && strcmp(page, right) == 0;
        printf("%sok %d - the table of stores of %s is what dlock-conformance expects\n",
               good ? "" : "not ", i - first + 1, argv[i]);
        if (!good && !write)
            printf("# store_tables --write %s sets it right\n", argv[i]);
        failed += !good;
        free(page);
        free(right);
    }
    printf("1..%d\n", argc - first);
    return failed != 0;
}
