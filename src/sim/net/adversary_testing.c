/* For the plays of the adversary's proof: an owner of a region and a peer in a world of a seed, and what they do most. */
#include "sim/net/adversary_testing.h"

void see(struct stage *stage, unsigned outcome)
{
    stage->seen |= 1u << outcome;
}

uint64_t draw(struct stage *stage, uint64_t n)
{
    return base_random_below(&stage->random, n);
}

void nap(struct stage *stage, uint64_t most_ns)
{
    (void)task_sleep(draw(stage, most_ns + 1));
}

void wait_until_told(struct stage *stage)
{
    while (!stage->told)
        nap(stage, 300);
}

void prepare(struct stage *stage, unsigned i, enum tarn_fabric_op_kind kind, uint64_t offset, uint64_t words)
{
    stage->iov[i] = (struct iovec){.iov_base = stage->data[i], .iov_len = words * 8};
    stage->ops[i] =
        (struct tarn_fabric_op){.kind = kind,
                                .handle = kind == TARN_FABRIC_SEND ? NULL : &stage->region->handle,
                                .offset = offset,
                                .iov = &stage->iov[i],
                                .iov_count = words > 0 ? 1 : 0};
}

void prepare_write(struct stage *stage, unsigned i, uint64_t offset, uint64_t words, uint64_t value)
{
    for (unsigned word = 0; word < WORDS; word++)
        stage->data[i][word] = value;
    prepare(stage, i, TARN_FABRIC_WRITE, offset, words);
}

/* ---- the stage ---------------------------------------------------------------------------------- */

void be_owner(void *arg)
{
    struct stage *stage = arg;
    struct tarn_node *tarn = sim_node_tarn(stage->nodes[OWNER]);
    const struct tarn_fabric_domain_options options = {.writable_bytes = BASE_PAGE_BYTES};
    const uint32_t rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE |
                            (stage->play->is_bulk ? TARN_FABRIC_BULK : TARN_FABRIC_MAY_SWAP);
    struct tarn_fabric *fabric;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_listener *listener;
    struct tarn_fabric_incoming *incoming;
    base_assert(tarn_fabric_open(tarn, "shm:", &fabric) == 0);
    base_assert(tarn_fabric_domain_open(fabric, &options, &domain) == 0);
    base_assert(tarn_fabric_region_alloc(domain, 1, rights, &stage->region) == 0);
    base_assert(tarn_fabric_listen(fabric, "owner", &listener) == 0);
    base_assert(tarn_fabric_listener_wait(listener, TASK_FOREVER, &incoming) == 0);
    base_assert(tarn_fabric_accept(incoming, domain, NULL, &stage->owner) == 0);
    stage->play->owner(stage);
    while (!stage->peer_ended)
        nap(stage, 3000);
    tarn_fabric_disconnect(stage->owner);
    tarn_fabric_region_free(stage->region);
    tarn_fabric_listener_close(listener);
    tarn_fabric_domain_close(domain);
    tarn_fabric_close(fabric);
}

void be_peer(void *arg)
{
    struct stage *stage = arg;
    struct tarn_fabric *fabric;
    struct tarn_fabric_domain *domain;
    base_assert(tarn_fabric_open(sim_node_tarn(stage->nodes[PEER]), "shm:", &fabric) == 0);
    base_assert(tarn_fabric_domain_open(fabric, NULL, &domain) == 0);
    int error;
    while ((error = tarn_fabric_connect(domain, "owner", NULL, TASK_FOREVER, &stage->peer)) == -ECONNREFUSED)
        (void)task_sleep(1000);
    base_assert(error == 0);
    if (stage->play->driver != NULL)
        sim_event_at(stage->world, &stage->event, task_now() + 1000 + draw(stage, 30000));
    stage->play->peer(stage);
    tarn_fabric_disconnect(stage->peer);
    tarn_fabric_domain_close(domain);
    tarn_fabric_close(fabric);
    stage->peer_ended = true;
}

uint32_t run_play(const struct play *play, uint64_t seed, uint32_t troubles, uint64_t *ret_hash)
{
    static const char *const names[2] = {"owner", "peer"};
    struct stage stage = {.play = play, .event = {.name = "driver", .run = play->driver}};
    struct sim_net_stats stats;
    stage.world = sim_test_world(seed);
    *sim_net_options(stage.world) = (struct sim_net_options){
        .troubles = troubles, .fence_cuts = play->fence_cuts, .preempted_one_in = play->preempts ? 4 : 0};
    sim_world_set_drift(stage.world, play->drift_ppm);
    stage.random = base_random_fork(sim_world_random(stage.world));
    for (unsigned i = 0; i < 2; i++) {
        const struct sim_node_options options = {.name = names[i], .scheds = 1};
        base_assert(sim_node_open(stage.world, &options, &stage.nodes[i]) == 0);
        base_assert(sim_spawn(stage.nodes[i], 0, names[i], i == OWNER ? be_owner : be_peer, &stage) == 0);
    }
    int error = sim_world_run(stage.world, TASK_FOREVER, NULL, NULL);
    if (error != 0)
        (void)fprintf(stderr, "%s, seed %" PRIu64 ": %s\n", play->name, seed, sim_world_failure(stage.world));
    base_assert(error == 0);
    sim_event_cancel(stage.world, &stage.event);
    sim_net_stats(stage.world, &stats);
    base_assert(stats.domains + stats.regions + stats.connections + stats.operations == 0);
    for (unsigned i = 0; i < 2; i++)
        base_assert(stage.nodes[i] == NULL || sim_node_close(stage.nodes[i]) == 0);
    *ret_hash = sim_world_hash(stage.world);
    sim_world_close(stage.world);
    return stage.seen;
}
