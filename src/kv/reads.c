/* Clients that read an ordered store by themselves: a connection for READs for each lane, and searches over it. */
#include "fabric/fabric.h"
#include "kv/remote.h"
#include "tree/reader.h"
#include "tree/record.h"
#include <errno.h>
#include <string.h>

#define READS_TAG    3u                 /* under which the fabric counts these READs */
#define SEARCHES_MAX 64u                /* of a lane at once; others ask */
#define TORN_MAX     16u                /* records of one search that changed while they were read */
#define PAUSE_NS     BASE_NS_PER_SECOND /* before a connection is tried again that could not be had */

/* A region of the server's, and the handles of its steps. */
struct steps {
    struct tarn_fabric_handle handles[TREE_STEPS_MAX];
    uint32_t count;
};

/* A search, which one task has at a time. */
struct search {
    struct base_list link; /* place among those that nobody has */
    struct kv_lane *lane;
    struct kv_reads *reads;
    struct tree_reader *reader;
    uint64_t deadline_ns;
};

struct kv_reads {
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_connection *connection;
    uint64_t step_bytes;
    uint32_t unit_bytes;
    struct tree_cache *cache; /* of nodes */
    uint32_t users;           /* searches, and the lane while it has this */
    bool must_refresh;        /* there may be more handles */
    uint32_t searches;        /* that were made */
    struct base_list idle;
    struct steps regions[TREE_REGIONS]; /* by number, from 1 on */
};

static struct base_account *account_of(const struct kv_lane *lane)
{
    return &lane->remote->kv.node->memory;
}

static void add_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

/* ---- a connection for READs ------------------------------------------------------------------------ */

static void free_reads(struct kv_lane *lane, struct kv_reads *reads)
{
    while (!base_list_empty(&reads->idle)) {
        struct search *search = base_container_of(base_list_pop_front(&reads->idle), struct search, link);
        tree_reader_close(search->reader);
        base_free(account_of(lane), search, sizeof(*search));
    }
    tree_cache_close(reads->cache);
    if (reads->connection != NULL)
        tarn_fabric_disconnect(reads->connection);
    if (reads->domain != NULL)
        tarn_fabric_domain_close(reads->domain);
    base_free(account_of(lane), reads, sizeof(*reads));
}

static void leave_reads(struct kv_lane *lane, struct kv_reads *reads)
{
    if (--reads->users == 0)
        free_reads(lane, reads);
}

/* The connection does not help any more: the next search makes another. */
static void retire_reads(struct kv_lane *lane, struct kv_reads *reads)
{
    if (lane->reads != reads)
        return;
    lane->reads = NULL;
    lane->reads_not_before_ns = task_now() + PAUSE_NS;
    leave_reads(lane, reads);
}

void kv_reads_close(struct kv_lane *lane)
{
    if (lane->reads != NULL)
        retire_reads(lane, lane->reads);
}

/* Learn of further steps of a region. @param ret_store  the store's number at the server */
static int ask_handles(struct kv_lane *lane, struct kv_reads *reads, uint32_t region, uint64_t deadline_ns,
                       uint16_t *ret_store)
{
    struct steps *steps = &reads->regions[region - 1];
    const struct kv_request request = {.amount = region, .offset = steps->count};
    const size_t bytes = kv_request_bytes(KV_HANDLES, &request);
    const size_t room = KV_HANDLES_BYTES + TREE_STEPS_MAX * (size_t)TARN_FABRIC_HANDLE_BYTES;
    struct kv_call call = kv_call_of(KV_HANDLES, &request, deadline_ns);
    struct kv_handles head;
    uint8_t *memory = base_alloc(account_of(lane), bytes + room);
    if (memory == NULL)
        return -ENOMEM;
    call.lane = lane;
    call.request = memory;
    call.request_bytes = (uint32_t)bytes;
    call.result = memory + bytes;
    call.room = (uint32_t)room;
    kv_request_save(KV_HANDLES, &request, call.request);
    int error = kv_lane_call(&call);
    if (error == 0)
        error = kv_handles_load(call.result, call.result_bytes, &head, &steps->handles[steps->count],
                                TREE_STEPS_MAX - steps->count);
    if (error == 0 && reads->step_bytes != 0 &&
        (head.step_bytes != reads->step_bytes || head.unit_bytes != reads->unit_bytes))
        error = -ESTALE; /* another server's */
    if (error == 0) {
        steps->count += head.count;
        reads->step_bytes = head.step_bytes;
        reads->unit_bytes = head.unit_bytes;
        *ret_store = base_load_le16(memory);
    }
    base_free(account_of(lane), memory, bytes + room);
    return error;
}

