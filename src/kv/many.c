/*
 * Many keys of a store of servers. Those that belong to one worker go together, in batches, and all batches are under way at
 * once, whatever servers they are of:
 *
 *   keys ─▶ turn: batches of up to 48 keys, each a worker's ─▶ kv_lane_call_many() ─▶ values, in place
 *   then, one by one: values longer than their share of a result, keys too long for a batch, and what was sent to the wrong worker
 *
 * A server that cannot be reached is tried again when the others have answered, and only its own keys fail.
 */
#include "base/hash.h"
#include "kv/remote.h"
#include <errno.h>
#include <string.h>

#define BATCH_KEYS   48 /* the most keys of one MULTI_GET */
#define TURN_BATCHES 32 /* the most batches under way at once */
#define TURN_KEYS    1024
#define NO_BATCH     UINT8_MAX

_Static_assert(TURN_BATCHES <= KV_TOGETHER_MAX && TURN_BATCHES < NO_BATCH, "a turn is sent as one");

enum { NOT_YET = 1 }; /* error of a get whose outcome is still open */

enum state {
    UNUSED,  /* it has none of the keys */
    WAITING, /* it has keys and was not reached yet */
    READY,   /* its routing is known */
    FAILED,  /* its remaining keys fail with `error` */
};

/* A server, during one call. */
struct side {
    enum state state;
    int error;
    struct kv_lane *lane;
    uint64_t deadline_ns;
};

/* Keys that go in one request. */
struct batch {
    struct kv_call call;
    uint32_t server, worker, count;
    uint32_t request_bytes, room;
    uint8_t *key_at; /* the place of the next key in the request */
    size_t result_at;
};

struct many {
    const struct kv_servers *servers;
    struct base_account *account;
    struct tarn_get *gets; /* the gets of this turn */
    size_t count;
    uint32_t batch_count;
    uint8_t batch_of[TURN_KEYS];
    struct batch batches[TURN_BATCHES];
    struct side sides[];
};

uint64_t kv_server_seed(const char *address)
{
    return base_hash64(address, strlen(address), 0);
}

uint32_t kv_server_of(const struct kv_servers *servers, const void *key, size_t key_len)
{
    uint32_t best = 0;
    uint64_t most = 0;
    for (uint32_t i = 0; i < servers->count && servers->count > 1; i++) {
        const uint64_t weight = base_hash64(key, key_len, servers->seeds[i]);
        if (i > 0 && weight <= most)
            continue;
        best = i;
        most = weight;
    }
    return best;
}

static struct side *side_of(struct many *many, const struct tarn_get *get)
{
    return &many->sides[kv_server_of(many->servers, get->key, get->key_len)];
}

/* ---- planning ----------------------------------------------------------------------------------- */

/* Find the batch for a key. @return NULL: the turn has no more batches */
static struct batch *batch_for(struct many *many, const struct side *side, const struct tarn_get *get)
{
    static const struct kv_request head = {.amount = 1};
    const uint32_t server = (uint32_t)(side - many->sides);
    const uint32_t worker = kv_lane_worker(side->lane, get->key, get->key_len);
    for (uint32_t i = many->batch_count; i-- > 0;) {
        struct batch *batch = &many->batches[i];
        if (batch->server == server && batch->worker == worker && batch->count < BATCH_KEYS &&
            batch->request_bytes + kv_key_bytes(get->key_len) <= KV_NARROW_REQUEST)
            return batch;
    }
    if (many->batch_count == TURN_BATCHES)
        return NULL;
    struct batch *batch = &many->batches[many->batch_count++];
    *batch = (struct batch){
        .server = server, .worker = worker, .request_bytes = (uint32_t)kv_request_bytes(KV_MULTI_GET, &head)};
    return batch;
}

/* Put keys into batches, as many as a turn takes. @return whether there are any */
static bool plan_turn(struct many *many, struct tarn_get *gets, size_t count)
{
    const struct kv_request head = {.amount = 1};
    const size_t most = KV_NARROW_REQUEST - kv_request_bytes(KV_MULTI_GET, &head);
    many->gets = gets;
    many->batch_count = 0;
    for (many->count = 0; many->count < base_min(count, (size_t)TURN_KEYS); many->count++) {
        const struct tarn_get *get = &gets[many->count];
        many->batch_of[many->count] = NO_BATCH;
        if (get->error != NOT_YET || kv_key_bytes(get->key_len) > most)
            continue;
        const struct side *side = side_of(many, get);
        if (side->state != READY)
            continue;
        struct batch *batch = batch_for(many, side, get);
        if (batch == NULL)
            break;
        many->batch_of[many->count] = (uint8_t)(batch - many->batches);
        batch->request_bytes += (uint32_t)kv_key_bytes(get->key_len);
        batch->count++;
    }
    return many->batch_count > 0;
}

