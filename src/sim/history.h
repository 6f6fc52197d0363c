/*
 * A recorder of operation histories, for checks of linearizability. Each client has a log of its own, of a
 * fixed size, and is written by one thread at a time; different clients need no lock. Reading (count, merge)
 * waits until the writers have ended. The caller passes the times.
 */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include "base/account.h"
#include "base/heap.h"

struct sim_history_record {
    uint32_t client;
    uint32_t operation; /* the caller's number for get, put, ... */
    uint64_t key;       /* the caller's number for the key */
    uint64_t argument;  /* the caller's number for the value given; 0 if none */
    uint64_t result;    /* the caller's number for the value returned; 0 if none */
    int32_t error;      /* 0 or a negative errno */
    bool pending;       /* no return was seen: it may have taken effect, or not, or will */
    uint64_t invoke_ns;
    uint64_t return_ns; /* UINT64_MAX while pending */
};

struct sim_history_log {
    struct sim_history_record *records;
    size_t count;
    size_t merged;              /* while merging: records taken */
    struct base_heap_node node; /* while merging */
};

struct sim_history {
    struct base_account *account;
    struct sim_history_log *logs;
    uint32_t clients;
    size_t records_max; /* of each client */
};

/**
 * Make a recorder; takes all its memory now.
 *
 * @param account      outlives it
 * @param clients      number of clients, 0 to clients - 1
 * @param records_max  operations of each
 * @return 0; -ENOMEM
 */
int sim_history_init(struct sim_history *history, struct base_account *account, uint32_t clients,
                     size_t records_max) base_must_check;

/**
 * Free a recorder.
 */
void sim_history_deinit(struct sim_history *history);

/**
 * Note that an operation begins. One thread at a time for each client.
 *
 * @param now_ns  not before the client's previous one
 * @return index for sim_history_return; -ENOSPC (the client's log is full)
 */
int64_t sim_history_invoke(struct sim_history *history, uint32_t client, uint32_t operation, uint64_t key,
                           uint64_t argument, uint64_t now_ns) base_must_check;

/**
 * Note that an operation ended. Without this call it stays pending: for outcomes that nobody knows.
 *
 * @param index   what sim_history_invoke returned
 * @param error   0 or a negative errno
 * @param result  number of the value returned
 */
void sim_history_return(struct sim_history *history, uint32_t client, int64_t index, int error,
                        uint64_t result, uint64_t now_ns);

/**
 * Number of operations of all clients.
 */
size_t sim_history_count(const struct sim_history *history);

/**
 * Write all operations to one array, ordered by the time of invocation; equal times in an order that depends
 * only on the records.
 *
 * @param ret_records, room  destination, in records
 * @return records written: the smaller of room and sim_history_count
 */
size_t sim_history_merge(struct sim_history *history, struct sim_history_record *ret_records, size_t room);

#endif
