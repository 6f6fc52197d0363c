/*
 * For the tests of this layer: runs of a provider's tests in tasks and in plain threads, jobs beside a test, and two
 * connected sides.
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

#define TESTING_SECONDS(n) (task_now() + (n)*BASE_NS_PER_SECOND)
#define TESTING_LATE       TESTING_SECONDS(600) /* a deadline that ends a test that hangs, on a busy machine, too */
#define TESTING_SOON       (task_now() + 20000000) /* a deadline that is meant to pass */
#define TESTING_TAG        3

struct testing_child;

struct testing_fabric;

struct testing_job;

/* A provider under test; the state of the group of tests. */
struct testing_subject {
    const char *url;
    void (*address)(char *ret_address, size_t room); /* makes an address at which no listener is yet */
    bool registers;                                  /* it can export memory of the caller's */
    const char *client_url; /* URL of the client's fabric, where that is another one; NULL: the same */
    bool is_served;         /* the owner's process serves operations, and so must run */
    bool fences_alone;      /* a peer can be fenced without its help */
    bool is_slow;           /* tests repeat less often: testing_times() */

    /* Runs a test and its plain threads; NULL: on real schedulers and threads. */
    void (*run)(struct testing_fabric *testing, bool in_tasks);
    void (*start_thread)(struct testing_job *job); /* starts a thread that runs testing_job_subject() */
    const void *arg;
};

/* One test of the provider. */
struct testing_fabric {
    const struct testing_subject *subject;
    struct task_testing *tasks; /* the schedulers of the test; NULL: it runs in plain threads */
    struct tarn_node *node;
    struct task_sched *const
        *scheds; /* the subject's TASK_TESTING_SCHEDS, for servers of a test that runs in plain
                                         threads; NULL: it opens its own */
    const char
        *drive; /* a drive of the subject's, which the test may make a store of; NULL: it makes a file */
    struct tarn_fabric *fabric;
    struct tarn_fabric *client_fabric; /* the client's fabric; NULL: the same. testing_clients() chooses */
    char address[108];
    void (*test)(struct testing_fabric *testing);
    struct testing_child *children; /* the child processes of process_testing.h */
};

/** Scale a number of repetitions: a tenth for a slow provider. */
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

/* The number of descriptors once it has not changed for a while: other threads close theirs a moment later. */
unsigned testing_descriptors(void);

/** Assert that there are as many descriptors again, at last: other threads close theirs when they get to it. */
void testing_expect_descriptors(unsigned count);

/** The node's memory once it has not changed for a while: a scheduler's engine takes its own when it begins. */
uint64_t testing_memory(const struct testing_fabric *testing);

/* ---- jobs --------------------------------------------------------------------------------------- */

/* Something that runs beside the test: a task, or a plain thread. */
struct testing_job {
    void (*function)(void *arg);
    void *arg;
    struct testing_fabric *testing;
    bool is_task;
    struct task_group group; /* joins a task */
    pthread_t thread;
    struct task_shared_future ended; /* is set when a thread has ended */
};

void testing_job_subject(struct testing_job *job);

/** Start a plain thread, also from a task. */
void testing_start_thread(struct testing_fabric *testing, struct testing_job *job,
                          void (*function)(void *arg), void *arg);

/** Start a job. @param place  index of the scheduler, if tests run in tasks: 0 is the test's own */
void testing_start(struct testing_fabric *testing, struct testing_job *job, unsigned place,
                   void (*function)(void *arg), void *arg);

void testing_join(struct testing_job *job);

/* ---- two sides ---------------------------------------------------------------------------------- */

#define TESTING_BYTES (UINT64_C(256) << 10) /* size of each of the server's regions */

/* A server with a region of every kind, and a connected client. */
struct testing_pair {
    struct testing_fabric *testing;
    struct tarn_fabric_domain *server_domain, *client_domain;
    struct tarn_fabric_region *all;      /* read, write, swap */
    struct tarn_fabric_region *readable; /* read */
    struct tarn_fabric_listener *listener;
    struct tarn_fabric_connection *server, *client;
    struct tarn_fabric_connect_options options; /* options of both sides */
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

/** Wait until a word of the owner's memory has changed. @return its new value */
uint64_t testing_await_word(const struct tarn_fabric_region *region, uint64_t offset, uint64_t old);

/* Fill memory with a pattern that names its offset and its round. */
void testing_fill(uint8_t *bytes, uint64_t count, uint64_t round);

/** Assert that a region's memory holds these bytes. */
void testing_expect(const struct tarn_fabric_region *region, uint64_t offset, const void *bytes,
                    uint64_t count);

/*
 * Post one operation that must fail with this error. The connection must have ended with it afterwards, for the peer,
 * too; then the two connect again.
 */
void testing_expect_failure(struct testing_pair *pair, struct tarn_fabric_op op, int error);

#endif
