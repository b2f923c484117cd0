/* SPDX-License-Identifier: MIT */
/* set.h - tasks that take sets of names (C18). */
#ifndef SIM_SET_H
#define SIM_SET_H

#include "world.h"

#include <check.h>

/* Sets are taken in this profile. */
bool sim_takes_sets(void);

/* false: this task takes no sets. */
bool sim_set_open(struct sim_handle *handle, const struct dlock_options *options);
void sim_set_free(struct sim_handle *handle);

/* Takes the set of the task once, and gives it back. */
void sim_set_turn(struct sim_handle *handle);

/* What a set has while it waits for the rest is nobody's claim in the history. */
void sim_set_check_less(struct dlt_check_options *options);

#endif
