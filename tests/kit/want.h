/* SPDX-License-Identifier: MIT */
/* want.h - opens a session, which gives this status and, if it is refused, says this. */
#ifndef DLT_WANT_H
#define DLT_WANT_H

#include "session_kit.h"

#include <criterion/criterion.h>
#include <string.h>

/* The session is closed again. No message has a password of the tests, "secret...", in it [C17]. */
static inline void dlt_want(struct dlt_session *session, enum dlock_status status, const char *text)
{
    const struct dlock_error *err = &session->err;

    cr_assert_eq(dlt_session_open(session), status, "%s (%d): %s", text, (int)err->status,
                 err->message);
    if (status != DLOCK_OK)
        cr_assert(strstr(err->message, text) != NULL, "\"%s\" has no \"%s\"", err->message, text);
    cr_assert(strstr(err->message, "secret") == NULL, "C17");
    dlt_session_close(session);
}

#endif
