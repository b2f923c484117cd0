/* SPDX-License-Identifier: MIT */
#include "fake_session.h"

#include <string.h>

#define SESSIONS_MAX 64
#define LEASE_MS     3000

struct session {
    const struct dlock_host *host;
    bool open, broken, interrupted;
    const struct dlock_request *req; /* the attempt that it is pinned to */
    unsigned char token[DLOCK_TOKEN_SIZE];
    char name[32]; /* held in the store; "": none */
    bool killed;
};

struct handle { /* what core allocates */
    struct session *session;
    int64_t login_until_ns;
};

/* engine->mutex guards it, engine->moved tells of changes. */
static struct {
    struct dlt_engine *engine;
    struct session sessions[SESSIONS_MAX];
    size_t count;
    unsigned calls[FAKE_SLOTS];
    enum dlock_status answers[FAKE_SLOTS];
    bool executed[FAKE_SLOTS];
    bool since;
    char hang;
    int64_t delay_ns, linger_ns, login_ns;
    uint64_t fence;
    unsigned char token;
    const char *wrong;
} fake;

static void enter(enum fake_slot slot)
{
    (void)pthread_mutex_lock(&fake.engine->mutex);
    fake.calls[slot]++;
}

static void leave(void)
{
    (void)pthread_cond_broadcast(&fake.engine->moved);
    (void)pthread_mutex_unlock(&fake.engine->mutex);
}

static void wrong(const char *what)
{
    if (fake.wrong == NULL)
        fake.wrong = what;
}

static int64_t now_of(const struct session *session)
{
    return session->host->now_ns(session->host->ctx);
}

static void name_of(char name[32], const struct dlock_request *req)
{
    (void)snprintf(name, 32, "%.*s", (int)req->name_len, (const char *)req->name);
}

static struct session *holder_of(const char *name)
{
    for (size_t i = 0; i < fake.count; i++)
        if (fake.sessions[i].open && strcmp(fake.sessions[i].name, name) == 0)
            return &fake.sessions[i];
    return NULL;
}

/* Every call for one attempt and its lease comes to one session, which serves nothing else. */
static void pinned(struct session *session, const struct dlock_request *req, bool first)
{
    if (session->broken)
        wrong("[FAI-1] a session that failed was used again");
    if (session->req == NULL && first) {
        session->req = req;
        memcpy(session->token, req->token, sizeof session->token);
        fake.token = req->token[0];
    } else if (req == NULL || session->req != req) {
        wrong("[SES-1] a session serves two attempts, or an attempt came to two sessions");
    } else if (memcmp(session->token, req->token, sizeof session->token) != 0) {
        wrong("[SES-1] the token changed in a session that was not given back");
    }
}

static void unpinned(struct session *session)
{
    session->req = NULL;
    session->interrupted = false;
}

static enum dlock_status ended(struct session *session, enum dlock_status status,
                               struct dlock_error *err)
{
    if (status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE || status == DLOCK_TIMEOUT ||
        status == DLOCK_CANCELED || status == DLOCK_LOST)
        session->broken = true;
    if (status == DLOCK_OK || status == DLOCK_BUSY)
        return status;
    return dlock_fail(err, "fake", status, 0, "the fake says %s", dlock_status_name((int)status));
}

/* ---- slots ---- */

static enum dlock_status fake_open(void *self, const struct dlock_host *host,
                                   const struct dlock_target *target, int64_t deadline_ns,
                                   struct dlock_session_info *info, struct dlock_error *err)
{
    struct handle *handle = self;
    int64_t now_ns = host->now_ns(host->ctx);

    (void)target;
    enter(FAKE_OPEN);
    if (handle->login_until_ns == 0)
        handle->login_until_ns = now_ns + fake.login_ns;
    while (now_ns < handle->login_until_ns && now_ns < deadline_ns) {
        (void)pthread_cond_wait(&fake.engine->moved, &fake.engine->mutex);
        now_ns = host->now_ns(host->ctx);
    }
    if (now_ns < handle->login_until_ns) {
        info->can_resume = true;
        leave();
        return dlock_fail(err, "fake", DLOCK_UNAVAILABLE, 0, "no connection in time");
    }
    if (fake.count < SESSIONS_MAX) {
        handle->session = &fake.sessions[fake.count++];
        *handle->session = (struct session){.host = host, .open = true};
        info->caps = fake_session_plugin()->caps;
    }
    leave();
    return handle->session != NULL ? DLOCK_OK : DLOCK_NOMEM;
}

