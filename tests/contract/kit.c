/* SPDX-License-Identifier: MIT */
#include "kit.h"
#include "../kit/notices.h"
#include "expected.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* What a slack says beyond an idle machine; with more than this the cases would last for minutes.
 */
static int64_t slack_beyond_ms(const struct dlt_run *run)
{
    int64_t beyond_ms = run->slack_ms > 100 ? run->slack_ms - 100 : 0;

    return beyond_ms < 400 ? beyond_ms : 400;
}

/* A quarter of a short ttl, the default, is little on a busy machine. */
int64_t dlt_op_timeout_ms(const struct dlt_run *run)
{
    return run->op_timeout_ms != 0 ? run->op_timeout_ms : 2000 + 10 * slack_beyond_ms(run);
}

int64_t dlt_kept_ttl_ms(const struct dlt_run *run)
{
    return 3000 + 5 * slack_beyond_ms(run);
}

_Thread_local struct dlock_error dlt_err = DLOCK_ERROR_INIT;

void dlt_fail(const char *file, int line, const char *format, ...)
{
    const char *base = strrchr(file, '/');
    char text[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)fprintf(stderr, "%s:%d: %s\n", base == NULL ? file : base + 1, line, text);
    (void)fflush(stdout); /* all streams would wait for threads that read from one */
    _exit(DLT_EXIT_FAILED);
}

void dlt_skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    (void)fflush(stdout);
    _exit(DLT_EXIT_SKIPPED);
}

void dlt_best_take(struct dlt_best *best, int64_t begin_ns, int64_t end_ns)
{
    if (best->begin_ns == 0 || end_ns - begin_ns < best->end_ns - best->begin_ns)
        *best = (struct dlt_best){begin_ns, end_ns};
}

void dlt_between(const char *file, int line, int64_t begin_ns, int64_t end_ns, int64_t most_ms,
                 const char *format, ...)
{
    struct dlt_measure measure;
    enum dlt_ruling ruling = dlt_ruler_judge(begin_ns, end_ns, most_ms, &measure);
    char text[512];
    va_list args;

    if (ruling == DLT_IN_TIME)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (ruling == DLT_LATE)
        dlt_fail(file, line, "%s: %s", text, measure.text);
    (void)fprintf(stderr, "%s: %s\n", text, measure.text);
    (void)fflush(stdout);
    _exit(DLT_EXIT_VOID);
}

void dlt_status(const char *file, int line, const char *call, enum dlock_status got,
                enum dlock_status want)
{
    const char *detail = dlt_err.status == got ? dlt_err.message : "";

    if (got != want)
        dlt_fail(file, line, "%s is %s, want %s%s%s", call, dlock_status_name((int)got),
                 dlock_status_name((int)want), detail[0] != '\0' ? ": " : "", detail);
}

const char *dlt_state_name(enum dlock_state state)
{
    static const char *const names[] = {"FREE", "HELD", "DOUBTFUL", "LOST"};

    return names[state];
}

void dlt_state(const char *file, int line, enum dlock_state got, enum dlock_state want,
               const char *format, ...)
{
    char when[256];
    va_list args;

    if (got == want)
        return;
    va_start(args, format);
    (void)vsnprintf(when, sizeof when, format, args);
    va_end(args);
    dlt_fail(file, line, "the handle is %s, want %s: %s", dlt_state_name(got), dlt_state_name(want),
             when);
}

static const char *reason_name(int reason)
{
    switch ((enum dlock_reason)reason) {
    case DLOCK_REASON_EXPIRED:
        return "EXPIRED";
    case DLOCK_REASON_TAKEN:
        return "TAKEN";
    case DLOCK_REASON_MAX_HOLD:
        return "MAX_HOLD";
    case DLOCK_REASON_SESSION:
        return "SESSION";
    }
    return "no reason";
}

void dlt_reason(const char *file, int line, int got, int want)
{
    if (got != want)
        dlt_fail(file, line, "the loss has the reason %s, want %s", reason_name(got),
                 reason_name(want));
}

void dlt_run_init(struct dlt_run *run)
{
    unsigned char bytes[8] = {0};

    DLT_CHECK(getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes, "getrandom");
    (void)snprintf(run->prefix, sizeof run->prefix, "dlt-%02x%02x%02x%02x%02x%02x%02x%02x-",
                   bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]);
}

static void log_print(void *arg, enum dlock_log_level level, const char *message)
{
    static const char *const levels[] = {"error", "warning", "info", "debug"};

    (void)arg;
    (void)fprintf(stderr, DLT_LOG_LINE "%s: %s\n", levels[level & 3], message);
}

