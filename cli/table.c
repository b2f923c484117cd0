/* SPDX-License-Identifier: MIT */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#define GAP         2
#define TEXT_LEAST  8 /* columns of names, of holders and of data */
#define NUMBER_SIZE 24
#define CUT         '~'

enum column { NAME, HOLDER, DATA, MODE, AGE, LEFT, WAITERS, FENCE, COLUMNS };

static const char *const heads[COLUMNS] = {"NAME", "HOLDER", "DATA",    "MODE",
                                           "AGE",  "LEFT",   "WAITERS", "FENCE"};

struct layout {
    size_t width[COLUMNS]; /* 0: the column is not shown */
};

static bool waiters_known(const struct info *info)
{
    return info->waiters != UINT32_MAX;
}

static bool is_same_name(const struct info *a, const struct info *b)
{
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

static int longest_first(int64_t a_ms, int64_t b_ms)
{
    return (a_ms < b_ms) - (a_ms > b_ms);
}

static int info_compare(const void *left, const void *right)
{
    const struct info *a = left, *b = right;
    const uint32_t a_waiters = waiters_known(a) ? a->waiters : 0;
    const uint32_t b_waiters = waiters_known(b) ? b->waiters : 0;
    const size_t len = a->name_len < b->name_len ? a->name_len : b->name_len;
    int order = (a_waiters < b_waiters) - (a_waiters > b_waiters);

    if (order == 0)
        order = longest_first(a->oldest_ms, b->oldest_ms);
    if (order == 0)
        order = memcmp(a->name, b->name, len);
    if (order == 0)
        order = (a->name_len > b->name_len) - (a->name_len < b->name_len);
    return order != 0 ? order : longest_first(a->held_ms, b->held_ms);
}

static void oldest_find(struct info_list *list)
{
    for (size_t first = 0, next = 0; first < list->count; first = next) {
        int64_t oldest_ms = -1;

        for (; next < list->count && is_same_name(&list->items[first], &list->items[next]); next++)
            if (list->items[next].held_ms > oldest_ms)
                oldest_ms = list->items[next].held_ms;
        for (size_t i = first; i < next; i++)
            list->items[i].oldest_ms = oldest_ms;
    }
}

void table_sort(struct info_list *list)
{
    oldest_find(list);
    if (list->count > 1)
        qsort(list->items, list->count, sizeof *list->items, info_compare);
}

void table_summary(const struct info_list *list, char out[TABLE_SUMMARY_SIZE])
{
    const size_t held = info_list_held(list);
    unsigned long long waiters = 0;

    for (size_t i = 0; i < list->count; i++) {
        const struct info *info = &list->items[i];
        const bool is_counted = i > 0 && is_same_name(info - 1, info);

        waiters += waiters_known(info) && !is_counted ? info->waiters : 0;
    }
    (void)snprintf(out, TABLE_SUMMARY_SIZE, "%zu held, %zu kept, %llu waiting", held,
                   list->count - held, waiters);
}

/* The text of a cell. buffer: for numbers. */
static const char *cell_text(const struct info *info, enum column column, char buffer[NUMBER_SIZE])
{
    const char *label = info->label[0] != '\0' ? info->label : info->owner;

    buffer[0] = '\0';
    switch (column) {
    case NAME:
        return cli_output_printable(info->name, info->name_len);
    case HOLDER:
        return label[0] != '\0' ? cli_output_printable(label, strlen(label)) : "-";
    case DATA:
        return info_data(info);
    case MODE:
        if (info->kept)
            return "kept";
        if (info->limit == 0)
            return info_mode(info);
        (void)snprintf(buffer, NUMBER_SIZE, "%u of %u", info->permit, info->limit);
        break;
    case AGE:
        if (info->kept) /* a narrow table does not show the mode */
            return "kept";
        info_duration(buffer, info->held_ms);
        break;
    case LEFT:
        info_duration(buffer, info->remaining_ms);
        break;
    case WAITERS:
        info_number(buffer, info->waiters, waiters_known(info));
        break;
    case FENCE:
        info_number(buffer, info->fence, info->fence != 0);
        break;
    case COLUMNS:
        break;
    }
    return buffer;
}

static struct layout layout_natural(const struct info_list *list)
{
    struct layout layout;
    char buffer[NUMBER_SIZE];

    for (enum column column = NAME; column < COLUMNS; column++)
        layout.width[column] = strlen(heads[column]);
    if (!info_list_has_data(list))
        layout.width[DATA] = 0;
    for (size_t i = 0; i < list->count; i++)
        for (enum column column = NAME; column < COLUMNS; column++) {
            size_t width = strlen(cell_text(&list->items[i], column, buffer));

            if (width > layout.width[column])
                layout.width[column] = width;
        }
    return layout;
}

/* At most a third of the room for data, and half of the rest for each of the two other texts,
 * unless one needs less. */
static void texts_fit(struct layout *layout, size_t room)
{
    size_t *name = &layout->width[NAME], *holder = &layout->width[HOLDER];
    size_t *data = &layout->width[DATA];

    if (*data > room / 3 && *name + *holder + *data > room)
        *data = *name + *holder < room - room / 3 ? room - *name - *holder : room / 3;
    room -= *data;
    if (*name + *holder <= room)
        return;
    if (*name <= room / 2)
        *holder = room - *name;
    else if (*holder <= room - room / 2)
        *name = room - *holder;
    else {
        *name = room / 2;
        *holder = room - room / 2;
    }
}

static struct layout layout_fit(const struct info_list *list, size_t columns)
{
    struct layout layout = layout_natural(list);
    size_t numbers = 0, shown = 0, texts = 2;

    if (columns == 0)
        return layout;
    if (columns < TABLE_LEAST)
        columns = TABLE_LEAST;
    if (columns < TABLE_WIDE)
        layout.width[MODE] = layout.width[DATA] = 0;
    for (enum column column = MODE; column < COLUMNS; column++) {
        numbers += layout.width[column];
        shown += layout.width[column] > 0;
    }
    texts += layout.width[DATA] > 0;
    numbers += (shown + texts - 1) * GAP;
    texts_fit(&layout,
              columns > numbers + texts * TEXT_LEAST ? columns - numbers : texts * TEXT_LEAST);
    return layout;
}

/* What is left of a text, beside the CUT: no part of an escape \xHH. */
static size_t cut_length(const char *text, size_t width)
{
    const size_t most = width - 1;

    for (size_t i = most > 3 ? most - 3 : 0; i < most; i++)
        if (text[i] == '\\')
            return i;
    return most;
}

/* Texts on the left, numbers on the right of their columns. */
static void cell_print(FILE *out, const struct layout *layout, enum column column, const char *text)
{
    const size_t width = layout->width[column];
    const size_t len = strlen(text);

    if (width == 0)
        return;
    if (column > NAME)
        (void)fprintf(out, "%*s", GAP, "");
    if (len > width) {
        const size_t left = cut_length(text, width);

        (void)fprintf(out, "%.*s%c%*s", (int)left, text, CUT, (int)(width - 1 - left), "");
    } else if (column <= MODE)
        (void)fprintf(out, "%-*s", (int)width, text);
    else
        (void)fprintf(out, "%*s", (int)width, text);
}

static void head_print(FILE *out, const struct layout *layout, const char *head[2], const char *end)
{
    (void)fputs(head[0], out);
    for (enum column column = NAME; column < COLUMNS; column++)
        cell_print(out, layout, column, heads[column]);
    (void)fprintf(out, "%s%s", head[1], end);
}

void table_print(FILE *out, const struct info_list *list, size_t columns, size_t rows,
                 const char *head[2], const char *end)
{
    const struct layout layout = layout_fit(list, columns);
    size_t fits = list->count;
    char buffer[NUMBER_SIZE];

    if (rows > 0 && list->count + 1 > rows)
        fits = rows > 2 ? rows - 2 : 0;
    head_print(out, &layout, head, end);
    for (size_t i = 0; i < fits; i++) {
        for (enum column column = NAME; column < COLUMNS; column++)
            cell_print(out, &layout, column, cell_text(&list->items[i], column, buffer));
        (void)fputs(end, out);
    }
    if (fits < list->count)
        (void)fprintf(out, "... and %zu more%s", list->count - fits, end);
}
