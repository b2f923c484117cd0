/* SPDX-License-Identifier: MIT */
/*
 * settings.h - the options that core itself understands in a URI's query, in the defaults string of
 * a client, and in struct dlock_options; later ones override earlier ones.
 */
#ifndef DL_SETTINGS_H
#define DL_SETTINGS_H

#include <dlock/dlock.h>
#include <dlock/plugin.h>
#include <stdbool.h>

#define DL_TTL_MIN_MS  INT64_C(50)
#define DL_TTL_MAX_MS  (INT64_C(7) * 24 * 3600 * 1000)
#define DL_KEEP_MAX_MS DL_TTL_MAX_MS
#define DL_LABEL_MAX   64

struct dl_settings {
    int64_t ttl_ms;        /* ttl=30s */
    int64_t wait_ms;       /* wait=: DLOCK_FOREVER (the default) or a duration; 0: one attempt */
    int64_t op_timeout_ms; /* op_timeout=: 0: min(ttl/4, 2 s), see dl_settings_op_timeout_ms */
    int64_t connect_timeout_ms;  /* connect_timeout=5s */
    int64_t max_hold_ms;         /* max_hold=: 0: no bound */
    int64_t poll_max_ms;         /* poll_max=1s: longest sleep of a waiter between two attempts */
    bool lazy;                   /* open=now; lazy: dlock_client_open does not connect */
    int connections;             /* connections=16: sessions a client may have for operations */
    enum dlock_tri renew;        /* renew=on */
    enum dlock_tri fence;        /* fence=auto: DLOCK_DEFAULT */
    enum dlock_tri recursive;    /* recursive=off */
    enum dlock_tri queue;        /* queue=on: wait in the store's queue where it has one */
    uint8_t clock_margin;        /* clock_margin=10: percent of a lease that is not believed */
    int handoff;                 /* handoff=30: turns that a lease may go round this client */
    enum dlock_end end;          /* dlock_options.end; no option of a URI */
    enum dlock_expire on_expiry; /* dlock_options.on_expiry; no option of a URI */
    void *user;                  /* dlock_options.user; no option of a URI, as the next two */
    int64_t keep_ms;             /* 0: a released name is free at once */
    uint32_t limit;              /* holders at once; 1: a lock */
    const void *data;            /* borrowed from dlock_options; NULL: none */
    size_t data_len;
    char label[DL_LABEL_MAX + 1];
};

/* The table of these options, as of a plugin; ends with name == NULL. */
extern const struct dlock_option_spec dl_settings_options[];

/* Every member at the fallback of its row. */
void dl_settings_init(struct dl_settings *settings);

/*
 * Takes over one option that dl_option_parse accepted for a row of dl_settings_options; pass_file
 * and pass_env are store.c's and change nothing here. False: the text has characters that the
 * option cannot have.
 */
bool dl_settings_set(struct dl_settings *settings, const char *name, const char *text,
                     int64_t number);

/*
 * Copies a caller's struct, whose first member is its uint32_t struct_size, into `to`; zeroes if
 * `from` is NULL.
 * known: the size of *to. what: the struct's name, for the message. INVALID: another size.
 */
enum dlock_status dl_struct_import(void *to, size_t known, const void *from, const char *what,
                                   struct dlock_error *err);

/* What applies to one lock: base overridden by options (NULL: nothing), checked. INVALID names the
 * member at fault. */
enum dlock_status dl_settings_for_lock(const struct dl_settings *base,
                                       const struct dlock_options *options, struct dl_settings *out,
                                       struct dlock_error *err);

/* The bound of one exchange for leases of ttl_ms: op_timeout_ms, or min(ttl/4, 2 s) if that is 0.
 */
int64_t dl_settings_op_timeout_ms(int64_t op_timeout_ms, int64_t ttl_ms);

#endif
