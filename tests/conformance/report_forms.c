/* SPDX-License-Identifier: MIT */
#include "report_forms.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CLAUSES_MOST 128
#define STORES_MOST  32
#define CELL_WIDTH   26
#define CONTRACT     17 /* clauses of docs/guarantees.md */

struct clause {
    char name[16];
};

/* What is known of one clause on one store. */
struct cell {
    unsigned passed, failed, skipped;
    char reason[CELL_WIDTH]; /* of what was skipped */
};

struct sums {
    struct clause clauses[CLAUSES_MOST];
    const char *stores[STORES_MOST];
    size_t clause_count, store_count;
    struct cell cells[CLAUSES_MOST][STORES_MOST];
};

/* ---- table ---- */

/* C2 before C10, and what plugin.h calls its own after the numbers. */
static int by_clause(const void *left, const void *right)
{
    const struct clause *a = left, *b = right;
    bool a_tag = strchr(a->name, '-') != NULL, b_tag = strchr(b->name, '-') != NULL;

    if (a_tag != b_tag)
        return a_tag ? 1 : -1;
    if (!a_tag && strlen(a->name) != strlen(b->name))
        return strlen(a->name) < strlen(b->name) ? -1 : 1;
    return strcmp(a->name, b->name);
}

static size_t clause_find(const struct sums *sums, const char *name)
{
    size_t i = 0;

    while (i < sums->clause_count && strcmp(sums->clauses[i].name, name) != 0)
        i++;
    return i;
}

static size_t store_find(const struct sums *sums, const char *label)
{
    size_t i = 0;

    while (i < sums->store_count && strcmp(sums->stores[i], label) != 0)
        i++;
    return i;
}

/* Calls fn with each word. */
static void words_each(struct sums *sums, const struct dlt_result *result, const char *text,
                       void (*fn)(struct sums *, const struct dlt_result *, const char *))
{
    char name[sizeof(struct clause)];

    while (*text != '\0') {
        size_t len = strcspn(text, " ");

        (void)snprintf(name, sizeof name, "%.*s", (int)len, text);
        fn(sums, result, name);
        text += len;
        text += strspn(text, " ");
    }
}

static void clause_add(struct sums *sums, const struct dlt_result *result, const char *name)
{
    (void)result;
    if (clause_find(sums, name) == sums->clause_count && sums->clause_count < CLAUSES_MOST)
        (void)snprintf(sums->clauses[sums->clause_count++].name, sizeof(struct clause), "%s", name);
}

static void cell_add(struct sums *sums, const struct dlt_result *result, const char *name)
{
    size_t store = store_find(sums, result->label);
    struct cell *cell = &sums->cells[clause_find(sums, name)][store];

    if (store == sums->store_count)
        return;
    cell->passed += result->verdict == DLT_PASSED;
    cell->failed += result->verdict == DLT_FAILED;
    cell->skipped += result->verdict == DLT_SKIPPED;
    if (result->verdict == DLT_SKIPPED)
        (void)snprintf(cell->reason, sizeof cell->reason, "%.*s", CELL_WIDTH - 1, result->text);
}

static void sums_fill(struct sums *sums, const struct dlt_report *report)
{
    for (unsigned i = 1; i <= CONTRACT; i++) /* also those that no black box shows */
        (void)snprintf(sums->clauses[sums->clause_count++].name, sizeof(struct clause), "C%u", i);
    for (size_t i = 0; i < report->count; i++) {
        const struct dlt_result *result = &report->results[i];

        if (store_find(sums, result->label) == sums->store_count && sums->store_count < STORES_MOST)
            sums->stores[sums->store_count++] = result->label;
        if (result->c != NULL)
            words_each(sums, result, result->c->clauses, clause_add);
    }
    qsort(sums->clauses, sums->clause_count, sizeof sums->clauses[0], by_clause);
    for (size_t i = 0; i < report->count; i++)
        if (report->results[i].c != NULL)
            words_each(sums, &report->results[i], report->results[i].c->clauses, cell_add);
}

static void cell_print(const struct cell *cell)
{
    char text[96] = "-";
    unsigned ran = cell->passed + cell->failed;

    if (cell->failed > 0)
        (void)snprintf(text, sizeof text, "FAILED %u of %u", cell->failed, ran);
    else if (ran > 0 && cell->skipped > 0)
        (void)snprintf(text, sizeof text, "ok %u, %u not (%s)", ran, cell->skipped, cell->reason);
    else if (ran > 0)
        (void)snprintf(text, sizeof text, "ok %u", ran);
    else if (cell->skipped > 0)
        (void)snprintf(text, sizeof text, "not (%s)", cell->reason);
    (void)printf("  %-*.*s", CELL_WIDTH, CELL_WIDTH, text);
}

void dlt_table_print(const struct dlt_report *report, const char *head)
{
    struct sums *sums = calloc(1, sizeof *sums);

    DLT_CHECK(sums != NULL, "no memory");
    sums_fill(sums, report);
    for (size_t s = 0; s < sums->store_count; s++)
        (void)printf("%s[%zu] %s\n", head, s + 1, sums->stores[s]);
    (void)printf("%s%-8s", head, "clause");
    for (size_t s = 0; s < sums->store_count; s++)
        (void)printf("  [%zu]%-*s", s + 1, CELL_WIDTH - 3 - (s >= 9), "");
    (void)putchar('\n');
    for (size_t i = 0; i < sums->clause_count; i++) {
        (void)printf("%s%-8s", head, sums->clauses[i].name);
        for (size_t s = 0; s < sums->store_count; s++)
            cell_print(&sums->cells[i][s]);
        (void)putchar('\n');
    }
    free(sums);
}

/* ---- JSON ---- */

static void string_print(const char *text)
{
    (void)putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            (void)putchar('\\');
        if ((unsigned char)*text < ' ')
            (void)printf("\\u%04x", (unsigned char)*text);
        else
            (void)putchar(*text);
    }
    (void)putchar('"');
}

static void member_print(const char *name, const char *text)
{
    (void)printf("\"%s\": ", name);
    string_print(text);
    (void)printf(", ");
}

void dlt_json_print(const struct dlt_report *report)
{
    static const char *const verdicts[] = {"passed", "failed", "skipped"};

    (void)printf("{\"results\": [");
    for (size_t i = 0; i < report->count; i++) {
        const struct dlt_result *result = &report->results[i];

        (void)printf("%s\n  {", i == 0 ? "" : ",");
        member_print("store", result->label);
        member_print("case", result->c != NULL ? result->c->name : "opens");
        member_print("clauses", result->c != NULL ? result->c->clauses : "");
        member_print("result", verdicts[result->verdict]);
        if (result->verdict != DLT_PASSED)
            member_print("reason", result->text);
        (void)printf("\"ms\": %" PRId64 "}", result->job != NULL ? result->job->took_ms : 0);
    }
    (void)printf("\n], \"passed\": %u, \"failed\": %u, \"skipped\": %u}\n", report->passed,
                 report->failed, report->skipped);
}
