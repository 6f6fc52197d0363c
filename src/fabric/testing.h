/*
 * For the tests of this layer: what is tested (a provider), in tasks and in plain threads, jobs beside the test,
 * and two sides with a connection.
 */
#ifndef FABRIC_TESTING_H
#define FABRIC_TESTING_H

#include "fabric/fabric.h"
#include "task/testing.h"
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TESTING_SECONDS(n) (task_now() + (n)*BASE_NS_PER_SECOND) /* a deadline that ends a test that hangs */
#define TESTING_SOON       (task_now() + 20000000)               /* one that is meant to pass */
#define TESTING_TAG        3

struct testing_child;

struct testing_fabric;

struct testing_job;

/* A provider to be tested; the state of the group of tests. */
struct testing_subject {
    const char *url;
    void (*address)(char *ret_address, size_t room); /* of a listener that is not there yet */
    bool registers;                                  /* it exports memory of the caller's too */
    const char *client_url; /* of the client's side, where that is another fabric; NULL: the same */
    bool is_served;         /* the owner's process serves: it must run for that */
    bool fences_alone;      /* a peer is fenced without its help */
    bool is_slow;           /* counts of repetitions are smaller: testing_times() */

    /* Where tests and their plain threads run. NULL: in the real ones. */
    void (*run)(struct testing_fabric *testing, bool in_tasks);
    void (*start_thread)(struct testing_job *job); /* has it run testing_job_subject() */
    const void *arg;
};

/* One test of it. */
struct testing_fabric {
    const struct testing_subject *subject;
    struct task_testing *tasks; /* NULL: plain threads */
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    struct tarn_fabric *client_fabric; /* NULL: the same; testing_clients() */
    char address[108];
    void (*test)(struct testing_fabric *testing);
    struct testing_child *children; /* of process_testing.h */
};

/** How often something is done: a tenth where each takes long. */
unsigned testing_times(const struct testing_fabric *testing, unsigned times);

/** The fabric of the client's side. */
struct tarn_fabric *testing_clients(const struct testing_fabric *testing);

/* ---- running ------------------------------------------------------------------------------------ */

void testing_open(struct testing_fabric *testing);

void testing_close(struct testing_fabric *testing);

void testing_main(void *arg);

/** Run a test whose subject, function and children are set. */
void testing_run_prepared(struct testing_fabric *testing, bool in_tasks);

void testing_run(void **state, void (*test)(struct testing_fabric *testing), bool in_tasks);

/* A test for cmocka in tasks and in plain threads. */
#define TESTING_BOTH(test)                                                                                   \
    static void test##_in_tasks(void **state)                                                                \
    {                                                                                                        \
        testing_run(state, test, true);                                                                      \
    }                                                                                                        \
    static void test##_in_threads(void **state)                                                              \
    {                                                                                                        \
        testing_run(state, test, false);                                                                     \
    }
#define TESTING_UNITS(test) cmocka_unit_test(test##_in_tasks), cmocka_unit_test(test##_in_threads)
#define TESTING_EACH(test)  TESTING_UNITS(test),

/* What a folder holds now: of /proc/self/fd this process's descriptors, of /proc/self/task its threads. */
unsigned testing_count_entries(const char *path);

/* The same when it has not changed for a while: what others close takes a moment. */
unsigned testing_descriptors(void);

/** Memory of the node when it has not changed for a while: a scheduler's engine takes its own when it begins. */
uint64_t testing_memory(const struct testing_fabric *testing);

/* ---- jobs --------------------------------------------------------------------------------------- */

/* Something that runs beside the test: a task, or a plain thread. */
struct testing_job {
    void (*function)(void *arg);
    void *arg;
    struct testing_fabric *testing;
    bool is_task;
    struct task_group group; /* of a task */
    pthread_t thread;
    struct task_shared_future ended; /* of a thread */
};

void testing_job_subject(struct testing_job *job);

/** Start a plain thread, from a task too. */
void testing_start_thread(struct testing_fabric *testing, struct testing_job *job,
                          void (*function)(void *arg), void *arg);

/** @param place  which scheduler, of tasks: 0 is the test's own */
void testing_start(struct testing_fabric *testing, struct testing_job *job, unsigned place,
                   void (*function)(void *arg), void *arg);

void testing_join(struct testing_job *job);

/* ---- two sides ---------------------------------------------------------------------------------- */

#define TESTING_BYTES (UINT64_C(256) << 10) /* of the server's regions */

/* A server with a region of every kind, and a client that is connected with it. */
struct testing_pair {
    struct testing_fabric *testing;
    struct tarn_fabric_domain *server_domain, *client_domain;
    struct tarn_fabric_region *all;      /* read, write, swap */
    struct tarn_fabric_region *readable; /* read */
    struct tarn_fabric_listener *listener;
    struct tarn_fabric_connection *server, *client;
    struct tarn_fabric_connect_options options; /* of both */
};

struct tarn_fabric_domain *testing_domain(struct tarn_fabric *fabric, uint64_t readable, uint64_t writable);

struct tarn_fabric_region *testing_region(struct tarn_fabric_domain *domain, uint64_t bytes, uint32_t rights);

void testing_accept(void *arg);

/** Connect the two sides, for the first time or again. */
void testing_connect(struct testing_pair *pair);

void testing_disconnect(struct testing_pair *pair);

void testing_pair_open(struct testing_fabric *testing, struct testing_pair *pair,
                       const struct tarn_fabric_connect_options *options);

void testing_pair_close(struct testing_pair *pair);

/** Wait until a word of an owner's is another. @return which */
uint64_t testing_await_word(const struct tarn_fabric_region *region, uint64_t offset, uint64_t old);

/* A pattern that tells where it was written and when. */
void testing_fill(uint8_t *bytes, uint64_t count, uint64_t round);

/** What an owner's memory holds. */
void testing_expect(const struct tarn_fabric_region *region, uint64_t offset, const void *bytes,
                    uint64_t count);

/*
 * Post one operation that must fail with an error, and nothing else: the connection is dead of it afterwards, the
 * peer is told, and the two connect again.
 */
void testing_expect_failure(struct testing_pair *pair, struct tarn_fabric_op op, int error);

#endif
