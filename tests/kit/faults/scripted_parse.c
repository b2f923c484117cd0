/* SPDX-License-Identifier: MIT */
#include "scripted.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST_MS 3600000

struct verb {
    const char *name;
    enum scripted_kind kind;
    enum { NO_NUMBER, NUMBER, MAYBE_NUMBER, SEQUENCE } number;
    bool data;
};

static const struct verb verbs[] = {
    {"expect", SCRIPTED_EXPECT, NO_NUMBER, true},
    {"command", SCRIPTED_COMMAND, NO_NUMBER, true},
    {"packet", SCRIPTED_PACKET, SEQUENCE, true},
    {"any", SCRIPTED_ANY, MAYBE_NUMBER, false},
    {"end", SCRIPTED_END, NO_NUMBER, false},
    {"send", SCRIPTED_SEND, NO_NUMBER, true},
    {"send-packet", SCRIPTED_SEND_PACKET, SEQUENCE, true},
    {"delay", SCRIPTED_DELAY, NUMBER, false},
    {"close", SCRIPTED_CLOSE, NO_NUMBER, false},
    {"halfclose", SCRIPTED_HALFCLOSE, NO_NUMBER, false},
    {"reset", SCRIPTED_RESET, NO_NUMBER, false},
    {"again", SCRIPTED_AGAIN, NO_NUMBER, false},
};

static void *grown(void *list, size_t count, size_t size)
{
    void *more = reallocarray(list, count + 1, size);

    if (more == NULL)
        abort();
    memset((char *)more + count * size, 0, size);
    return more;
}

/* NULL, or what is wrong. */
static const char *number_read(const struct verb *verb, struct scripted_step *step)
{
    size_t given = step->words.count - 1;
    uint64_t most = verb->number == SEQUENCE ? 255 : LONGEST_MS;

    step->first = 1;
    step->number = 1;
    if (verb->number == NO_NUMBER || (verb->number == MAYBE_NUMBER && given == 0))
        return NULL;
    step->first = 2;
    if (given == 0)
        return "a number is missing";
    if (verb->kind == SCRIPTED_PACKET && strcmp(step->words.at[1], "*") == 0)
        step->number = UINT64_MAX;
    else if (!dlt_number_parse(step->words.at[1], most, &step->number))
        return "that is no number, or too great a one";
    return NULL;
}

static const char *step_read(struct scripted_step *step)
{
    const char *wrong;

    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(step->words.at[0], verbs[i].name) != 0)
            continue;
        step->kind = verbs[i].kind;
        wrong = number_read(&verbs[i], step);
        if (wrong != NULL)
            return wrong;
        if (!verbs[i].data && step->words.count > step->first)
            return "too many words";
        if (verbs[i].data && verbs[i].number == NO_NUMBER && step->words.count == 1)
            return "data is missing";
        return NULL;
    }
    return "unknown step";
}

static struct scripted_part *part_add(struct scripted *script, bool others)
{
    if (others) {
        script->others_are_scripted = true;
        return &script->others;
    }
    script->parts = grown(script->parts, script->count, sizeof *script->parts);
    return &script->parts[script->count++];
}

/* Lines that are not steps. True: *wrong says whether it was right. */
static bool setting_read(struct scripted *script, const struct dlt_words *words,
                         struct scripted_part **part, const char **wrong)
{
    const char *verb = words->at[0], *word = words->count > 1 ? words->at[1] : "";

    *wrong = NULL;
    if (strcmp(verb, "conn") == 0) {
        if (words->count > 1 && strcmp(word, "*") != 0)
            *wrong = "want conn or conn *";
        else
            *part = part_add(script, words->count > 1);
        return true;
    }
    if (strcmp(verb, "framing") == 0) {
        if (!dlt_framing_parse(word, &script->framing))
            *wrong = "want raw, resp or mysql";
        return true;
    }
    if (strcmp(verb, "timeout") == 0) {
        if (!dlt_number_parse(word, LONGEST_MS, &script->timeout_ms))
            *wrong = "want milliseconds";
        return true;
    }
    return false;
}

/* Takes line, which it frees or keeps. */
static const char *line_read(struct scripted *script, char *line, unsigned number,
                             struct scripted_part **part)
{
    struct scripted_step step = {.line = number, .text = line};
    const char *wrong = dlt_words_split(line, &step.words);
    bool kept = false;

    if (wrong == NULL && step.words.count > 0 && !setting_read(script, &step.words, part, &wrong)) {
        wrong = *part == NULL ? "a step before the first conn" : step_read(&step);
        kept = wrong == NULL;
    }
    if (kept) {
        (*part)->steps = grown((*part)->steps, (*part)->count, sizeof step);
        (*part)->steps[(*part)->count++] = step;
    } else {
        free(line);
    }
    return wrong;
}

bool scripted_read(struct scripted *script, FILE *in, FILE *errors)
{
    struct scripted_part *part = NULL;
    const char *wrong = NULL;
    unsigned number = 0;

    while (wrong == NULL) {
        char *line = NULL;
        size_t room = 0;
        size_t parts = script->count;

        if (getline(&line, &room, in) < 0 || strcmp(line, ".\n") == 0) {
            free(line);
            return true;
        }
        wrong = line_read(script, line, ++number, &part);
        if (script->count > parts)
            part->line = number;
    }
    (void)fprintf(errors, "error line %u: %s\n", number, wrong);
    return false;
}

static void part_free(struct scripted_part *part)
{
    for (size_t i = 0; i < part->count; i++)
        free(part->steps[i].text);
    free(part->steps);
}

void scripted_free(struct scripted *script)
{
    for (size_t i = 0; i < script->count; i++)
        part_free(&script->parts[i]);
    free(script->parts);
    part_free(&script->others);
}
