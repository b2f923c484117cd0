/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target on the files of a folder, each in turn, or each STEP-th. Prints TAP, a test a
 * file, and one for each goal that some file has to reach, if all of them run. */
#include "fuzz.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>

static uint8_t bytes[1 << 20];

static int is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int run(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t size;

    if (file == NULL)
        return -1;
    size = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    return LLVMFuzzerTestOneInput(bytes, size);
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
    struct dirent **entries = NULL;
    int count = argc == 2 || argc == 3 ? scandir(argv[1], &entries, is_file, alphasort) : -1;
    int step = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 1;
    int failed = 0, tests = 0;

    if (count <= 0 || step <= 0) {
        (void)fputs("usage: replay DIRECTORY-WITH-FILES [STEP]\n", stderr);
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < count; i += step) {
        char path[PATH_MAX];
        int wrong;

        (void)snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
        wrong = run(path) != 0;
        failed += wrong;
        printf("%sok %d - %s\n", wrong ? "not " : "", ++tests, entries[i]->d_name);
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    if (step == 1)
        failed += goals_check(tests);
    else
        printf("1..%d\n", tests);
    return failed == 0 ? 0 : 1;
}
