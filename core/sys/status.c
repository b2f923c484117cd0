/* SPDX-License-Identifier: MIT */
/* status.c - names, texts and classes of statuses, from the one list in types.h. */
#include <dlock/types.h>

#define STATUS_ROW(name, value, class_, text) [value] = {#name, text, DLOCK_CLASS_##class_},

static const struct {
    const char *name, *text;
    enum dlock_class class_;
} statuses[] = {DLOCK_STATUS_MAP(STATUS_ROW)};

#define STATUS_COUNT ((int)(sizeof statuses / sizeof statuses[0]))

const char *dlock_status_name(int status)
{
    return status >= 0 && status < STATUS_COUNT ? statuses[status].name : "?";
}

const char *dlock_status_text(int status)
{
    return status >= 0 && status < STATUS_COUNT ? statuses[status].text : "unknown status";
}

enum dlock_class dlock_status_class(int status)
{
    return status >= 0 && status < STATUS_COUNT ? statuses[status].class_ : DLOCK_CLASS_INTERNAL;
}