struct dlock_client *dlt_client(const struct dlt_run *run, const char *defaults)
{
    struct dlock_client_options options = {
        .struct_size = sizeof options, .defaults = defaults, .log = log_print};
    struct dlock_client *client = NULL;

    DLT_OK(dlock_client_open(run->uri, &options, &client, &dlt_err));
    return client;
}

int64_t dlt_ttl_within(int64_t ttl_ms)
{
    const char *most = getenv("DLT_TTL_MOST");
    int64_t most_ms = most != NULL ? strtoll(most, NULL, 10) : ttl_ms;

    return ttl_ms < most_ms ? ttl_ms : most_ms;
}

int64_t dlt_ttl_asked(const struct dlock_client *client, int64_t ttl_ms)
{
    return dlt_ttl_within(ttl_ms) < ttl_ms || dlock_client_ttl_ms(client, ttl_ms) == 0 ? 0 : ttl_ms;
}

int64_t dlt_ttl(const struct dlock_client *client, int64_t ttl_ms)
{
    int64_t given_ms = dlock_client_ttl_ms(client, dlt_ttl_asked(client, ttl_ms));

    DLT_CHECK(given_ms >= dlt_ttl_asked(client, ttl_ms) && given_ms > 0,
              "dlock_client_ttl_ms(client, %lld) is %lld", (long long)ttl_ms, (long long)given_ms);
    return given_ms;
}

int64_t dlt_step_ms(const struct dlock_client *client)
{
    int64_t ttl_ms = dlock_client_ttl_ms(client, 2000);
    int64_t next_ms = ttl_ms > 0 ? dlock_client_ttl_ms(client, ttl_ms + 1) : 0;

    return next_ms > ttl_ms + 1 ? next_ms - ttl_ms : 0;
}

struct dlt_name dlt_name(const struct dlt_run *run, const char *suffix)
{
    struct dlt_name name;

    (void)snprintf(name.text, sizeof name.text, "%s%s", run->prefix, suffix);
    name.len = strlen(name.text);
    return name;
}

struct dlock_handle *dlt_lock_with(const struct dlt_run *run, struct dlock_client *client,
                                   const char *suffix, const struct dlock_options *options)
{
    struct dlock_options given = *options;
    struct dlt_name name = dlt_name(run, suffix);
    struct dlock_handle *lock = NULL;

    given.ttl_ms = dlt_ttl_asked(client, options->ttl_ms);
    DLT_OK(dlock_new(client, name.text, name.len, &given, &lock, &dlt_err));
    return lock;
}

struct dlock_handle *dlt_lock(const struct dlt_run *run, struct dlock_client *client,
                              const char *suffix, int64_t ttl_ms)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = ttl_ms,
                                    .op_timeout_ms = dlt_op_timeout_ms(run)};

    return dlt_lock_with(run, client, suffix, &options);
}

struct dlock_handle *dlt_lease(const struct dlt_run *run, struct dlock_client *client,
                               const char *suffix, int64_t ttl_ms)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = ttl_ms,
                                    .op_timeout_ms = dlt_op_timeout_ms(run),
                                    .renew = DLOCK_OFF};

    return dlt_lock_with(run, client, suffix, &options);
}

int64_t dlt_now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

double dlt_ms_since(int64_t start_ns)
{
    return (double)(dlt_now_ns() - start_ns) / (double)DLT_NS_PER_MS;
}

void dlt_sleep_until(int64_t deadline_ns)
{
    struct timespec ts = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                          .tv_nsec = (long)(deadline_ns % 1000000000)};

    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &ts, NULL) == EINTR)
        continue;
}

void dlt_sleep_ms(int64_t ms)
{
    dlt_sleep_until(dlt_now_ns() + ms * DLT_NS_PER_MS);
}

pthread_t dlt_thread(void *(*run)(void *arg), void *arg)
{
    pthread_t thread;

    DLT_CHECK(pthread_create(&thread, NULL, run, arg) == 0, "no thread");
    return thread;
}

void *dlt_join(pthread_t thread)
{
    void *result = NULL;

    DLT_CHECK(pthread_join(thread, &result) == 0, "pthread_join");
    return result;
}

static bool holder_note(void *arg, const struct dlock_holder *info)
{
    struct dlt_holder *holder = arg;

    holder->count++;
    holder->info = *info;
    (void)snprintf(holder->owner, sizeof holder->owner, "%s", info->owner);
    (void)snprintf(holder->label, sizeof holder->label, "%s", info->label);
    DLT_CHECK(info->name_len <= sizeof holder->name, "a name of %u bytes", info->name_len);
    memcpy(holder->name, info->name, info->name_len);
    holder->info.name = NULL;
    holder->info.owner = NULL;
    holder->info.label = NULL;
    return 0;
}