static int ask_all_handles(struct kv_lane *lane, struct kv_reads *reads, uint64_t deadline_ns,
                           uint16_t *ret_store)
{
    int error = ask_handles(lane, reads, TREE_NODE_REGION, deadline_ns, ret_store);
    return error == 0 ? ask_handles(lane, reads, TREE_RECORD_REGION, deadline_ns, ret_store) : error;
}

static int connect_reads(struct kv_lane *lane, struct kv_reads *reads, uint64_t deadline_ns)
{
    uint8_t hello[KV_READS_BYTES];
    uint16_t store;
    const struct tarn_fabric_connect_options options = {
        .data = hello, .data_bytes = sizeof(hello), .receive_count = 1, .receive_bytes = 8};
    int error = ask_all_handles(lane, reads, deadline_ns, &store);
    if (error == 0 && lane->remote->cache_bytes > 0)
        error = tree_cache_open(account_of(lane), lane->remote->cache_bytes, &reads->cache);
    if (error == 0)
        error = tarn_fabric_domain_open(lane->remote->fabric, NULL, &reads->domain);
    if (error == 0) {
        kv_reads_hello_save(store, hello);
        error = tarn_fabric_connect(reads->domain, lane->remote->address, &options, deadline_ns,
                                    &reads->connection);
    }
    return error;
}

/* Make a connection for READs. reads_mutex is held. @return NULL: it cannot be had now */
static struct kv_reads *make_reads(struct kv_lane *lane, uint64_t deadline_ns)
{
    if (lane->reads != NULL || task_now() < lane->reads_not_before_ns)
        return lane->reads;
    struct kv_reads *reads = base_alloc(account_of(lane), sizeof(*reads));
    if (reads == NULL)
        return NULL;
    reads->users = 1;
    base_list_init(&reads->idle);
    if (connect_reads(lane, reads, deadline_ns) != 0) {
        free_reads(lane, reads);
        lane->reads_not_before_ns = task_now() + PAUSE_NS;
        return NULL;
    }
    lane->reads = reads;
    return reads;
}

/* Have a connection for READs that knows what the server has. @return NULL: it cannot be had now */
static struct kv_reads *use_reads(struct kv_lane *lane, uint64_t deadline_ns)
{
    struct kv_reads *reads = lane->reads;
    uint16_t store;
    if (reads != NULL && !reads->must_refresh)
        return reads;
    if (task_mutex_lock(&lane->reads_mutex, deadline_ns) != 0)
        return NULL;
    reads = make_reads(lane, deadline_ns);
    if (reads != NULL && reads->must_refresh) {
        reads->must_refresh = false;
        reads->users++;
        if (ask_all_handles(lane, reads, deadline_ns, &store) != 0)
            retire_reads(lane, reads);
        leave_reads(lane, reads);
    }
    task_mutex_unlock(&lane->reads_mutex);
    return lane->reads;
}

/* ---- READs ----------------------------------------------------------------------------------------- */

