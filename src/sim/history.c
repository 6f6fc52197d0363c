/* Histories: recording operations of several clients, and merging their logs by time. */
#include "sim/history.h"

#include <errno.h>

int sim_history_init(struct sim_history *history, struct base_account *account, uint32_t clients,
                     size_t records_max)
{
    size_t record_bytes;
    if (__builtin_mul_overflow(records_max, sizeof(struct sim_history_record), &record_bytes))
        return -ENOMEM;
    struct sim_history made = {.account = account, .clients = clients, .records_max = records_max};
    made.logs = base_alloc(account, clients * sizeof(*made.logs));
    if (made.logs == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < clients; i++) {
        made.logs[i].records = base_alloc(account, record_bytes);
        if (made.logs[i].records == NULL) {
            sim_history_deinit(&made);
            return -ENOMEM;
        }
    }
    *history = made;
    return 0;
}

void sim_history_deinit(struct sim_history *history)
{
    for (uint32_t i = 0; i < history->clients; i++)
        base_free(history->account, history->logs[i].records,
                  history->records_max * sizeof(struct sim_history_record));
    base_free(history->account, history->logs, history->clients * sizeof(*history->logs));
    history->logs = NULL;
}

int64_t sim_history_invoke(struct sim_history *history, uint32_t client, uint32_t operation, uint64_t key,
                           uint64_t argument, uint64_t now_ns)
{
    base_assert(client < history->clients);
    struct sim_history_log *log = &history->logs[client];
    if (log->count == history->records_max)
        return -ENOSPC;
    base_assert(log->count == 0 || log->records[log->count - 1].invoke_ns <= now_ns);
    log->records[log->count] = (struct sim_history_record){
        .client = client,
        .operation = operation,
        .key = key,
        .argument = argument,
        .pending = true,
        .invoke_ns = now_ns,
        .return_ns = UINT64_MAX,
    };
    return (int64_t)log->count++;
}

void sim_history_return(struct sim_history *history, uint32_t client, int64_t index, int error,
                        uint64_t result, uint64_t now_ns)
{
    base_assert(client < history->clients);
    struct sim_history_log *log = &history->logs[client];
    base_assert(index >= 0 && (size_t)index < log->count);
    struct sim_history_record *record = &log->records[index];
    base_assert(record->pending && record->invoke_ns <= now_ns);
    record->pending = false;
    record->error = error;
    record->result = result;
    record->return_ns = now_ns;
}

size_t sim_history_count(const struct sim_history *history)
{
    size_t count = 0;
    for (uint32_t i = 0; i < history->clients; i++)
        count += history->logs[i].count;
    return count;
}

/* Each log is in order already: merge them through a heap of their next records. */
size_t sim_history_merge(struct sim_history *history, struct sim_history_record *ret_records, size_t room)
{
    struct base_heap heap;
    base_heap_init(&heap);
    for (uint32_t i = 0; i < history->clients; i++) {
        struct sim_history_log *log = &history->logs[i];
        log->merged = 0;
        if (log->count > 0)
            base_heap_insert(&heap, &log->node, log->records[0].invoke_ns);
    }
    size_t count = 0;
    for (struct base_heap_node *node; count < room && (node = base_heap_pop(&heap)) != NULL;) {
        struct sim_history_log *log = base_container_of(node, struct sim_history_log, node);
        ret_records[count++] = log->records[log->merged++];
        if (log->merged < log->count)
            base_heap_insert(&heap, &log->node, log->records[log->merged].invoke_ns);
    }
    return count;
}
