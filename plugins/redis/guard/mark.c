/* SPDX-License-Identifier: MIT */
#include "redis/guard/mark.h"
#include "redis/link/slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_SIZE   41
#define WORD_SIZE 96
#define FIRST     12007u /* slots with low numbers are moved first, as a rule */
#define SPREAD    40503u /* odd: FIRST + i * SPREAD is an order of all slots */
#define TAGS_MOST (1u << 24)

/* "id address flags master ping pong epoch link slots..." */
struct line {
    char id[ID_SIZE], flags[WORD_SIZE], master[ID_SIZE];
    const char *slots; /* to the end of the line */
};

static bool line_read(struct line *line, const char *text)
{
    int used = 0;

    if (sscanf(text, "%40s %*s %95s %40s %*s %*s %*s %*[^ \n]%n", line->id, line->flags,
               line->master, &used) != 3 ||
        used == 0)
        return false;
    line->slots = text + used;
    return true;
}

static const char *line_next(const char *text)
{
    const char *end = strchr(text, '\n');

    return end != NULL && end[1] != '\0' ? end + 1 : NULL;
}

static bool self_find(struct line *line, const char *nodes)
{
    for (const char *text = nodes; text != NULL; text = line_next(text))
        if (line_read(line, text) && strstr(line->flags, "myself") != NULL)
            return true;
    return false;
}

static int64_t replicas_count(const char *nodes, const char *id)
{
    struct line line;
    int64_t count = 0;

    for (const char *text = nodes; text != NULL; text = line_next(text))
        count += line_read(&line, text) && strstr(line.flags, "slave") != NULL &&
                 strcmp(line.master, id) == 0;
    return count;
}

/* What to do with a word of the slots: "5", "0-5460", or "[7->-id]" of one that moves. */
static void word_take(bool has[REDIS_SLOTS], const char *word, bool moving)
{
    char *end = NULL;
    bool moves = *word == '[';
    unsigned long first = strtoul(word + (moves ? 1 : 0), &end, 10), last = first;

    if (moves != moving)
        return;
    if (!moves && *end == '-')
        last = strtoul(end + 1, NULL, 10);
    for (unsigned long slot = first; slot <= last && slot < REDIS_SLOTS; slot++)
        has[slot] = !moves;
}

static void slots_take(bool has[REDIS_SLOTS], const char *slots, bool moving)
{
    for (const char *at = slots; *at == ' '; at += strcspn(at, " \n")) {
        at += strspn(at, " ");
        word_take(has, at, moving);
    }
}

/* The shortest text of hexadecimal digits with this slot. */
static bool tag_make(char tag[REDIS_MARK_SIZE], unsigned slot)
{
    for (unsigned i = 0; i < TAGS_MOST; i++) {
        int len = snprintf(tag, REDIS_MARK_SIZE, "{%x}", i);

        if (redis_slot(tag, (size_t)len) == slot)
            return true;
    }
    return false;
}

bool redis_mark_choose(const char *nodes, char tag[REDIS_MARK_SIZE], int64_t *replicas)
{
    struct line line;
    bool has[REDIS_SLOTS] = {false};

    if (!self_find(&line, nodes))
        return false;
    *replicas = replicas_count(nodes, line.id);
    slots_take(has, line.slots, false);
    slots_take(has, line.slots, true);
    for (unsigned i = 0; i < REDIS_SLOTS; i++) {
        unsigned slot = (FIRST + i * SPREAD) % REDIS_SLOTS;

        if (has[slot])
            return tag_make(tag, slot);
    }
    return false;
}
