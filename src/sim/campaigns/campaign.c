/* The table of campaigns, and one seed of one of them. */
#include "sim/campaigns/campaign.h"
#include "base/hash.h"
#include "sim/campaigns/campaign_internal.h"

enum {
    DRIFTS = 1,          /* sets what decides which seeds have clocks that drift apart from other hashes */
    DRIFT_PPM_MAX = 200, /* of each clock: more than that of a quartz that the machine lets run by itself */
};

const struct sim_campaign *const sim_campaigns[] = {
    &sim_campaign_task, &sim_campaign_depot, &sim_campaign_fabric,
    &sim_campaign_rpc,  &sim_campaign_kv,    &sim_campaign_space,
    &sim_campaign_hash, &sim_campaign_tree,  NULL};

int sim_run_seed(const struct sim_campaign *campaign, uint64_t seed, const char *mutation, FILE *trace,
                 uint64_t *ret_hash, char *ret_text, size_t room)
{
    struct sim_world *world;
    const struct sim_world_options options = {.seed = seed, .trace = trace};
    int error = sim_world_open(&options, &world);
    base_assert(error == 0);
    if (base_hash64(&seed, sizeof(seed), DRIFTS) % 2 == 0)
        sim_world_set_drift(world, DRIFT_PPM_MAX);
    campaign->run(world, mutation);
    const char *failure = sim_world_failure(world);
    if (ret_hash != NULL)
        *ret_hash = sim_world_hash(world);
    bool failed = failure != NULL;
    if (failed)
        (void)snprintf(ret_text, room, "%s", failure);
    sim_world_close(world);
    return failed ? 1 : 0;
}