static void fake_close(void *self, bool forked)
{
    struct handle *handle = self;

    (void)forked;
    enter(FAKE_CLOSE);
    if (handle->session != NULL) {
        if (handle->session->req != NULL)
            wrong("[FGT-2] a session was closed before its attempt was forgotten");
        handle->session->open = false;
        handle->session->name[0] = '\0';
    }
    leave();
}

static void take(struct session *session, const char *name, struct dlock_grant *grant)
{
    (void)snprintf(session->name, sizeof session->name, "%s", name);
    grant->lease_ms = LEASE_MS;
    grant->fence = ++fake.fence;
    grant->since_ns = fake.since ? now_of(session) : 0;
}

static enum dlock_status fake_trylock(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    struct session *session = ((struct handle *)self)->session;
    enum dlock_status status;
    char name[32];

    enter(FAKE_TRYLOCK);
    pinned(session, req, true);
    name_of(name, req);
    status = fake.answers[FAKE_TRYLOCK];
    if (status == DLOCK_OK && holder_of(name) != NULL)
        status = DLOCK_BUSY;
    else if (status == DLOCK_OK || fake.executed[FAKE_TRYLOCK])
        take(session, name, grant);
    status = ended(session, status, err);
    leave();
    return status;
}

static enum dlock_status fake_lock(void *self, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err)
{
    struct session *session = ((struct handle *)self)->session;
    enum dlock_status status;
    char name[32];

    enter(FAKE_LOCK);
    pinned(session, req, true);
    name_of(name, req);
    while (holder_of(name) != NULL && (!session->interrupted || now_of(session) < fake.linger_ns) &&
           fake.answers[FAKE_LOCK] == DLOCK_OK && now_of(session) < req->deadline_ns)
        (void)pthread_cond_wait(&fake.engine->moved, &fake.engine->mutex);
    status = fake.answers[FAKE_LOCK];
    if (status == DLOCK_OK && holder_of(name) != NULL)
        status = session->interrupted ? DLOCK_CANCELED : DLOCK_TIMEOUT;
    else if (status == DLOCK_OK || fake.executed[FAKE_LOCK])
        take(session, name, grant);
    status = ended(session, status, err);
    leave();
    return status;
}

static enum dlock_status fake_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                    int64_t deadline_ns, struct dlock_error *err)
{
    struct session *session = ((struct handle *)self)->session;
    bool hang;

    enter(FAKE_RENEW);
    if (n != 1)
        wrong("more than one ping in a call");
    pinned(session, ops[0]->req, false);
    hang = fake.hang != '\0' && ops[0]->req->name[0] == (unsigned char)fake.hang;
    while (hang && now_of(session) < deadline_ns)
        (void)pthread_cond_wait(&fake.engine->moved, &fake.engine->mutex);
    ops[0]->status = fake.answers[FAKE_RENEW];
    if (hang)
        ops[0]->status = DLOCK_UNKNOWN;
    else if (ops[0]->status == DLOCK_OK && session->killed)
        ops[0]->status = DLOCK_LOST;
    ops[0]->grant.lease_ms = LEASE_MS;
    while (now_of(session) < fake.delay_ns)
        (void)pthread_cond_wait(&fake.engine->moved, &fake.engine->mutex);
    if (ops[0]->status == DLOCK_LOST)
        (void)ended(session, ops[0]->status, err);
    leave();
    return DLOCK_OK;
}

static enum dlock_status fake_unlock(void *self, const struct dlock_request *req,
                                     struct dlock_error *err)
{
    struct session *session = ((struct handle *)self)->session;
    enum dlock_status status;

