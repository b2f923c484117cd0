/* SPDX-License-Identifier: MIT */
#include "sys/error.h"

#include <dlock/types.h>
#include <dlock/version.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(number)           #number
#define TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

/* How much of a number has to be the same: the major version, or that and the minor one. */
#define SERIES (DLOCK_VERSION_MAJOR == 0 ? 1000 : 1000000)

const char *dlock_version(void)
{
    return TEXT(DLOCK_VERSION_MAJOR, DLOCK_VERSION_MINOR, DLOCK_VERSION_PATCH);
}

bool dlock_version_serves(int number)
{
    return number >= 0 && number / SERIES == DLOCK_VERSION_NUMBER / SERIES &&
           number <= DLOCK_VERSION_NUMBER;
}

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

#undef dl_error /* a macro for clang's analyzer */

void dl_error_begin(struct dlock_error *err, const struct dlock_error *caller)
{
    err->nodes = caller != NULL ? caller->nodes : NULL;
    err->node_room = err->nodes != NULL ? caller->node_room : 0;
    memset(err->reserved, 0, sizeof err->reserved);
    dl_error_reset(err);
}

void dl_error_reset(struct dlock_error *err)
{
    err->status = DLOCK_OK;
    err->code = 0;
    err->retryable = false;
    err->node_count = 0;
    err->origin[0] = '\0';
    err->message[0] = '\0';
}

enum dlock_status dl_error(struct dlock_error *err, enum dlock_status status, const char *format,
                           ...)
{
    va_list args;

    dl_error_reset(err);
    err->status = status;
    (void)snprintf(err->origin, sizeof err->origin, "core");
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return status;
}

static void text_export(char *to, size_t size, const char *from)
{
    size_t len = 0;

    for (; len + 1 < size && from[len] != '\0'; len++)
        to[len] = (unsigned char)from[len] < 0x20 || from[len] == 0x7f ? '?' : from[len];
    to[len] = '\0';
}

/* The nodes are sanitised where they are, in the array of the caller. */
static uint32_t nodes_export(const struct dlock_error *err)
{
    uint32_t count = err->node_count < err->node_room ? err->node_count : err->node_room;

    for (uint32_t i = 0; i < count; i++) {
        struct dlock_node_error *node = &err->nodes[i];

        text_export(node->node, sizeof node->node, node->node);
        text_export(node->message, sizeof node->message, node->message);
    }
    return count;
}

static bool is_retryable(enum dlock_status status)
{
    return status == DLOCK_BUSY || status == DLOCK_TIMEOUT || status == DLOCK_UNKNOWN ||
           status == DLOCK_UNAVAILABLE || status == DLOCK_NO_QUORUM;
}

/* Every call that succeeds comes here, too: members that no caller reads are not written. */
enum dlock_status dl_error_export(struct dlock_error *to, const struct dlock_error *from,
                                  enum dlock_status status)
{
    bool said = status != DLOCK_OK && from->message[0] != '\0';

    if (to == NULL)
        return status;
    to->status = status;
    to->code = from->code;
    to->retryable = is_retryable(status);
    to->node_count = nodes_export(from);
    text_export(to->origin, sizeof to->origin, from->origin);
    text_export(to->message, sizeof to->message,
                said ? from->message : dlock_status_text((int)status));
    return status;
}
