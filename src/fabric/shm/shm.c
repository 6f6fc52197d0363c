/* The provider `shm`: opening, and its table of operations. The work is that of the other files of this folder. */
#include "fabric/shm/shm.h"
#include <errno.h>

#define REFUSAL_LINES       8
#define REFUSAL_INTERVAL_NS (10 * BASE_NS_PER_SECOND)

static int shm_open_provider(struct tarn_node *node, void *provider_arg, struct tarn_fabric_info *ret_info,
                             void **ret_state)
{
    const char *options = provider_arg;
    if (*options != '\0')
        return fabric_url_complain(&node->log, options, "shm takes no options");
    struct shm *shm = base_alloc(&node->memory, sizeof(*shm));
    if (shm == NULL)
        return -ENOMEM;
    shm->node = node;
    base_spin_init(&shm->mappings_lock);
    base_list_init(&shm->mappings);
    base_list_init(&shm->regions);
    base_log_limit_init(&shm->refusals, REFUSAL_LINES, REFUSAL_INTERVAL_NS);
    int error = shm_closer_open(shm);
    if (error == 0) {
        error = fabric_service_open(&shm->service, "tarn-fabric");
        if (error != 0)
            shm_closer_close(shm);
    }
    if (error != 0) {
        base_free(&node->memory, shm, sizeof(*shm));
        return error;
    }
    *ret_info = (struct tarn_fabric_info){.provider = "shm",
                                          .whole_words = true,
                                          .whole_reads = true,
                                          .atomics = TARN_FABRIC_ATOMICS_MEMORY,
                                          .served_by = TARN_FABRIC_SERVED_BY_SELF};
    *ret_state = shm;
    return 0;
}

static void shm_close(void *state)
{
    struct shm *shm = state;
    fabric_service_close(&shm->service);
    shm_closer_close(shm);
    base_free(&shm->node->memory, shm, sizeof(*shm));
}

const struct fabric_provider fabric_provider_shm = {
    .name = "shm",
    .open = shm_open_provider,
    .close = shm_close,
    .domain_open = shm_domain_open,
    .domain_close = shm_domain_close,
    .regions_take_time = true,
    .region_alloc = shm_region_alloc,
    .region_register = shm_region_register,
    .region_adopt = shm_region_adopt,
    .region_free = shm_region_free,
    .listen = shm_listen,
    .listener_close = shm_listener_close,
    .listener_wait = shm_listener_wait,
    .accept = shm_accept,
    .reject = shm_reject,
    .connect = shm_connect,
    .peer_is_there = shm_peer_is_there,
    .post = shm_post,
    .run = shm_run,
    .prefetch = shm_prefetch,
    .posted = shm_posted,
    .progress = shm_progress,
    .wait = shm_wait,
    .watch = shm_watch,
    .receive = shm_receive,
    .fail = shm_fail,
    .fence = shm_fence,
    .disconnect = shm_disconnect,
};
