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

#endif
