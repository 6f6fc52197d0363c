/*
 * Scans that clients have begun. A store's scan calls a visitor, so each client's scan has a task, which fills a page and
 * waits until the next one is wanted:
 *
 *   the task:     fill ── full ──▶ post `ready`, wait for `wanted` ──▶ fill …   ── all seen ──▶ is_over, post `ready`
 *   a request:    the present page: wait for `ready`, copy      the next page: post `wanted`, wait for `ready`, copy
 */
#include "kv/service.h"
#include "task/task.h"
#include <errno.h>
#include <string.h>

struct kv_scan {
    struct base_list link; /* place in kv_scans.list */
    struct tarn_node *node;
    struct tarn_kv *kv;
    uint64_t id;
    uint64_t
        used_ns; /* time of the last request; 0: no more will come. kv_scans.lock guards this and `users` */
    uint32_t users; /* number of requests that use the scan now */
    uint32_t worker;
    uint16_t store;
    struct task_group group; /* joins the scan's task */
    struct task_mutex mutex; /* held by the request that asks; protects the fields below */
    struct task_semaphore ready, wanted;
    uint32_t number; /* number of the present page */
    bool is_ready;   /* the present page is complete: `ready` was waited for */
    _Atomic bool is_abandoned;
    bool is_over; /* the task uses this and the fields below, until it posts `ready` */
    int outcome;
    struct kv_filling filling;
    uint8_t page[];
};

/* ---- the task ----------------------------------------------------------------------------------- */

static void wait_firmly(struct task_semaphore *semaphore)
{
    while (task_semaphore_wait(semaphore, TASK_FOREVER) != 0)
        continue;
}

static int visit_record(void *arg, const void *key, size_t key_len, const void *value,
                        const struct tarn_record_info *info)
{
    struct kv_scan *scan = arg;
    if (scan->is_abandoned)
        return -ECANCELED;
    if (kv_filling_add(&scan->filling, key, key_len, value, info))
        return 0;
    task_semaphore_post(&scan->ready);
    wait_firmly(&scan->wanted);
    if (scan->is_abandoned)
        return -ECANCELED;
    kv_filling_empty(&scan->filling);
    const bool fits = kv_filling_add(&scan->filling, key, key_len, value, info);
    base_assert(fits); /* begin_scan() has seen to it */
    return 0;
}

static void run_scan(void *arg)
{
    struct kv_scan *scan = arg;
    scan->outcome = tarn_kv_scan(scan->kv, visit_record, scan);
    scan->is_over = true;
    if (scan->outcome == 0)
        scan->filling.head.scan = 0;
    task_semaphore_post(&scan->ready);
}

/* ---- beginning and end -------------------------------------------------------------------------- */

static void free_scan(struct kv_scan *scan)
{
    base_free(&scan->node->memory, scan, sizeof(*scan) + scan->filling.room);
}

/* End a scan that is in no list any more. */
static void end_scan(struct kv_scan *scan)
{
    scan->is_abandoned = true;
    task_semaphore_post(&scan->wanted);
    task_group_join_firmly(&scan->group);
    free_scan(scan);
}

static uint32_t count_users(struct kv_scans *scans, const struct kv_scan *scan)
{
    base_spin_lock(&scans->lock);
    const uint32_t users = scan->users;
    base_spin_unlock(&scans->lock);
    return users;
}

void kv_scans_init(struct kv_scans *scans)
{
    base_spin_init(&scans->lock);
    base_list_init(&scans->list);
    scans->count = 0;
    scans->is_closed = false;
}

void kv_scans_end(struct kv_scans *scans)
{
    for (;;) {
        base_spin_lock(&scans->lock);
        scans->is_closed = true;
        struct base_list *first = base_list_empty(&scans->list) ? NULL : base_list_pop_front(&scans->list);
        base_spin_unlock(&scans->lock);
        if (first == NULL)
            return;
        struct kv_scan *scan = base_container_of(first, struct kv_scan, link);
        scan->is_abandoned = true;
        task_semaphore_post(&scan->wanted);
        while (count_users(scans, scan) > 0)
            (void)task_sleep(BASE_NS_PER_MS);
        end_scan(scan);
    }
}

static bool may_go(const struct kv_scan *scan, uint64_t now_ns)
{
    return scan->users == 0 && (scan->used_ns == 0 || now_ns - scan->used_ns > KV_SCAN_IDLE_NS);
}

/* Reserve a place for one more scan. @return 0; -EBUSY */
static int take_place(struct kv_scans *scans)
{
    const uint64_t now_ns = task_now();
    struct kv_scan *victim = NULL;
    base_spin_lock(&scans->lock);
    bool is_free = scans->count < KV_SCANS_MAX;
    if (is_free)
        scans->count++;
    base_list_for_each(item, &scans->list) {
        struct kv_scan *scan = base_container_of(item, struct kv_scan, link);
        if (!is_free && may_go(scan, now_ns)) {
            victim = scan;
            break;
        }
    }
    if (victim != NULL)
        base_list_remove(&victim->link);
    base_spin_unlock(&scans->lock);
    if (victim != NULL)
        end_scan(victim);
    return is_free || victim != NULL ? 0 : -EBUSY;
}

/* Add a scan to the list. @return false: the server is closing */
static bool add_scan(struct kv_scans *scans, struct kv_scan *scan)
{
    base_spin_lock(&scans->lock);
    const bool is_open = !scans->is_closed;
    if (is_open)
        base_list_push_back(&scans->list, &scan->link);
    base_spin_unlock(&scans->lock);
    return is_open;
}

static void give_place(struct kv_scans *scans)
{
    base_spin_lock(&scans->lock);
    scans->count--;
    base_spin_unlock(&scans->lock);
}

