/* SPDX-License-Identifier: MIT */
#include "attempt.h"

void redlock_attempt_begin(struct redlock_client *client, struct redlock_attempt *attempt,
                           const unsigned char *token)
{
    if (attempt->waiter.subscriber != NULL)
        return;
    redlock_client_ref(client); /* after a failure the client may have no session for a while */
    (void)pthread_mutex_lock(&client->subscriber.waiters.mutex);
    resp_subscriber_add_locked(&client->subscriber, &attempt->waiter, token);
    (void)pthread_mutex_unlock(&client->subscriber.waiters.mutex);
}

void redlock_attempt_end(struct redlock_attempt *attempt)
{
    struct redlock_client *client = NULL;

    if (attempt->waiter.subscriber == NULL)
        return;
    client = attempt->waiter.subscriber->owner;
    resp_subscriber_remove(&attempt->waiter);
    redlock_client_unref(client);
}

bool redlock_attempt_lives(struct redlock_client *client, const unsigned char *token)
{
    return resp_subscriber_has(&client->subscriber, token);
}
