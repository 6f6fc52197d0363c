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
#define TALK_GUARD_BYTES 4096 /* behind the workspace, whose last part is the output */
#define TALK_TASKS_MAX   90   /* the store's, a session, its requests */

/* A server, and what it has said. */
struct talk {
    struct testing_drive drive;
    struct testing_clock clock;
    struct tarn_node *node;
    struct task_sched *sched;
    const char *url;          /* of the store; NULL: a depot */
    struct tarn_depot *depot; /* NULL: it is none */
    struct tarn_kv *kv;
    struct testing_front frugal; /* of a cache: what it shows something takes no memory */
    struct tarn_depot_options store;
    struct memcache_server server;
    struct memcache_session session;
    struct memcache_work *work;
    char *input;
    char *said; /* all output, with a zero byte behind it */
    size_t said_bytes;
    uint64_t placed; /* bytes of values that were put where they belong, ever */
    uint64_t sends;
    uint64_t send_fails_at;     /* the n-th; 0: none */
    uint64_t value_alloc_fails; /* the n-th of `values` since a conversation began; 0: none */
    uint64_t alloc_fails;       /* … of anything of the node */
    bool crowded;               /* no other task can be had: requests run one after the other */
    bool ending;                /* has been asked to shut down */
};

/* ---- tasks -------------------------------------------------------------------------------------- */

/** Run a function in a task, to its end. */
void talk_run(struct talk *talk, task_function *function, void *arg);

/* ---- conversations ------------------------------------------------------------------------------ */

/* Something that a client says. */
struct talk_words {
    struct talk *talk;
    const char *text;
    size_t len;
    size_t piece;               /* bytes that come at once; 0: any number, by chance */
    struct base_random *random; /* NULL: no chance */
    int error;                  /* what the session said to the last of them */
};

/** Hold a conversation on a connection of its own. @return what ended it, or 0 */
int talk_say_words(struct talk_words *words);

/** Say something in pieces of so many bytes. @return what ended the conversation, or 0 */
int talk_say(struct talk *talk, const char *text, size_t len, size_t piece);

/** Empty the store. */
void talk_forget(struct talk *talk);

/** Expect that so much was answered, and nothing else. */
void talk_expect_said(struct talk *talk, const char *text, const char *answer, size_t len);

/** Expect an answer however the words are cut, on an empty store each time. */
void talk_expect(struct talk *talk, const char *text, const char *answer);

/** Many of them: words and answer. */
#define TALK_EXPECT_ALL(talk, talks)                                                                         \
    do {                                                                                                     \
        for (size_t talk_at = 0; talk_at < base_array_count(talks); talk_at++)                               \
            talk_expect(talk, (talks)[talk_at][0], (talks)[talk_at][1]);                                     \
    } while (0)

/** Say something as a whole, and expect an answer. */
void talk_expect_once(struct talk *talk, const char *text, const char *answer);

/* ---- the fixture -------------------------------------------------------------------------------- */

/** Make a server. @param talk  all zero, but for `store` and `url` */
void talk_begin(struct talk *talk);

void talk_end(struct talk *talk);

int talk_setup_url(void **state, const char *url);

/** Before a test: a server is its state. */
int talk_setup(void **state);

/** The same, of a cache in which nothing is evicted. */
int talk_setup_cache(void **state);

/** After it. */
int talk_teardown(void **state);

/** A test of a server over a depot, over a cache, or both one after the other. */
#define TALK_TEST(function) cmocka_unit_test_setup_teardown(function, talk_setup, talk_teardown)
#define TALK_CACHE_TEST(function)                                                                            \
    {                                                                                                        \
#function " (cache)", function, talk_setup_cache, talk_teardown, NULL                                \
    }
#define TALK_TESTS(function) TALK_TEST(function), TALK_CACHE_TEST(function)

#endif
