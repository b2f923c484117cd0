/* SPDX-License-Identifier: MIT */
/* checks.h - what a probe of a store finds, as an array of JSON objects: name, found, advice,
 * clears. */
#ifndef CLI_CHECKS_H
#define CLI_CHECKS_H

#include <dlock/dlock.h>
#include <jansson.h>
#include <stdio.h>

/* Probes the store, and adds the checks to the array. UNSUPPORTED: this store has none. */
enum dlock_status checks_read(struct dlock_client *client, json_t *checks, struct dlock_error *err);

/* How many of them have advice. */
size_t checks_advice(const json_t *checks);

/* As series of metrics_file.h; label: of all of them. A text that was found is a label only if it
 * has no digit: it does not change from time to time. A number is a value. */
void checks_metrics(const json_t *checks, FILE *out, const char *label);

/* text, printable; null if it is NULL. */
json_t *checks_text(const char *text);

#endif