    enter(FAKE_UNLOCK);
    pinned(session, req, false);
    status = fake.answers[FAKE_UNLOCK];
    if (status == DLOCK_OK && session->killed)
        status = DLOCK_LOST;
    if (status == DLOCK_OK || fake.executed[FAKE_UNLOCK])
        session->name[0] = '\0';
    status = ended(session, status, err);
    unpinned(session);
    leave();
    return status;
}

static void fake_forget(void *self, const struct dlock_request *req)
{
    enter(FAKE_FORGET);
    if (self == NULL || ((struct handle *)self)->session->req != req)
        wrong("[SES-1] an attempt was forgotten in another session");
    else
        unpinned(((struct handle *)self)->session);
    leave();
}

static void fake_interrupt(void *self, const struct dlock_request *req)
{
    struct session *session = ((struct handle *)self)->session;

    enter(FAKE_INTERRUPT);
    if (session->req != NULL && session->req != req)
        wrong("[INT-3] the wrong session was interrupted");
    session->interrupted = true;
    leave();
}

const struct dlock_plugin *fake_session_plugin(void)
{
    static const struct dlock_backend_ops ops = {
        .struct_size = sizeof ops,
        .session_size = sizeof(struct handle),
        .open = fake_open,
        .close = fake_close,
        .trylock = fake_trylock,
        .renew = fake_renew,
        .unlock = fake_unlock,
        .forget = fake_forget,
        .lock = fake_lock,
        .interrupt = fake_interrupt,
    };
    static const char *const schemes[] = {"memory", NULL};
    static const struct dlock_option_spec options[] = {{.name = NULL}};
    static const struct dlock_plugin plugin = {
        .magic = DLOCK_PLUGIN_MAGIC,
        .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
        .struct_size = sizeof plugin,
        .caps = DLOCK_CAP_SESSION | DLOCK_CAP_NATIVE_WAIT | DLOCK_CAP_FENCE,
        .name = "fake",
        .version = "1",
        .schemes = schemes,
        .options = options,
        .ops = &ops,
    };

    return &plugin;
}

/* ---- for tests ---- */

void fake_session_begin(struct dlt_engine *engine)
{
    memset(&fake, 0, sizeof fake);
    fake.engine = engine;
}

static void change(void)
{
    (void)pthread_mutex_lock(&fake.engine->mutex);
}

void fake_session_answer(enum fake_slot slot, enum dlock_status status, bool executed)
{
    change();
    fake.answers[slot] = status;
    fake.executed[slot] = executed;
    leave();
}

void fake_session_confirm(bool since)
{
    change();
    fake.since = since;
    leave();
}

void fake_session_login(int64_t ms)
{
    change();
    fake.login_ns = ms * DLT_MS;
    leave();
}

void fake_session_hang(char name)
{
    change();
    fake.hang = name;
    leave();
}

void fake_session_delay(int64_t until_ns)
{
    change();
    fake.delay_ns = until_ns;
    leave();
}

void fake_session_linger(int64_t until_ns)
{
    change();
    fake.linger_ns = until_ns;
    leave();
}

void fake_session_kill(const char *name)
{
    struct session *session;

    change();
    session = holder_of(name);
    if (session != NULL) {
        session->killed = true;
        session->name[0] = '\0';
    }
    leave();
}

unsigned fake_session_calls(enum fake_slot slot)
{
    unsigned calls;

    change();
    calls = fake.calls[slot];
    leave();
    return calls;
}

unsigned fake_session_open_now(void)
{
    unsigned open = 0;

    change();
    for (size_t i = 0; i < fake.count; i++)
        open += fake.sessions[i].open;
    leave();
    return open;
}

bool fake_session_held(const char *name)
{
    bool held;

    change();
    held = holder_of(name) != NULL;
    leave();
    return held;
}

unsigned char fake_session_token(void)
{
    unsigned char token;

    change();
    token = fake.token;
    leave();
    return token;
}

const char *fake_session_wrong(void)
{
    const char *what;

    change();
    what = fake.wrong;
    leave();
    return what;
}