/* The step of a region that has some bytes. @return 0; -ERANGE: there is no such region; -ESTALE: there is no such step */
static int find_step(const struct kv_reads *reads, uint32_t region, uint64_t offset,
                     const struct tarn_fabric_handle **ret_handle)
{
    if (region == 0 || region > TREE_REGIONS)
        return -ERANGE;
    const struct steps *steps = &reads->regions[region - 1];
    if (offset / reads->step_bytes >= steps->count)
        return -ESTALE;
    *ret_handle = &steps->handles[offset / reads->step_bytes];
    return 0;
}

/* READ bytes of a region. @return 0; as find_step(); an error that ended the connection */
static int read_bytes(const struct search *search, uint32_t region, uint64_t offset, void *memory,
                      uint64_t bytes)
{
    const struct kv_reads *reads = search->reads;
    const struct tarn_fabric_handle *handle;
    uint8_t *to = memory;
    while (bytes > 0) {
        const uint64_t at = offset % reads->step_bytes;
        const uint64_t part = base_min(base_min(bytes, reads->step_bytes - at), TARN_FABRIC_BYTES_MAX);
        int error = find_step(reads, region, offset, &handle);
        if (error == 0)
            error = tarn_fabric_read(reads->connection, READS_TAG, handle, at, to, part, search->deadline_ns);
        if (error != 0)
            return error;
        offset += part;
        to += part;
        bytes -= part;
    }
    return 0;
}

/* READ for the reader of nodes, and tell the selector how long it took. */
static int read_node(void *arg, uint32_t region, uint64_t offset, void *memory, uint32_t bytes)
{
    const struct search *search = arg;
    if (search->lane->selector.settings.reads_are_work) /* the whole search is timed */
        return read_bytes(search, region, offset, memory, bytes);
    const uint64_t begin_ns = task_now();
    int error = read_bytes(search, region, offset, memory, bytes);
    if (error == 0)
        tree_selector_read(&search->lane->selector, task_now() - begin_ns);
    return error;
}

/* READ the parts of a record: at once, where no step ends within it. */
static int read_parts(const struct search *search, uint64_t offset, struct tree_record *header, void *value,
                      uint32_t bytes)
{
    const struct kv_reads *reads = search->reads;
    const struct iovec iov[] = {{.iov_base = header, .iov_len = sizeof(*header)},
                                {.iov_base = value, .iov_len = bytes}};
    struct tarn_fabric_op op = {.kind = TARN_FABRIC_READ,
                                .tag = READS_TAG,
                                .offset = offset % reads->step_bytes,
                                .iov = iov,
                                .iov_count = base_array_count(iov)};
    const uint64_t all = sizeof(*header) + (uint64_t)bytes;
    if (op.offset + all <= reads->step_bytes && all <= TARN_FABRIC_BYTES_MAX) {
        int error = find_step(reads, TREE_RECORD_REGION, offset, &op.handle);
        return error == 0 ? fabric_run(reads->connection, &op, search->deadline_ns) : error;
    }
    int error = read_bytes(search, TREE_RECORD_REGION, offset, header, sizeof(*header));
    return error == 0 ? read_bytes(search, TREE_RECORD_REGION, offset + sizeof(*header), value, bytes)
                      : error;
}

/* READ a record whose leaf has been read. @return 0; -EBADMSG: it is another one by now; KV_ASK; as read_bytes() */
static int read_record(const struct search *search, struct tree_value found, void *value, size_t room,
                       struct tarn_record_info *ret_info)
{
    struct tree_record header;
    const uint64_t offset = tree_place_offset(found.place);
    if (found.place >> 32 != TREE_RECORD_REGION)
        return -EBADMSG;
    if (found.sum == 0 || found.bytes > room)
        return KV_ASK; /* it is not stored yet, or its properties alone are wanted */
    int error = read_parts(search, offset, &header, value, found.bytes);
    if (error != 0)
        return error;
    if (tree_record_sum(found.place, &header, value, found.bytes) != found.sum)
        return -EBADMSG;
    if (header.version == 0 || header.expiry_ns != 0)
        return KV_ASK; /* the server's clock counts */
    *ret_info = tree_record_info(&header, found.bytes);
    return 0;
}

