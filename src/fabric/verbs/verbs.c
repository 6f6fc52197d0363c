/* The provider `verbs`: its table of operations. The work is that of the other files of this folder. */
#include "fabric/verbs/verbs.h"
#include <errno.h>

#define REFUSAL_LINES       8
#define REFUSAL_INTERVAL_NS (10 * BASE_NS_PER_SECOND)

static int verbs_open(struct tarn_node *node, void *provider_arg, struct tarn_fabric_info *ret_info,
                      void **ret_state)
{
    struct verbs *verbs = base_alloc(&node->memory, sizeof(*verbs));
    if (verbs == NULL)
        return -ENOMEM;
    verbs->node = node;
    base_log_limit_init(&verbs->refusals, REFUSAL_LINES, REFUSAL_INTERVAL_NS);
    base_spin_init(&verbs->lock);
    base_list_init(&verbs->connections);
    int error = verbs_options_read(&node->log, provider_arg, &verbs->options);
    if (error == 0)
        error = verbs_device_open(&node->log, &verbs->options, &verbs->device);
    if (error == 0) {
        error = verbs_service_start(verbs);
        if (error != 0)
            (void)ibv_close_device(verbs->device.context);
    }
    if (error != 0) {
        base_free(&node->memory, verbs, sizeof(*verbs));
        return error;
    }
    static const enum tarn_fabric_atomics atomics[] = {[IBV_ATOMIC_NONE] = TARN_FABRIC_ATOMICS_NONE,
                                                       [IBV_ATOMIC_HCA] = TARN_FABRIC_ATOMICS_DEVICE,
                                                       [IBV_ATOMIC_GLOB] = TARN_FABRIC_ATOMICS_MEMORY};
    const bool whole_words = verbs->device.in_order || verbs->options.whole_words;
    *ret_info = (struct tarn_fabric_info){.provider = "verbs",
                                          .whole_words = whole_words,
                                          .whole_reads = whole_words,
                                          .atomics = atomics[verbs->device.atomics],
                                          .served_by = TARN_FABRIC_SERVED_BY_CARD};
    *ret_state = verbs;
    return 0;
}

static void verbs_close(void *state)
{
    struct verbs *verbs = state;
    verbs_service_stop(verbs);
    (void)ibv_close_device(verbs->device.context);
    base_free(&verbs->node->memory, verbs, sizeof(*verbs));
}

const struct fabric_provider fabric_provider_verbs = {
    .name = "verbs",
    .open = verbs_open,
    .close = verbs_close,
    .domain_open = verbs_domain_open,
    .domain_close = verbs_domain_close,
    .regions_take_time = true,
    .registering_takes_time = true,
    .region_alloc = verbs_region_alloc,
    .region_register = verbs_region_alloc,
    .registers_any = true,
    .region_free = verbs_region_free,
    .buffers_made = verbs_buffers_made,
    .buffers_gone = verbs_buffers_gone,
    .listen = verbs_listen,
    .listener_close = verbs_listener_close,
    .listener_wait = verbs_listener_wait,
    .accept = verbs_accept,
    .reject = verbs_reject,
    .connect = verbs_connect,
    .post = verbs_post,
    .posted = verbs_posted,
    .progress = verbs_progress,
    .wait = verbs_wait,
    .watch = verbs_watch,
    .receive = verbs_receive,
    .fail = verbs_fail,
    .fence = verbs_fence,
    .disconnect = verbs_disconnect,
};
