/* SPDX-License-Identifier: MIT */
#include "sys/error.h"
#include "sys/struct_size.h"

#include <dlock/types.h>
#include <dlock/version.h>
#include <stdarg.h>
#include <stdbool.h>
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

#define SIZE_FIRST DL_SIZE_TO(struct dlock_error, nodes)

/* What nodes said in this thread's last call. */
static _Thread_local struct {
    const struct dlock_error *err; /* to which it belongs: that of the call in progress, then the
                                      caller's */
    uint32_t count;
    struct dlock_node_error node[DLOCK_NODE_ERRORS_MAX];
} nodes;

#undef dl_error /* a macro for clang's analyzer */

void dl_error_begin(struct dlock_error *err)
{
    nodes.err = err;
    nodes.count = 0;
    err->nodes = nodes.node;
    dl_error_reset(err);
}

const struct dlock_node_error *dlock_error_node(const struct dlock_error *err, uint32_t index)
{
    return err != NULL && err == nodes.err && index < nodes.count ? &nodes.node[index] : NULL;
}

void dl_error_reset(struct dlock_error *err)
{
    err->struct_size = sizeof *err;
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

static uint32_t node_count(const struct dlock_error *err)
{
    return err->node_count < DLOCK_NODE_ERRORS_MAX ? err->node_count : DLOCK_NODE_ERRORS_MAX;
}

/* The nodes are sanitised where they are. They belong to another call if a callback of this call
 * made one: then this call has none. */
static void nodes_export(const struct dlock_error *to, const struct dlock_error *from)
{
    if (nodes.err != from)
        return;
    nodes.err = to;
    nodes.count = from->nodes == nodes.node ? node_count(from) : 0;
    for (uint32_t i = 0; i < nodes.count; i++) {
        struct dlock_node_error *node = &nodes.node[i];

        text_export(node->node, sizeof node->node, node->node);
        text_export(node->message, sizeof node->message, node->message);
    }
}

static bool is_retryable(enum dlock_status status)
{
    return status == DLOCK_BUSY || status == DLOCK_TIMEOUT || status == DLOCK_UNKNOWN ||
           status == DLOCK_UNAVAILABLE || status == DLOCK_NO_QUORUM;
}

/* Every call that succeeds comes here, too: members that no caller reads are not written. */
static void error_export(struct dlock_error *to, const struct dlock_error *from,
                         enum dlock_status status)
{
    bool said = status != DLOCK_OK && from->message[0] != '\0';

    to->struct_size = sizeof *to;
    to->status = status;
    to->code = from->code;
    to->retryable = is_retryable(status);
    to->node_count = node_count(from);
    to->nodes = NULL;
    text_export(to->origin, sizeof to->origin, from->origin);
    text_export(to->message, sizeof to->message,
                said ? from->message : dlock_status_text((int)status));
}

static void error_export_part(struct dlock_error *to, size_t size, const struct dlock_error *from,
                              enum dlock_status status)
{
    struct dlock_error whole = {0};

    error_export(&whole, from, status);
    whole.struct_size = (uint32_t)size;
    memcpy(to, &whole, size);
}

enum dlock_status dl_error_export(struct dlock_error *to, const struct dlock_error *from,
                                  enum dlock_status status)
{
    size_t size;

    nodes_export(to, from);
    if (to == NULL)
        return status;
    size = to->struct_size != 0 ? to->struct_size : SIZE_FIRST;
    if (size >= sizeof *to)
        error_export(to, from, status);
    else
        error_export_part(to, size, from, status);
    return status;
}
