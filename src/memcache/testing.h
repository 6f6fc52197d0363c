/*
 * For the tests of this layer: a server over a store on a drive in memory, or over a cache, and conversations with it.
 * Sessions run in a task of a scheduler that the test steps by hand, so that requests are in flight together
 * and each run is like the last; cmocka's asserts are for the test itself, outside of tasks.
 */
#ifndef MEMCACHE_TESTING_H
#define MEMCACHE_TESTING_H

#include "depot/testing.h"
#include "kv/testing.h"
#include "memcache/memcache.h"
#include "task/sched.h"

#define TALK_INPUT_BYTES (16 << 10)
#define TALK_VERSION     "1.6.18-tarn-0.1.0"
#define TALK_GUARD_BYTES 4096 /* bytes behind the workspace, whose last part is the output */
#define TALK_TASKS_MAX   90   /* tasks of the store, of a session and of its requests */

/* A server, and its output. */
struct talk {
    struct testing_drive drive;
    struct testing_clock clock;
    struct tarn_node *node;
    struct task_sched *sched;
    const char *url;          /* URL of the store; NULL: a depot in memory */
    struct tarn_depot *depot; /* the store's depot; NULL: it is no depot */
    struct tarn_kv *kv;
    struct testing_front frugal; /* checks, for a cache, that functions take no memory under its lock */
    struct tarn_depot_options store;
    struct memcache_server server;
    struct memcache_session session;
    struct memcache_work *work;
    char *input;
    char *said; /* all output, with a zero byte behind it */
    size_t said_bytes;
    uint64_t placed; /* bytes of values that were received in place since the beginning */
    uint64_t sends;
    uint64_t send_fails_at; /* number of the send that fails; 0: none */
    uint64_t
        value_alloc_fails; /* number of the allocation of `values` that fails, since a conversation began; 0: none */
    uint64_t
        alloc_fails; /* number of the node's allocation that fails, since a conversation began; 0: none */
    bool crowded;    /* no further task can be started: requests run one after the other */
    bool ending;     /* the host was asked to shut down */
};

/* ---- tasks -------------------------------------------------------------------------------------- */

/** Run a function in a task, to its end. */
void talk_run(struct talk *talk, task_function *function, void *arg);

/* ---- conversations ------------------------------------------------------------------------------ */

/* A client's words. */
struct talk_words {
    struct talk *talk;
    const char *text;
    size_t len;
    size_t piece;               /* bytes that arrive at once; 0: a random number */
    struct base_random *random; /* source of random numbers; NULL: none */
    int error;                  /* the session's error at the last piece */
};

/** Hold a conversation on a connection of its own. @return the error that ended it, or 0 */
int talk_say_words(struct talk_words *words);

/** Send words in pieces of `piece` bytes. @return the error that ended the conversation, or 0 */
int talk_say(struct talk *talk, const char *text, size_t len, size_t piece);

/** Empty the store. */
void talk_forget(struct talk *talk);

/** Assert that this was answered, and nothing else. */
void talk_expect_said(struct talk *talk, const char *text, const char *answer, size_t len);

/** Assert the answer to some words for every way to cut them, each time with an empty store. */
void talk_expect(struct talk *talk, const char *text, const char *answer);

/** Assert the answers of many pairs of words and answer. */
#define TALK_EXPECT_ALL(talk, talks)                                                                         \
    do {                                                                                                     \
        for (size_t talk_at = 0; talk_at < base_array_count(talks); talk_at++)                               \
            talk_expect(talk, (talks)[talk_at][0], (talks)[talk_at][1]);                                     \
    } while (0)

/** Send words at once, and assert the answer. */
void talk_expect_once(struct talk *talk, const char *text, const char *answer);

/* ---- the fixture -------------------------------------------------------------------------------- */

/** Make a server. @param talk  all zero, except for `store` and `url` */
void talk_begin(struct talk *talk);

void talk_end(struct talk *talk);

int talk_setup_url(void **state, const char *url);

/** Set up a test whose state is a server. */
int talk_setup(void **state);

/** Set up a test whose state is a server of a cache that evicts nothing. */
int talk_setup_cache(void **state);

/** Tear a test down. */
int talk_teardown(void **state);

/** A test of a server over a depot, over a cache, or both one after the other. */
#define TALK_TEST(function) cmocka_unit_test_setup_teardown(function, talk_setup, talk_teardown)
#define TALK_CACHE_TEST(function)                                                                            \
    {                                                                                                        \
#function " (cache)", function, talk_setup_cache, talk_teardown, NULL                                \
    }
#define TALK_TESTS(function) TALK_TEST(function), TALK_CACHE_TEST(function)

#endif
