/*
 * ensemble: the cluster of a world's masters, as a ZooKeeper ensemble would be: members with sessions, of which one leads, and
 * nodes that all see. Nodes of the world join it as "sim:". Drivers cut members off; they also die and stand still with their
 * nodes. What cluster/cluster.h promises holds; the time that anything takes is drawn.
 */
#ifndef SIM_ENSEMBLE_H
#define SIM_ENSEMBLE_H

#include "sim/sim.h"

struct sim_ensemble;

/** Make the ensemble of a world, for nodes that are opened from now on. @param session_ns  of all members. Outside. */
void sim_ensemble_open(struct sim_world *world, uint64_t session_ns);

/** Cut a node off from the ensemble, or heal that: what is on its way meanwhile waits, or is given up. Outside. */
void sim_ensemble_cut(struct sim_node *node, bool is_cut);

#endif