/* The most bytes of a value that are asked for. */
static uint32_t share_of(const struct batch *batch, const struct tarn_get *get)
{
    return (uint32_t)base_min(get->value_room, (size_t)KV_NARROW_RESULT / batch->count - KV_ITEM_BYTES);
}

/* ---- a turn ------------------------------------------------------------------------------------- */

/* Save the requests of all batches, with room for results behind them. @param memory  of the measured length */
static void save_requests(struct many *many, uint8_t *memory)
{
    for (uint32_t i = 0; i < many->batch_count; i++) {
        struct batch *batch = &many->batches[i];
        const struct kv_request request = {.amount = batch->count};
        const struct side *side = &many->sides[batch->server];
        batch->call = kv_call_of(KV_MULTI_GET, &request, side->deadline_ns);
        batch->call.lane = side->lane;
        batch->call.worker = batch->worker;
        batch->call.request = memory;
        batch->call.request_bytes = batch->request_bytes;
        batch->call.result = memory + batch->request_bytes;
        batch->call.room = batch->room;
        kv_request_save(KV_MULTI_GET, &request, memory);
        batch->key_at = memory + kv_request_bytes(KV_MULTI_GET, &request);
        batch->result_at = 0;
        memory += batch->request_bytes + batch->room;
    }
    for (size_t i = 0; i < many->count; i++) {
        if (many->batch_of[i] == NO_BATCH)
            continue;
        struct batch *batch = &many->batches[many->batch_of[i]];
        kv_key_save(&many->gets[i], share_of(batch, &many->gets[i]), batch->key_at);
        batch->key_at += kv_key_bytes(many->gets[i].key_len);
    }
}

/* Take a key's item of a result. The get stays NOT_YET if its value is longer than the share that was asked for, but not
 * than the caller's room. */
static void take_item(const struct kv_item *item, struct tarn_get *one)
{
    if (item->status == -ENOBUFS && item->info.value_bytes <= one->value_room)
        return;
    one->error = item->bytes > one->value_room ? -EPROTO : item->status;
    if (one->error != 0 && one->error != -ENOBUFS)
        return;
    one->info = item->info;
    if (item->bytes > 0)
        memcpy(one->value, item->value, item->bytes);
}

/* Take the next item of a batch's result. */
static void take_next(struct batch *batch, struct tarn_get *one)
{
    struct kv_call *call = &batch->call;
    struct kv_item item;
    if (call->error != 0)
        return;
    const size_t bytes =
        kv_got_load(call->result + batch->result_at, call->result_bytes - batch->result_at, &item);
    if (bytes == 0) {
        call->error = -EPROTO;
        return;
    }
    take_item(&item, one);
    batch->result_at += bytes;
}

/* Take the answers of all batches; a server's failure becomes that of its other keys. */
static void take_answers(struct many *many)
{
    for (size_t i = 0; i < many->count; i++) {
        if (many->batch_of[i] != NO_BATCH)
            take_next(&many->batches[many->batch_of[i]], &many->gets[i]);
    }
    for (uint32_t i = 0; i < many->batch_count; i++) {
        const struct batch *batch = &many->batches[i];
        struct side *side = &many->sides[batch->server];
        const bool is_short = batch->call.error == 0 && batch->result_at != batch->call.result_bytes;
        const int error = is_short ? -EPROTO : batch->call.error;
        if (error != 0 && error != -EXDEV) { /* after -EXDEV each key is asked for alone */
            side->state = FAILED;
            side->error = error;
        }
    }
}

static int run_turn(struct many *many)
{
    struct kv_call *calls[TURN_BATCHES];
    uint64_t bytes = 0;
    for (size_t i = 0; i < many->count; i++) {
        if (many->batch_of[i] != NO_BATCH) {
            struct batch *batch = &many->batches[many->batch_of[i]];
            batch->room += KV_ITEM_BYTES + share_of(batch, &many->gets[i]);
        }
    }
    for (uint32_t i = 0; i < many->batch_count; i++) {
        calls[i] = &many->batches[i].call;
        bytes += many->batches[i].request_bytes + many->batches[i].room;
    }
    uint8_t *memory = base_alloc(many->account, bytes);
    if (memory == NULL)
        return -ENOMEM;
    save_requests(many, memory);
    kv_lane_call_many(calls, many->batch_count);
    take_answers(many);
    base_free(many->account, memory, bytes);
    return 0;
}

