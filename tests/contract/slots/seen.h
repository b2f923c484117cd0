/* SPDX-License-Identifier: MIT */
/* seen.h - what the slots inspect, list and list_waiters show to a party. */
#ifndef DLT_SEEN_H
#define DLT_SEEN_H

#include "party.h"

#define DLT_SEEN_MOST 8

struct dlt_seen_holder {
    struct dlock_holder told; /* without its pointers */
    char name[DLOCK_NAME_MAX + 1], owner[64], label[256];
    unsigned char data[DLOCK_DATA_MAX];
};

struct dlt_seen {
    size_t count;
    struct dlt_seen_holder holders[DLT_SEEN_MOST];
};

/* The holders of the name of the asker's attempt, by inspect, and by list of that name, which has
 * to show the same. A plugin without inspect ends the case: not applicable. */
void dlt_look(struct dlt_seen *seen, struct dlt_party *asker);
/* By list alone: those whose names begin with the prefix of the case and this text. */
void dlt_look_list(struct dlt_seen *seen, struct dlt_party *asker, const char *text);

/* The one of this party; none fails the case. */
const struct dlt_seen_holder *dlt_seen_of(const struct dlt_seen *seen, struct dlt_party *party);
/* What is kept of the permit; of a lock 0. None fails the case. */
const struct dlt_seen_holder *dlt_seen_kept(const struct dlt_seen *seen, uint32_t permit);

/* The asker sees this number of holders. `when` is a part of the message. */
void dlt_look_counts(struct dlt_party *asker, size_t want, const char *when);

/* The token as inspect shows it; of the attempt of a party. */
const char *dlt_token(const unsigned char token[DLOCK_TOKEN_SIZE]);
const char *dlt_owner(const struct dlt_party *party);

#endif
