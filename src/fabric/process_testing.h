/*
 * What every provider must do between processes: two that work together, one that is stopped, ones that are killed
 * at any point. Children are forked before a test has threads, and wait for their orders.
 */
#ifndef FABRIC_PROCESS_TESTING_H
#define FABRIC_PROCESS_TESTING_H

#include "base/random.h"
#include "fabric/testing.h"
#include <fcntl.h>
#include <sys/prctl.h>

/* What a child is told. */
struct testing_orders {
    char address[108];
    uint64_t seed;
};

struct testing_child {
    pid_t pid;
    int orders; /* a pipe to it */
};

typedef void testing_child_function(struct testing_fabric *testing, const struct testing_orders *orders);

/** Let a child begin. */
void testing_order(const struct testing_child *child, const char *address, uint64_t seed);

/** Wait for a child's end. @return how waitpid() puts it */
int testing_reap(struct testing_child *child);

void testing_run_with(void **state, void (*test)(struct testing_fabric *testing), bool in_tasks,
                      testing_child_function *function, unsigned count);

#define TESTING_WITH_CHILDREN(test, child, count)                                                            \
    static void test##_in_tasks(void **state)                                                                \
    {                                                                                                        \
        testing_run_with(state, test, true, child, count);                                                   \
    }                                                                                                        \
    static void test##_in_threads(void **state)                                                              \
    {                                                                                                        \
        testing_run_with(state, test, false, child, count);                                                  \
    }

/* ---- meeting a child ---------------------------------------------------------------------------- */

extern const uint32_t all_rights;

/* The parent's side. */
struct testing_host {
    struct testing_fabric *testing;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    struct tarn_fabric_listener *listener;
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_handle theirs;
};

void open_host(struct testing_fabric *testing, struct testing_host *host);

void close_host(struct testing_host *host);

/** @return 0, or why there is no connection after all */
int accept_child(struct testing_host *host, uint64_t deadline_ns);

/* ---- two processes work together ---------------------------------------------------------------- */

/* ---- one is stopped ----------------------------------------------------------------------------- */

void be_stopped(struct testing_fabric *testing, const struct testing_orders *orders);

/* ---- they are stopped and killed ---------------------------------------------------------------- */

/* fabric_processes: all of it. */
extern const struct testing_suite fabric_processes;

#endif
