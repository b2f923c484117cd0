/* SPDX-License-Identifier: MIT */
/* probed.h - what the slot probe of a session has said. */
#ifndef DLT_PROBED_H
#define DLT_PROBED_H

#include "session_kit.h"

#include <criterion/criterion.h>
#include <string.h>

struct dlt_probed {
    char text[8192]; /* "|name=found|", with '!' before the end if there is advice */
    uint64_t clears;
};

static inline bool dlt_probed_note(void *arg, const struct dlock_check *check)
{
    struct dlt_probed *probed = arg;
    size_t len = strlen(probed->text);

    probed->clears |= check->clears;
    (void)snprintf(probed->text + len, sizeof probed->text - len, "|%s=%s%s|", check->name,
                   check->found, check->advice != NULL ? "!" : "");
    return false;
}

/* The status of a probe, whose checks are noted. */
static inline enum dlock_status dlt_probed_read(struct dlt_probed *probed,
                                                struct dlt_session *session)
{
    *probed = (struct dlt_probed){.clears = 0};
    return session->ops->probe(session->self, dlt_host_in(&session->host, 5000), &session->info,
                               dlt_probed_note, probed, &session->err);
}

static inline void dlt_probed_has(const struct dlt_probed *probed, const char *text)
{
    cr_assert(strstr(probed->text, text) != NULL, "no %s in %s", text, probed->text);
}

#endif
