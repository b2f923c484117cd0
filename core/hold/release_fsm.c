/* SPDX-License-Identifier: MIT */
#include "hold/release_fsm.h"

void dl_release_fsm_start(struct dl_release_fsm *release, int64_t deadline_ns, bool session,
                          bool again)
{
    *release = (struct dl_release_fsm){.deadline_ns = deadline_ns,
                                       .session = session,
                                       .gone_is_ok = again,
                                       .step = DL_RELEASE_SEND,
                                       .result = DLOCK_UNKNOWN};
}

static void done(struct dl_release_fsm *release, enum dlock_status status)
{
    release->step = DL_RELEASE_DONE;
    release->result = status;
}

/* Ends without knowing of all unlocks whether they were executed. */
static void give_up(struct dl_release_fsm *release, enum dlock_status status)
{
    done(release, release->uncertain ? DLOCK_UNKNOWN : status);
}

void dl_release_fsm_no_session(struct dl_release_fsm *release, enum dlock_status status)
{
    give_up(release, status);
}

void dl_release_fsm_answered(struct dl_release_fsm *release, int64_t now_ns,
                             enum dlock_status status)
{
    if (status == DLOCK_LOST && (release->gone_is_ok || release->uncertain)) {
        done(release, DLOCK_OK);
        return;
    }
    if (status == DLOCK_OK) {
        done(release, status);
        return;
    }
    if (status == DLOCK_UNKNOWN) {
        release->uncertain = true;
    } else if (status != DLOCK_UNAVAILABLE && status != DLOCK_NO_QUORUM) {
        give_up(release, status);
        return;
    }
    release->gone_is_ok |= release->tethered;
    if (release->session || now_ns + DL_RELEASE_PAUSE_NS >= release->deadline_ns) {
        give_up(release, status);
        return;
    }
    release->step = DL_RELEASE_PAUSE;
    release->result = status;
}

void dl_release_fsm_paused(struct dl_release_fsm *release, int64_t now_ns)
{
    if (now_ns >= release->deadline_ns) /* the pause took longer */
        give_up(release, release->result);
    else
        release->step = DL_RELEASE_SEND;
}
