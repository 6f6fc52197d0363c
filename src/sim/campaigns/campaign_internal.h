/* The campaigns, for their table. */
#ifndef SIM_CAMPAIGN_INTERNAL_H
#define SIM_CAMPAIGN_INTERNAL_H

#include "sim/campaigns/campaign.h"

extern const struct sim_campaign sim_campaign_task;
extern const struct sim_campaign sim_campaign_depot;
extern const struct sim_campaign sim_campaign_fabric;
extern const struct sim_campaign sim_campaign_rpc;
extern const struct sim_campaign sim_campaign_kv;
extern const struct sim_campaign sim_campaign_space;
extern const struct sim_campaign sim_campaign_hash;
extern const struct sim_campaign sim_campaign_tree;

/** The bit of enum sim_drive_mutation that a campaign calls by this name. @param mutation  NULL, or another name: 0 */
uint32_t sim_play_mutation_bits(const char *mutation);

#endif
