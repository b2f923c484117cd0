/* SPDX-License-Identifier: MIT */
#include "hold/unlock_batch.h"
#include "session/dispatch.h"

bool dl_unlock_batch_is_there(const struct dlock_client *client)
{
    const struct dlock_backend_ops *ops = &client->plugin->ops;

    return ops->trylock_batch != NULL && ops->unlock_batch != NULL &&
           !dl_client_has(client, DLOCK_CAP_SESSION);
}

bool dl_unlock_batch_is_close(int64_t a_ns, int64_t b_ns)
{
    return a_ns - b_ns <= DL_BATCH_SPREAD_NS / 2 && b_ns - a_ns <= DL_BATCH_SPREAD_NS / 2;
}

static void answered(struct dl_release *release, enum dlock_status status)
{
    dl_handle_answered(release->lock, status);
    dl_release_fsm_answered(&release->fsm, dl_client_now(release->lock->client), status);
}

static void no_session(struct dl_release *release, enum dlock_status status,
                       const struct dlock_error *err)
{
    *release->err = *err;
    dl_release_fsm_no_session(&release->fsm, status);
}

static void exchange(struct dlock_client *client, struct dl_session *session,
                     struct dl_release *const *releases, size_t n)
{
    struct dlock_batch_op elements[DL_BATCH_MOST], *ops[DL_BATCH_MOST] = {NULL};

    for (size_t i = 0; i < n; i++) {
        struct dl_claim *claim = releases[i]->lock->claim;

        dl_claim_unlock_request(client, claim, releases[i]->fsm.deadline_ns);
        elements[i] = (struct dlock_batch_op){.req = &claim->req, .err = releases[i]->err};
        ops[i] = &elements[i];
    }
    dl_dispatch_unlock_batch(client->plugin, session->self, ops, n);
    dl_session_pool_put(&client->pool, DL_USE_HOLDER, session, dl_claim_batch_worst(ops, n));
    for (size_t i = 0; i < n; i++) {
        dl_claim_unlocked(releases[i]->lock->claim, elements[i].status);
        answered(releases[i], elements[i].status);
    }
}

void dl_unlock_batch_send(struct dl_release *const *releases, size_t n)
{
    struct dlock_client *client = releases[0]->lock->client;
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dl_session *session = NULL;
    int64_t until_ns = DL_NEVER;
    enum dlock_status status;

    for (size_t i = 0; i < n; i++)
        until_ns = dl_earlier(until_ns, releases[i]->fsm.deadline_ns);
    status = dl_session_pool_take(&client->pool, DL_USE_HOLDER, until_ns, &session, &err);
    if (status == DLOCK_OK)
        exchange(client, session, releases, n);
    for (size_t i = 0; status != DLOCK_OK && i < n; i++)
        no_session(releases[i], status, &err);
}

static void send_alone(struct dl_release *release, struct dl_session *session)
{
    struct dlock_handle *lock = release->lock;

    answered(release, dl_claim_unlock(lock->client, lock->claim, DL_USE_HOLDER, session,
                                      release->fsm.deadline_ns, release->err));
}

static struct dl_session *session_take(struct dl_release *release)
{
    struct dlock_handle *lock = release->lock;
    struct dl_session *session = NULL;
    enum dlock_status status = dl_claim_session(lock->client, lock->claim, DL_USE_HOLDER,
                                                release->fsm.deadline_ns, &session, release->err);

    if (status == DLOCK_OK)
        return session;
    dl_release_fsm_no_session(&release->fsm, status);
    return NULL;
}

static bool is_close(const void *request, const void *arg)
{
    const struct dl_release *release = request, *first = arg;

    return dl_unlock_batch_is_close(release->fsm.deadline_ns, first->fsm.deadline_ns);
}

/* In front of the line. */
static struct dl_wait_fifo_waiter *lead(struct dl_release *release)
{
    struct dlock_client *client = release->lock->client;
    struct dl_session *session = session_take(release);
    struct dl_release *releases[DL_BATCH_MOST] = {release};
    struct dl_wait_fifo_waiter *chain = NULL;
    size_t n = 1;

    if (session == NULL)
        return NULL;
    n += dl_combine_take(&client->releases, is_close, release, (void **)(releases + 1),
                         DL_BATCH_MOST - 1, &chain);
    if (n == 1)
        send_alone(release, session);
    else
        exchange(client, session, releases, n);
    return chain;
}

/* What is wrong with the name may last, and is nothing to others; nor is time left for the line. */
static bool is_repeated(const struct dl_release_fsm *fsm)
{
    return fsm->uncertain || fsm->result != DLOCK_UNKNOWN;
}

void dl_unlock_batch_step(struct dl_release *release)
{
    struct dlock_client *client = release->lock->client;
    unsigned lanes = release->alone || is_repeated(&release->fsm) ? 0 : dl_client_lanes(client);
    struct dl_session *session = NULL;

    if (lanes == 0) {
        session = session_take(release);
        if (session != NULL)
            send_alone(release, session);
    } else if (dl_combine_enter(&client->releases, lanes, &client->host.clock, release,
                                release->fsm.deadline_ns)) {
        dl_combine_end(&client->releases, lanes, lead(release));
    }
}
