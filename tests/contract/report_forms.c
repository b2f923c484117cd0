/* SPDX-License-Identifier: MIT */
#include "report_forms.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CLAUSES_MOST 128
#define STORES_MOST  32
#define REASONS_MOST 64
#define CELL_MOST    256
#define CONTRACT     17 /* clauses of docs/guarantees.md */

struct clause {
    char name[16];
};

/* What is known of one clause on one store. */
struct cell {
    unsigned passed, failed, skipped;
    uint64_t reasons; /* of what was skipped: a bit each */
};

/* Why cases were skipped. */
struct reason {
    const char *text;
    unsigned cases[STORES_MOST];
};

struct sums {
    struct clause clauses[CLAUSES_MOST];
    const char *stores[STORES_MOST];
    struct reason reasons[REASONS_MOST];
    size_t clause_count, store_count, reason_count;
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

/* Those that have no room are one. */
static size_t reason_find(struct sums *sums, const char *text)
{
    size_t i = 0;

    while (i < sums->reason_count && strcmp(sums->reasons[i].text, text) != 0)
        i++;
    if (i == REASONS_MOST) {
        sums->reasons[--i].text = "other reasons";
    } else if (i == sums->reason_count) {
        sums->reasons[i].text = text;
        sums->reason_count++;
    }
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

static bool does_not_count(const struct dlt_result *result)
{
    return result->verdict == DLT_SKIPPED || result->verdict == DLT_NOT_JUDGED;
}

static void cell_add(struct sums *sums, const struct dlt_result *result, const char *name)
{
    size_t store = store_find(sums, result->label);
    struct cell *cell = &sums->cells[clause_find(sums, name)][store];

    if (store == sums->store_count)
        return;
    cell->passed += result->verdict == DLT_PASSED;
    cell->failed += result->verdict == DLT_FAILED;
    cell->skipped += does_not_count(result);
    if (does_not_count(result))
        cell->reasons |= UINT64_C(1) << reason_find(sums, result->text);
}

static void sums_fill(struct sums *sums, const struct dlt_report *report)
{
    for (unsigned i = 1; i <= CONTRACT; i++) /* also those that no black box shows */
        (void)snprintf(sums->clauses[sums->clause_count++].name, sizeof(struct clause), "C%u", i);
    for (size_t i = 0; i < report->count; i++) {
        const struct dlt_result *result = &report->results[i];

        if (store_find(sums, result->label) == sums->store_count && sums->store_count < STORES_MOST)
            sums->stores[sums->store_count++] = result->label;
        if (does_not_count(result) && store_find(sums, result->label) < sums->store_count)
            sums->reasons[reason_find(sums, result->text)].cases[store_find(sums, result->label)]++;
        if (result->c != NULL)
            words_each(sums, result, result->c->clauses, clause_add);
    }
    qsort(sums->clauses, sums->clause_count, sizeof sums->clauses[0], by_clause);
    for (size_t i = 0; i < report->count; i++)
        if (report->results[i].c != NULL)
            words_each(sums, &report->results[i], report->results[i].c->clauses, cell_add);
}

/* Reasons by the numbers that they have below the table. */
static void cell_text(const struct cell *cell, char *text)
{
    unsigned ran = cell->passed + cell->failed;
    int used = 0;

    (void)snprintf(text, CELL_MOST, "-");
    if (cell->failed > 0)
        used = snprintf(text, CELL_MOST, "FAILED %u of %u", cell->failed, ran);
    else if (ran > 0)
        used = snprintf(text, CELL_MOST, "ok %u", ran);
    if (cell->skipped == 0)
        return;
    if (ran > 0)
        used += snprintf(text + used, CELL_MOST - (size_t)used, ", %u ", cell->skipped);
    used += snprintf(text + used, CELL_MOST - (size_t)used, "not (");
    for (unsigned i = 0; i < REASONS_MOST; i++)
        if (cell->reasons >> i & 1)
            used += snprintf(text + used, CELL_MOST - (size_t)used, "%u ", i + 1);
    text[used - 1] = ')';
}

static int column_width(const struct sums *sums, size_t store)
{
    size_t most = strlen("[99]");
    char text[CELL_MOST];

    for (size_t i = 0; i < sums->clause_count; i++) {
        cell_text(&sums->cells[i][store], text);
        if (strlen(text) > most)
            most = strlen(text);
    }
    return (int)most;
}

static void column_print(const struct sums *sums, size_t store, const char *text)
{
    bool last = store + 1 == sums->store_count;

    (void)printf("  %-*s", last ? 0 : column_width(sums, store), text);
}

/* The reasons, and how many cases of which store each kept from running. */
static void reasons_print(const struct sums *sums, const char *head)
{
    for (size_t i = 0; i < sums->reason_count; i++) {
        (void)printf("%s(%zu) %s:", head, i + 1, sums->reasons[i].text);
        for (size_t s = 0; s < sums->store_count; s++)
            if (sums->reasons[i].cases[s] > 0)
                (void)printf(" %u of [%zu]", sums->reasons[i].cases[s], s + 1);
        (void)putchar('\n');
    }
}

void dlt_table_print(const struct dlt_report *report, const char *head)
{
    struct sums *sums = calloc(1, sizeof *sums);
    char text[CELL_MOST];

    DLT_CHECK(sums != NULL, "no memory");
    sums_fill(sums, report);
    for (size_t s = 0; s < sums->store_count; s++)
        (void)printf("%s[%zu] %s\n", head, s + 1, sums->stores[s]);
    (void)printf("%s%-8s", head, "clause");
    for (size_t s = 0; s < sums->store_count; s++) {
        (void)snprintf(text, sizeof text, "[%zu]", s + 1);
        column_print(sums, s, text);
    }
    (void)putchar('\n');
    for (size_t i = 0; i < sums->clause_count; i++) {
        (void)printf("%s%-8s", head, sums->clauses[i].name);
        for (size_t s = 0; s < sums->store_count; s++) {
            cell_text(&sums->cells[i][s], text);
            column_print(sums, s, text);
        }
        (void)putchar('\n');
    }
    reasons_print(sums, head);
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
    static const char *const verdicts[] = {"passed", "failed", "skipped", "void"};

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
