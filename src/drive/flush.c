/*
 * Flushes, one at a time. The kernel reports a lost write only to the first flush that asks. If two were in
 * flight together, the second could succeed, and complete sooner, although data is lost. One after the
 * other, the second starts when the first one's failure is known. All flushes that come while one is in
 * flight share the next one, which is issued after all their writes have completed.
 */
#include "drive/drive_internal.h"
#include <errno.h>

void drive_flushes_init(struct drive_flushes *flushes)
{
    base_spin_init(&flushes->lock);
    base_list_init(&flushes->followers);
    base_list_init(&flushes->waiting);
}

static struct drive_request *of_link(struct base_list *item)
{
    return base_container_of(item, struct drive_request, io.link);
}

/* Start the next leader's flush, in the leader's own context. */
static void lead_flush(struct drive_request *request)
{
    struct drive *drive = request->drive;
    if (drive_failed(drive))
        drive_finish_now(request, -EROFS); /* a failed flush is never tried again */
    else
        drive->provider->post(drive->state, request);
}

void drive_flush_post(struct drive *drive, struct drive_request *request)
{
    struct drive_flushes *flushes = &drive->flushes;
    struct task_wait wait;
    drive_put_aside(request, &wait, lead_flush);
    base_spin_lock(&flushes->lock);
    bool leads = flushes->leader == NULL;
    if (leads)
        flushes->leader = request;
    else
        base_list_push_back(&flushes->waiting, &request->io.link);
    base_spin_unlock(&flushes->lock);
    if (leads)
        lead_flush(request);
    else
        drive_stay(request);
}

void drive_flush_finish(struct drive *drive, int32_t result)
{
    struct drive_flushes *flushes = &drive->flushes;
    struct base_list served;
    base_list_init(&served);
    base_spin_lock(&flushes->lock);
    base_list_move_all(&served, &flushes->followers);
    struct base_list *next = base_list_pop_front(&flushes->waiting);
    flushes->leader = next == NULL ? NULL : of_link(next);
    base_list_move_all(&flushes->followers, &flushes->waiting);
    base_spin_unlock(&flushes->lock);
    /* The leader's own result is delivered after this: until then its owner cannot close the drive. */
    for (struct base_list *item = base_list_pop_front(&served); item != NULL;
         item = base_list_pop_front(&served)) {
        struct drive_request *follower = of_link(item);
        follower->result = result;
        follower->resume = drive_deliver;
        drive_resume(follower);
    }
    if (next != NULL)
        drive_resume(of_link(next));
}
