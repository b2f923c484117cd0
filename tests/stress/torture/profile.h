/* SPDX-License-Identifier: MIT */
/*
 * profile.h - what a run does to a store, and what its history may look like then.
 *
 * P keeps every assumption of docs/guarantees.md, L does so with semaphores, K with names that are
 * kept, D with programs of clients that are killed, and F replaces masters where a guard is on:
 * nothing may be found. Each C breaks an assumption: what is documented for that has to be found,
 * and nothing else.
 */
#ifndef TORTURE_PROFILE_H
#define TORTURE_PROFILE_H

#include "plan.h"
#include "store.h"

#include <check.h>

#define RULE_BIT(name) (UINT32_C(1) << DLT_RULE_##name)

struct profile {
    const char *name, *text;
    uint32_t breaks; /* faults that break the assumption; FAULT_BIT */
    bool forgets;    /* servers that are killed lose their locks */
    bool guarded;    /* clients have a guard against what it breaks */
    bool clocks;     /* servers run with clocks that can be set */
    bool programs;   /* leases end with programs that clients start */
    bool keeps;      /* a part of the releases keeps the name, or the permit */
    unsigned limit;  /* the names are semaphores of so many; 0: locks */
    uint32_t found;  /* rules of which one has to be broken, and all may be; RULE_BIT */
};

const struct profile *profile_find(const char *name);
const char *profile_names(void);

#define GUARD_RULES 12

/* F where clients lack rule FO-`rule` of the failover guard; NULL: there is no such rule, or it has
 * no code. */
const struct profile *profile_without_rule(unsigned rule);

/* The faults that this profile has for this backend; 0: there is no such profile for it. */
uint32_t profile_faults(const struct profile *profile, const struct backend *backend);

/* Of these, those that are what the profile is about. */
uint32_t profile_often(const struct profile *profile, const struct backend *backend);

#endif
