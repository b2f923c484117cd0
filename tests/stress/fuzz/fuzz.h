/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h - what a fuzz target is: one function that takes bytes and returns, or ends the program if
 * what it looked at is wrong. Built with clang for libFuzzer, or with replay.c for the corpus.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/*
 * What a target has something to say about once an input gets there; it names all, up to a NULL,
 * and counts. A corpus of which no input gets to one of them proves nothing of it: replay.c fails.
 */
struct fuzz_goal {
    const char *name;
    unsigned long reached;
};

extern struct fuzz_goal fuzz_goals[];

/* Ends the program, as a sanitizer would. */
#define FUZZ_CHECK(right, ...)                                                \
    do {                                                                      \
        if (!(right)) {                                                       \
            (void)fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #right); \
            (void)fprintf(stderr, __VA_ARGS__);                               \
            (void)fputc('\n', stderr);                                        \
            abort();                                                          \
        }                                                                     \
    } while (0)

/* Bytes taken from the front, 0 when there are none left. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

/* The rest as a string, to be freed. NULL: no memory. */
static inline char *fuzz_text(struct fuzz_input *input)
{
    char *text = malloc(input->left + 1);

    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < input->left; i++)
        text[i] = (char)input->at[i];
    text[input->left] = '\0';
    input->left = 0;
    return text;
}

#endif