/* Of this URI a plugin may leave out what is optional. */
static int may_lack(const char *uri, enum dlock_status status)
{
    uint64_t caps = DLOCK_CAP_SESSION;

    (void)dlt_expected_caps(uri, &caps);
    return status == DLOCK_UNSUPPORTED && (caps & DLOCK_CAP_SESSION) != 0;
}

struct dlt_holder dlt_inspect(struct dlock_client *client, const struct dlt_name *name)
{
    struct dlt_holder holder = {0};
    enum dlock_status status =
        dlock_client_inspect(client, name->text, name->len, holder_note, &holder, &dlt_err);

    if (may_lack(dlock_client_uri(client), status))
        dlt_skip("this store cannot inspect");
    DLT_OK(status);
    return holder;
}

int dlt_can_inspect(struct dlock_client *client)
{
    struct dlt_holder holder = {0};

    return !may_lack(dlock_client_uri(client),
                     dlock_client_inspect(client, "x", 1, holder_note, &holder, &dlt_err));
}

int dlt_session_lives(struct dlock_client *client)
{
    return (dlock_client_caps(client) & DLOCK_CAP_SESSION) != 0;
}

int dlt_is_tethered(struct dlock_client *client)
{
    return (dlock_client_caps(client) & DLOCK_CAP_TETHERED) != 0;
}

int dlt_ends_with_claim(struct dlock_client *client)
{
    return dlt_session_lives(client) || dlt_is_tethered(client);
}

int64_t dlt_margin_ms(int64_t ttl_ms)
{
    return ttl_ms > 100 ? ttl_ms / 10 : 10;
}

int64_t dlt_death_ms(const struct dlt_run *run, struct dlock_client *client, int64_t other_ms)
{
    int64_t ttl_ms = dlt_ttl(client, 0), late_ms = ttl_ms / 20 > 1000 ? ttl_ms / 20 : 1000;

    if (!dlt_is_tethered(client))
        return other_ms;
    return ttl_ms + (DLT_TICKS * run->grid_ms > late_ms ? DLT_TICKS * run->grid_ms : late_ms);
}

struct dlt_holder dlt_inspect_expired(const struct dlt_run *run, struct dlock_client *client,
                                      const struct dlt_name *name)
{
    int64_t late_ms = run->grid_ms > 0 ? run->grid_ms + run->slack_ms : 0, start_ns = dlt_now_ns();
    struct dlt_holder holder = dlt_inspect(client, name);

    if (dlt_ends_with_claim(client))
        late_ms = 5000 + DLT_TICKS * run->grid_ms;
    while (holder.count > 0 && dlt_ms_since(start_ns) < (double)late_ms) {
        dlt_sleep_ms(10);
        holder = dlt_inspect(client, name);
    }
    return holder;
}

int dlt_may_lack(const struct dlt_run *run, enum dlock_status status)
{
    return may_lack(run->uri, status);
}

int dlt_can_break(const struct dlt_run *run, struct dlock_client *client)
{
    struct dlt_name name = dlt_name(run, "nobody's");

    return !dlt_may_lack(run, dlock_client_break(client, name.text, name.len, NULL, &dlt_err));
}

void dlt_break(const struct dlt_run *run, struct dlock_client *client, const struct dlt_name *name)
{
    dlt_break_owner(run, client, name, NULL);
}

void dlt_break_owner(const struct dlt_run *run, struct dlock_client *client,
                     const struct dlt_name *name, const char *owner)
{
    enum dlock_status status = dlock_client_break(client, name->text, name->len, owner, &dlt_err);

    if (dlt_may_lack(run, status))
        dlt_skip("this store cannot break a lock");
    DLT_OK(status);
}

int dlt_event_await(struct dlock_client *client, struct dlock_notice *event, int64_t timeout_ms)
{
    struct pollfd fd = {.fd = dlock_client_fd(client), .events = POLLIN};
    int64_t deadline_ns = dlt_now_ns() + timeout_ms * DLT_NS_PER_MS;

    DLT_CHECK(fd.fd >= 0, "no event fd");
    while (dlt_now_ns() < deadline_ns) {
        int left_ms = (int)((deadline_ns - dlt_now_ns()) / DLT_NS_PER_MS) + 1;

        (void)poll(&fd, 1, left_ms);
        if (dlt_notice_take(client, event, NULL) == 1)
            return 1;
    }
    return 0;
}