/* ---- searches -------------------------------------------------------------------------------------- */

static struct search *make_search(struct kv_lane *lane, struct kv_reads *reads)
{
    if (!base_list_empty(&reads->idle))
        return base_container_of(base_list_pop_front(&reads->idle), struct search, link);
    struct search *search =
        reads->searches == SEARCHES_MAX ? NULL : base_alloc(account_of(lane), sizeof(*search));
    if (search == NULL)
        return NULL;
    const struct tree_reader_options options = {.account = account_of(lane),
                                                .read = read_node,
                                                .arg = search,
                                                .region = TREE_NODE_REGION,
                                                .unit_bytes = reads->unit_bytes,
                                                .cache = reads->cache};
    search->lane = lane;
    search->reads = reads;
    if (tree_reader_open(&options, &search->reader) != 0) {
        base_free(account_of(lane), search, sizeof(*search));
        return NULL;
    }
    reads->searches++;
    return search;
}

/* Begin a search. @return NULL: the server is to be asked */
static struct search *begin_search(struct kv_lane *lane, uint64_t deadline_ns)
{
    struct kv_reads *reads = use_reads(lane, deadline_ns);
    struct search *search = reads == NULL ? NULL : make_search(lane, reads);
    if (search == NULL)
        return NULL;
    search->deadline_ns = deadline_ns;
    reads->users++;
    return search;
}

/* End a search. @return its outcome; KV_ASK for whatever went wrong with reading */
static int end_search(struct search *search, int error)
{
    struct kv_lane *lane = search->lane;
    struct kv_reads *reads = search->reads;
    const bool is_there = fabric_peer_is_there(reads->connection);
    if (error == -ESTALE)
        reads->must_refresh = true;
    if (!is_there)
        retire_reads(lane, reads);
    base_list_push_front(&reads->idle, &search->link);
    leave_reads(lane, reads);
    if (!task_is_thread())
        task_yield(); /* READs that end at once would keep the scheduler from tasks that wait for answers */
    return is_there && (error == 0 || error == -ENOENT) ? error : KV_ASK;
}

bool kv_reads_chosen(struct kv_lane *lane)
{
    struct kv_remote *remote = lane->remote;
    const uint64_t explored = lane->selector.explored;
    bool reads = remote->way == TARN_KV_WAY_READ;
    if (!remote->is_shared || (lane->reads == NULL && task_now() < lane->reads_not_before_ns))
        return false;
    if (remote->way == TARN_KV_WAY_ADAPTIVE)
        reads = tree_selector_reads(&lane->selector, task_now(), task_rng(remote->kv.node));
    add_count(reads ? &remote->counters.searched : &remote->counters.asked, 1);
    add_count(&remote->counters.explored, lane->selector.explored - explored);
    return reads;
}

int kv_reads_get(struct kv_lane *lane, struct tree_key key, void *value, size_t value_room,
                 uint64_t deadline_ns, struct tarn_record_info *ret_info)
{
    struct kv_reads_counters *counters = &lane->remote->counters;
    struct search *search = begin_search(lane, deadline_ns);
    struct tree_reader_stats before, after;
    struct tree_value found;
    const uint64_t begin_ns = task_now(); /* without the time that a connection takes */
    int error = -EBADMSG;
    if (search != NULL) {
        tree_reader_stats(search->reader, &before);
        for (uint32_t i = 0; i < TORN_MAX && error == -EBADMSG; i++) {
            error = tree_reader_get(search->reader, key, &found);
            if (error == 0)
                error = read_record(search, found, value, value_room, ret_info);
        }
        tree_reader_stats(search->reader, &after);
        add_count(&counters->reads, after.reads - before.reads);
        add_count(&counters->torn, after.torn - before.torn);
        add_count(&counters->cached, after.cached - before.cached);
        tree_selector_searched(&lane->selector, (uint32_t)(after.reads - before.reads + 1),
                               task_now() - begin_ns);
        error = end_search(search, error);
    }
    if (search == NULL || error == KV_ASK) {
        add_count(&counters->fallbacks, 1);
        return KV_ASK;
    }
    return error;
}

