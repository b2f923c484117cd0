/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target on the files of a tar archive (ustar), each in turn, or each STEP-th. Prints
 * TAP: a test for all inputs, and one for each goal that some input has to reach, if all of them
 * run. */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#define BLOCK 512 /* of an archive: a header, and the parts of a file */

static uint8_t bytes[1 << 20];

struct header {
    char name[100], mode[8], owner[8], group[8], size[12], time[12], sum[8], type, rest[355];
};

/* The next file of the archive, in bytes; false at its end. */
static bool next_file(FILE *archive, char name[101], size_t *size)
{
    struct header header;

    _Static_assert(sizeof header == BLOCK, "a block");
    while (fread(&header, 1, BLOCK, archive) == BLOCK && header.name[0] != '\0') {
        *size = strtoul(header.size, NULL, 8);
        if (*size > sizeof bytes - BLOCK || fread(bytes, BLOCK, (*size + BLOCK - 1) / BLOCK,
                                                  archive) != (*size + BLOCK - 1) / BLOCK)
            return false;
        memcpy(name, header.name, 100);
        name[100] = '\0';
        if (header.type == '0' || header.type == '\0')
            return true;
    }
    return false;
}

/* How many no file has reached. */
static int goals_check(int tests)
{
    int missed = 0;

    for (const struct fuzz_goal *goal = fuzz_goals; goal->name != NULL; goal++) {
        missed += goal->reached == 0;
        printf("%sok %d - %s: reached %lu times\n", goal->reached == 0 ? "not " : "", ++tests,
               goal->name, goal->reached);
    }
    printf("1..%d\n", tests);
    return missed;
}

int main(int argc, char **argv)
{
    FILE *archive = argc == 2 || argc == 3 ? fopen(argv[1], "rb") : NULL;
    int step = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 1;
    int failed = 0, inputs = 0, ran = 0;
    char name[101];
    size_t size;

    if (archive == NULL || step <= 0) {
        (void)fputs("usage: replay ARCHIVE [STEP]\n", stderr);
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    while (next_file(archive, name, &size)) {
        if (inputs++ % step != 0)
            continue;
        ran++;
        printf("# %s\n", name); /* the last one, if it ends the program */
        if (LLVMFuzzerTestOneInput(bytes, size) != 0) {
            failed++;
            printf("# failed\n");
        }
    }
    (void)fclose(archive);
    printf("%sok 1 - %d of %d inputs, %d of them failed\n", failed == 0 && ran > 0 ? "" : "not ",
           ran, inputs, failed);
    if (step == 1)
        failed += goals_check(1);
    else
        printf("1..1\n");
    return failed == 0 && ran > 0 ? 0 : 1;
}