static struct kv_scan *make_scan(struct kv_server *server, uint32_t worker, const struct kv_request *request,
                                 uint32_t room)
{
    struct kv_scan *scan = base_alloc(&server->node->memory, sizeof(*scan) + room);
    if (scan == NULL)
        return NULL;
    *scan =
        (struct kv_scan){.node = server->node,
                         .kv = server->stores[request->store].kv,
                         .worker = worker,
                         .store = request->store,
                         .users = 1,
                         .filling = {.page = scan->page, .room = room, .value_room = request->value_room}};
    kv_filling_empty(&scan->filling);
    while (scan->id == 0)
        scan->id = task_rng(server->node);
    scan->filling.head.scan = scan->id;
    task_group_init(&scan->group);
    task_mutex_init(&scan->mutex);
    task_semaphore_init(&scan->ready, 0);
    task_semaphore_init(&scan->wanted, 0);
    return scan;
}

/* Begin a scan, which the caller uses. */
static int begin_scan(struct kv_server *server, uint32_t worker, const struct kv_request *request,
                      uint32_t room, struct kv_scan **ret_scan)
{
    room = base_min(room, KV_SCAN_BYTES_MAX);
    if (!kv_page_has_room(room, request->value_room))
        return -EMSGSIZE;
    if ((server->stores[request->store].kv->info.abilities & TARN_KV_SCANS) == 0)
        return -EOPNOTSUPP;
    int error = take_place(&server->scans);
    if (error != 0)
        return error;
    struct kv_scan *scan = make_scan(server, worker, request, room);
    error = scan == NULL ? -ENOMEM : task_spawn(NULL, &scan->group, "kv-scan", run_scan, scan);
    if (error != 0) {
        if (scan != NULL)
            free_scan(scan);
        give_place(&server->scans);
        return error;
    }
    if (!add_scan(&server->scans, scan)) {
        end_scan(scan);
        return -ESHUTDOWN;
    }
    *ret_scan = scan;
    return 0;
}

/* Find a client's scan of this worker. @return NULL: there is none */
static struct kv_scan *find_scan(struct kv_scans *scans, uint32_t worker, const struct kv_request *request)
{
    struct kv_scan *found = NULL;
    base_spin_lock(&scans->lock);
    base_list_for_each(item, &scans->list) {
        struct kv_scan *scan = base_container_of(item, struct kv_scan, link);
        if (scan->id == request->scan && scan->worker == worker && scan->store == request->store)
            found = scan;
    }
    if (found != NULL)
        found->users++;
    base_spin_unlock(&scans->lock);
    return found;
}

/* Stop using a scan. @param is_last  no further page will be asked for @param ends  the scan ends now */
static void leave_scan(struct kv_scans *scans, struct kv_scan *scan, bool is_last, bool ends)
{
    base_spin_lock(&scans->lock);
    scan->users--;
    scan->used_ns = is_last ? 0 : task_now();
    ends = ends && scan->users == 0 && base_list_is_linked(&scan->link);
    if (ends) {
        base_list_remove(&scan->link);
        scans->count--;
    }
    base_spin_unlock(&scans->lock);
    if (ends)
        end_scan(scan);
}

/* ---- pages -------------------------------------------------------------------------------------- */

/* Wait for the page of a number. Called with the mutex held. */
static int await_page(struct kv_scan *scan, uint32_t number, uint64_t deadline_ns)
{
    if (number == scan->number + 1 && scan->is_ready && (!scan->is_over || scan->outcome != 0)) {
        scan->number = number;
        if (scan->is_over) { /* the page behind the last records; of a failed scan it has the error */
            scan->filling.head.count = 0;
        } else {
            scan->is_ready = false;
            task_semaphore_post(&scan->wanted);
        }
    }
    if (number != scan->number)
        return -ESTALE;
    if (!scan->is_ready) {
        int error = task_semaphore_wait(&scan->ready, deadline_ns);
        if (error != 0)
            return error;
        scan->is_ready = true;
    }
    return scan->is_over && scan->outcome != 0 && scan->filling.head.count == 0 ? scan->outcome : 0;
}

static int take_page(struct kv_scan *scan, const struct kv_request *request,
                     struct tarn_rpc_request *exchange, bool *ret_last)
{
    int error = task_mutex_lock(&scan->mutex, exchange->deadline_ns);
    if (error != 0)
        return error;
    error = await_page(scan, request->amount, exchange->deadline_ns);
    if (error == 0 && scan->filling.bytes > exchange->room)
        error = -EMSGSIZE;
    if (error == 0) {
        kv_page_save(&scan->filling.head, scan->page);
        memcpy(exchange->result, scan->page, scan->filling.bytes);
        exchange->result_bytes = scan->filling.bytes;
    }
    *ret_last = scan->is_ready && scan->is_over && (scan->outcome == 0 || scan->filling.head.count == 0);
    task_mutex_unlock(&scan->mutex);
    return error;
}

int kv_scan_answer(struct kv_server *server, const struct kv_worker *worker, const struct kv_request *request,
                   struct tarn_rpc_request *exchange)
{
    struct kv_scan *scan;
    const bool ends = request->amount == KV_SCAN_NO_MORE;
    bool is_last = ends;
    int error = 0;
    if (request->scan == 0)
        error = request->amount == 0 ? begin_scan(server, worker->place, request, exchange->room, &scan)
                                     : -EINVAL;
    else if ((scan = find_scan(&server->scans, worker->place, request)) == NULL)
        error = -ESTALE;
    if (error != 0)
        return error;
    if (!ends)
        error = take_page(scan, request, exchange, &is_last);
    leave_scan(&server->scans, scan, is_last, ends);
    return error;
}
