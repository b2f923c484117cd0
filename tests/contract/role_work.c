/* SPDX-License-Identifier: MIT */
/* The verbs of a role that work for a while. */
#include "race.h"
#include "role.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define AFTER_GAP_NS (300 * DLT_NS_PER_MS)

/*
 * Until a little after a gap of so many ms between two readings, or until so many ms are over.
 * Answers "STATE REMAINING GAP_MS REVIVED": the first reading after the longest gap between two
 * readings, which is where the process was stopped, and how many readings said "valid" after one
 * said "lost". A reading inside of which the gap lies is ambiguous; then the next one counts.
 */
void dlt_role_watch(struct dlt_words *words)
{
    int64_t wanted_ns = dlt_words_number(words) * DLT_NS_PER_MS;
    int64_t end_ns = dlt_now_ns() + dlt_words_number(words) * DLT_NS_PER_MS;
    int64_t last_ns = dlt_now_ns(), gap_ns = 0, left_ms = 0;
    enum dlock_state after = DLOCK_STATE_FREE;
    unsigned revived = 0;
    int lost = 0;

    while (last_ns < end_ns) {
        int64_t before_ns = dlt_now_ns();
        int64_t remaining_ms = dlock_remaining_ms(*words->lock);
        enum dlock_state state = dlock_state(*words->lock);
        int64_t after_ns = 0;

        if (before_ns - last_ns > gap_ns) {
            gap_ns = before_ns - last_ns;
            after = state;
            left_ms = remaining_ms;
            if (gap_ns >= wanted_ns)
                end_ns = dlt_now_ns() + AFTER_GAP_NS;
        }
        after_ns = dlt_now_ns();
        last_ns = after_ns - before_ns > 10 * DLT_NS_PER_MS ? before_ns : after_ns;
        revived += lost && (state != DLOCK_STATE_LOST || remaining_ms > 0);
        lost |= state == DLOCK_STATE_LOST;
    }
    (void)fprintf(words->role->out, "%s %" PRId64 " %" PRId64 " %u\n", dlt_state_name(after),
                  left_ms, gap_ns / DLT_NS_PER_MS, revived);
}

/* A read-modify-write that loses updates if two are inside; the pause invites them. */
static uint64_t number_add(int file)
{
    char text[32] = "";
    uint64_t number = 0;
    ssize_t len = pread(file, text, sizeof text - 1, 0);

    DLT_CHECK(len >= 0, "cannot read the number");
    number = strtoull(text, NULL, 10) + 1;
    dlt_sleep_until(dlt_now_ns() + 200000);
    len = snprintf(text, sizeof text, "%" PRIu64, number);
    DLT_CHECK(pwrite(file, text, (size_t)len, 0) == len, "cannot write the number");
    return number;
}

void dlt_role_count(struct dlt_words *words)
{
    int64_t turns = dlt_words_number(words);
    const char *path = dlt_words_next(words);
    char fences_path[512];
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    FILE *fences = NULL;

    (void)snprintf(fences_path, sizeof fences_path, "%s.fences", path);
    fences = fopen(fences_path, "ae");
    DLT_CHECK(file >= 0 && fences != NULL, "cannot open %s", path);
    for (int64_t i = 0; i < turns; i++) {
        DLT_OK(dlock_timedlock(*words->lock, 60000, &dlt_err));
        (void)number_add(file);
        (void)fprintf(fences, "%" PRIu64 "\n", dlock_fence(*words->lock));
        DLT_CHECK(fflush(fences) == 0, "cannot write %s", fences_path);
        DLT_OK(dlock_unlock(*words->lock, &dlt_err));
    }
    (void)close(file);
    (void)fclose(fences);
    (void)fputs("OK\n", words->role->out);
}

void dlt_role_race(struct dlt_words *words)
{
    struct dlt_race race = {.clients = &words->role->client, .client_count = 1};
    const char *path = NULL;

    race.prefix = dlt_words_next(words);
    race.threads = (unsigned)dlt_words_number(words);
    race.duration_ms = dlt_words_number(words);
    race.seed = (uint64_t)dlt_words_number(words);
    path = dlt_words_next(words);
    race.log = dlt_log_open(path, DLT_RACE_RECORDS);
    DLT_CHECK(race.log != NULL, "no log %s", path);
    dlt_race_run(&race);
    dlt_log_close(race.log);
    (void)fputs("OK\n", words->role->out);
}