/* ---- ranges ---------------------------------------------------------------------------------------- */

/* Take a record of a leaf. */
static int take_row(void *arg, struct tree_key key, struct tree_value found)
{
    struct kv_rows *rows = arg;
    if (rows->after && tree_key_compare(key, *rows->from) == 0)
        return 0;
    const bool is_long = found.bytes > KV_SCAN_VALUE_MAX;
    if (rows->count == rows->wanted || (!is_long && found.bytes > sizeof(rows->values) - rows->bytes)) {
        rows->is_end = false;
        return 1;
    }
    struct kv_row *row = &rows->rows[rows->count++];
    row->must_ask = is_long || found.sum == 0 || found.place >> 32 != TREE_RECORD_REGION;
    row->key_len = key.count;
    memcpy(row->key, key.bytes, key.count);
    row->found = found;
    row->value_at = rows->bytes;
    rows->bytes += row->must_ask ? 0 : found.bytes;
    return 0;
}

/* READ the records of rows, all at once. @return 0; the error that ended the connection */
static int read_rows(const struct search *search, struct kv_rows *rows)
{
    const struct kv_reads *reads = search->reads;
    struct tarn_fabric_op ops[KV_ROWS_MAX] = {{.kind = TARN_FABRIC_READ}};
    struct iovec iov[KV_ROWS_MAX][2];
    uint32_t count = 0;
    for (uint32_t i = 0; i < rows->count; i++) {
        struct kv_row *row = &rows->rows[i];
        const uint64_t offset = tree_place_offset(row->found.place), at = offset % reads->step_bytes;
        const struct tarn_fabric_handle *handle;
        if (row->must_ask || at + sizeof(row->header) + row->found.bytes > reads->step_bytes ||
            find_step(reads, TREE_RECORD_REGION, offset, &handle) != 0) {
            row->must_ask = true;
            continue;
        }
        iov[count][0] = (struct iovec){.iov_base = row->header, .iov_len = sizeof(row->header)};
        iov[count][1] = (struct iovec){.iov_base = rows->values + row->value_at, .iov_len = row->found.bytes};
        ops[count] = (struct tarn_fabric_op){.kind = TARN_FABRIC_READ,
                                             .tag = READS_TAG,
                                             .handle = handle,
                                             .offset = at,
                                             .iov = iov[count],
                                             .iov_count = 2};
        count++;
    }
    tarn_fabric_post(reads->connection, ops, count);
    return tarn_fabric_wait(ops, count, search->deadline_ns);
}

/* See which records are what their leaf says. */
static void prove_rows(struct kv_rows *rows)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        struct kv_row *row = &rows->rows[i];
        const struct tree_value *found = &row->found;
        const struct tree_record *header = (const struct tree_record *)(const void *)row->header;
        if (row->must_ask)
            continue;
        row->must_ask =
            tree_record_sum(found->place, header, rows->values + row->value_at, found->bytes) != found->sum ||
            header->version == 0 || header->expiry_ns != 0;
        row->info = tree_record_info(header, found->bytes);
    }
}

int kv_reads_rows(struct kv_lane *lane, struct kv_rows *rows, uint64_t deadline_ns)
{
    struct search *search = begin_search(lane, deadline_ns);
    rows->count = rows->bytes = 0;
    rows->is_end = true;
    int error = -EBADMSG;
    if (search != NULL) {
        error = tree_reader_range(search->reader, rows->from, rows->below, take_row, rows);
        if (error >= 0)
            error = read_rows(search, rows);
        if (error == 0)
            prove_rows(rows);
        error = end_search(search, error);
    }
    if (error != 0)
        add_count(&lane->remote->counters.fallbacks, 1);
    return error == 0 ? 0 : KV_ASK;
}
