/* ring: a process exports a counter and a ring; another one, which it
 * starts, counts and fills the ring. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <tarn/fabric.h>
#include <unistd.h>

enum {
    STEPS = 1000,
    SLOTS = 8,
    SLOT_BYTES = 64,
    COUNTER = 0,
    TAKEN = 8,
    RING = 64
};

static const char address[] = "ring.socket";

/* The ring's owner: a message tells that a slot is full, the word TAKEN
 * that it is free again. */
static int drain(struct tarn_fabric_connection *peer,
                 struct tarn_fabric_region *region)
{
    struct tarn_fabric_message message;
    char room[64], slot[SLOT_BYTES];

    for (unsigned taken = 0; taken < STEPS; taken++) {
        if (tarn_fabric_receive(peer, room, sizeof(room), TARN_FOREVER,
                                &message) != 0)
            return 1;
        /* all that was written before the message is there now */
        tarn_fabric_mem_copy_out(region,
                                 RING + taken % SLOTS * SLOT_BYTES, slot,
                                 sizeof(slot));
        if (taken + 1 == STEPS)
            printf("the last line is \"%s\"\n", slot);
        tarn_fabric_mem_fence(); /* it was read before it is free */
        tarn_fabric_mem_store64(region, TAKEN, taken + 1);
    }
    return 0;
}

static int serve(struct tarn_fabric *fabric)
{
    const struct tarn_fabric_domain_options options = {.writable_bytes =
                                                           4096};
    const struct tarn_fabric_connect_options slots = {
        .receive_count = SLOTS, .receive_bytes = 64};
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    struct tarn_fabric_listener *listener;
    struct tarn_fabric_incoming *incoming;
    struct tarn_fabric_connection *peer;
    char handle[TARN_FABRIC_HANDLE_BYTES];

    if (tarn_fabric_domain_open(fabric, &options, &domain) != 0 ||
        tarn_fabric_region_alloc(domain, 4096,
                                 TARN_FABRIC_MAY_READ |
                                     TARN_FABRIC_MAY_WRITE |
                                     TARN_FABRIC_MAY_SWAP,
                                 &region) != 0 ||
        tarn_fabric_listen(fabric, address, &listener) != 0 ||
        tarn_fabric_listener_wait(listener, tarn_now_ns() + 10000000000u,
                                  &incoming) != 0 ||
        tarn_fabric_accept(incoming, domain, &slots, &peer) != 0)
        return 1;
    tarn_fabric_handle_save(&region->handle, handle);
    int failed = tarn_fabric_send(peer, 0, handle, sizeof(handle),
                                  TARN_FOREVER) != 0 ||
                 drain(peer, region);
    printf("%llu steps\n",
           (unsigned long long)tarn_fabric_mem_load64(region, COUNTER));
    tarn_fabric_disconnect(peer);
    tarn_fabric_listener_close(listener);
    tarn_fabric_region_free(region);
    tarn_fabric_domain_close(domain);
    return failed;
}

/* Nobody calls the owner for this: its memory is written, and its
 * counter counted. */
static int fill(struct tarn_fabric_connection *owner,
                const struct tarn_fabric_handle *handle)
{
    uint64_t taken = 0, count = 0;
    char slot[SLOT_BYTES];

    for (unsigned step = 0; step < STEPS; step++) {
        while (step - taken ==
               SLOTS) { /* shm reads words whole: tarn_fabric_info() */
            if (tarn_fabric_read(owner, 0, handle, TAKEN, &taken,
                                 sizeof(taken), TARN_FOREVER) != 0)
                return 1;
        }
        memset(slot, 0, sizeof(slot));
        snprintf(slot, sizeof(slot), "line %u", step + 1);
        struct iovec line = {slot, sizeof(slot)};
        struct tarn_fabric_op write = {.kind = TARN_FABRIC_WRITE_NOTIFY,
                                       .handle = handle,
                                       .offset = RING + step % SLOTS *
                                                            SLOT_BYTES,
                                       .iov = &line,
                                       .iov_count = 1};
        if (tarn_fabric_faa(owner, 0, handle, COUNTER, 1, TARN_FOREVER,
                            &count) != 0)
            return 1;
        tarn_fabric_post(owner, &write, 1);
        if (tarn_fabric_wait(&write, 1, TARN_FOREVER) != 0)
            return 1;
    }
    return count + 1 != STEPS;
}

static int visit(struct tarn_fabric *fabric)
{
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_connection *owner = NULL;
    struct tarn_fabric_message message;
    struct tarn_fabric_handle handle;
    char room[4096];
    const uint64_t until = tarn_now_ns() + 10000000000u;

    if (tarn_fabric_domain_open(fabric, NULL, &domain) != 0)
        return 1;
    while (tarn_fabric_connect(domain, address, NULL, until, &owner) !=
           0) { /* until it listens */
        if (tarn_now_ns() > until)
            return 1;
    }
    int failed = tarn_fabric_receive(owner, room, sizeof(room), until,
                                     &message) != 0 ||
                 tarn_fabric_handle_load(room, &handle) != 0 ||
                 fill(owner, &handle);
    tarn_fabric_disconnect(owner);
    tarn_fabric_domain_close(domain);
    return failed;
}

int main(void)
{
    /* before there is a node: its threads stay in one process */
    pid_t child = fork();
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    int status = 0;

    if (child < 0 || tarn_node_open(NULL, &node) != 0 ||
        tarn_fabric_open(node, "shm:", &fabric) != 0)
        return 1;
    int failed = child == 0 ? visit(fabric) : serve(fabric);
    tarn_fabric_close(fabric);
    tarn_node_close(node);
    if (child > 0)
        failed |= waitpid(child, &status, 0) != child || status != 0;
    return failed;
}
