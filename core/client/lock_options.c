/* SPDX-License-Identifier: MIT */
#include "client/lock_options.h"

#include "lib/pid_space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Everything but the label and the data. */
static struct dl_lock_options options_of(const struct dl_settings *settings)
{
    return (struct dl_lock_options){
        .refs = 1,
        .ttl_ms = settings->ttl_ms,
        .wait_ms = settings->wait_ms,
        .op_timeout_ms = settings->op_timeout_ms,
        .poll_max_ms = settings->poll_max_ms,
        .max_hold_ms = settings->max_hold_ms,
        .handoff = (uint32_t)settings->handoff,
        .keep_ms = settings->keep_ms,
        .limit = settings->limit,
        .renew = settings->renew != DLOCK_OFF,
        .must_fence = settings->fence == DLOCK_ON,
        .recursive = settings->recursive == DLOCK_ON,
        .in_queue = settings->queue != DLOCK_OFF,
        .end = settings->end,
        .kill = settings->on_expiry == DLOCK_EXPIRE_KILL,
    };
}

static bool options_equal(const struct dl_lock_options *a, const struct dl_lock_options *b)
{
    return a->ttl_ms == b->ttl_ms && a->wait_ms == b->wait_ms &&
           a->op_timeout_ms == b->op_timeout_ms && a->poll_max_ms == b->poll_max_ms &&
           a->max_hold_ms == b->max_hold_ms && a->handoff == b->handoff && a->renew == b->renew &&
           a->must_fence == b->must_fence && a->recursive == b->recursive &&
           a->in_queue == b->in_queue && a->end == b->end && a->kill == b->kill &&
           a->keep_ms == b->keep_ms && a->limit == b->limit;
}

static bool label_make(struct dl_lock_options *options, const char *text)
{
    char host[65] = "", space[DL_PID_SPACE_SIZE];

    (void)gethostname(host, sizeof host - 1);
    dl_pid_space_read(space);
    if (asprintf(&options->label, "%s:%ld%s%s%s%s", host, (long)getpid(),
                 space[0] != '\0' ? "@" : "", space, text[0] != '\0' ? ":" : "", text) < 0) {
        options->label = NULL;
        return false;
    }
    options->label_text = options->label + strlen(options->label) - strlen(text);
    return true;
}

static bool data_make(struct dl_lock_options *options, const struct dl_settings *settings)
{
    if (settings->data_len == 0)
        return true;
    options->data = malloc(settings->data_len);
    if (options->data == NULL)
        return false;
    memcpy(options->data, settings->data, settings->data_len);
    options->data_len = (uint32_t)settings->data_len;
    return true;
}

static bool texts_equal(const struct dl_lock_options *options, const struct dl_settings *settings)
{
    return strcmp(options->label_text, settings->label) == 0 &&
           options->data_len == settings->data_len &&
           (options->data_len == 0 ||
            memcmp(options->data, settings->data, options->data_len) == 0);
}

struct dl_lock_options *dl_lock_options_ref(struct dl_lock_options **last,
                                            const struct dl_settings *settings)
{
    struct dl_lock_options wanted = options_of(settings);
    struct dl_lock_options *options = *last;

    if (options != NULL && options_equal(options, &wanted) && texts_equal(options, settings)) {
        options->refs++;
        return options;
    }
    options = malloc(sizeof *options);
    if (options == NULL)
        return NULL;
    *options = wanted;
    if (!label_make(options, settings->label) || !data_make(options, settings)) {
        dl_lock_options_unref(options);
        return NULL;
    }
    dl_lock_options_unref(*last);
    *last = options;
    options->refs++;
    return options;
}

void dl_lock_options_unref(struct dl_lock_options *options)
{
    if (options == NULL || --options->refs > 0)
        return;
    free(options->label);
    free(options->data);
    free(options);
}