/* Get all keys of the servers that are ready. @return 0; -ENOMEM */
static int run_turns(struct many *many, struct tarn_get *gets, size_t count)
{
    int error = 0;
    for (size_t done = 0; done < count && error == 0; done += many->count) {
        if (plan_turn(many, gets + done, count - done))
            error = run_turn(many);
    }
    return error;
}

/* ---- servers ------------------------------------------------------------------------------------ */

static void note_state(struct side *side, enum state state, int error)
{
    side->state = error == 0 ? READY : state;
    side->error = error;
}

/* Take the lanes of servers that have keys, in the same order as all callers do. @return number of these servers */
static uint32_t take_lanes(struct many *many, const struct tarn_get *gets, size_t count)
{
    uint32_t needed = 0;
    for (size_t i = 0; i < count; i++) {
        if (gets[i].error == NOT_YET)
            side_of(many, &gets[i])->state = WAITING;
    }
    for (uint32_t i = 0; i < many->servers->count; i++) {
        struct side *side = &many->sides[i];
        if (side->state == UNUSED)
            continue;
        side->deadline_ns = kv_deadline(many->servers->remotes[i]);
        int error = kv_lane_take(many->servers->remotes[i], side->deadline_ns, &side->lane);
        note_state(side, FAILED, error);
        needed += error == 0;
    }
    return needed;
}

/* Learn the routing of the servers that answer at once. @return number of servers that do not */
static uint32_t meet_lanes(struct many *many, uint32_t needed)
{
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < many->servers->count; i++) {
        struct side *side = &many->sides[i];
        if (side->state != READY)
            continue;
        note_state(side, WAITING,
                   kv_lane_route_once(side->lane, kv_share_of_time(side->deadline_ns, needed--)));
        waiting += side->state == WAITING;
    }
    return waiting;
}

/* Wait for the remaining servers after the others have answered, each for its share of the remaining time. */
static void wait_for_lanes(struct many *many, uint32_t waiting)
{
    for (uint32_t i = 0; i < many->servers->count; i++) {
        struct side *side = &many->sides[i];
        if (side->state == WAITING)
            note_state(side, FAILED,
                       kv_lane_route(side->lane, kv_share_of_time(side->deadline_ns, --waiting)));
    }
}

static int ask_servers(struct many *many, struct tarn_get *gets, size_t count)
{
    const uint32_t waiting = meet_lanes(many, take_lanes(many, gets, count));
    int error = run_turns(many, gets, count);
    if (waiting > 0 && error == 0) {
        wait_for_lanes(many, waiting);
        error = run_turns(many, gets, count);
    }
    for (uint32_t i = 0; i < many->servers->count; i++) {
        if (many->sides[i].lane != NULL)
            kv_lane_give(many->sides[i].lane);
    }
    return error;
}

/* ---- the rest ----------------------------------------------------------------------------------- */

static void get_alone(struct kv_remote *remote, struct tarn_get *one)
{
    struct tarn_record_info info;
    one->error =
        remote->kv.operations->get(&remote->kv, one->key, one->key_len, one->value, one->value_room, &info);
    if (one->error == 0 || one->error == -ENOBUFS)
        one->info = info;
}

void kv_get_many(const struct kv_servers *servers, struct tarn_get *gets, size_t count)
{
    struct kv_remote *first = servers->remotes[0];
    const size_t bytes = sizeof(struct many) + servers->count * sizeof(struct side);
    struct many *many = count > 1 ? base_alloc(&first->kv.node->memory, bytes) : NULL;
    int error = count > 1 && many == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < count; i++)
        gets[i].error = gets[i].key_len > 0 && gets[i].key_len <= TARN_KEY_BYTES_MAX ? NOT_YET : -EINVAL;
    if (many != NULL) {
        many->servers = servers;
        many->account = &first->kv.node->memory;
        error = ask_servers(many, gets, count);
    }
    for (size_t i = 0; i < count; i++) {
        const struct side *side = many != NULL && error == 0 ? side_of(many, &gets[i]) : NULL;
        if (gets[i].error != NOT_YET)
            continue;
        if (error != 0 || (side != NULL && side->state == FAILED))
            gets[i].error = error != 0 ? error : side->error;
        else
            get_alone(servers->remotes[kv_server_of(servers, gets[i].key, gets[i].key_len)], &gets[i]);
    }
    if (many != NULL)
        base_free(many->account, many, bytes);
}
