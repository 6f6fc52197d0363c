/*
 * The two sides of a measurement over the fabric: a child that serves, on the second core, and a plain thread that asks,
 * on the first.
 */
#ifndef LAB_SERVER_H
#define LAB_SERVER_H

#include "bench/bench.h"
#include "lab/child.h"
#include "lab/command.h"
#include <tarn/fabric.h>

/* How long a scheduler spins that never sleeps. */
#define LAB_SERVER_SPIN_NS (3600 * BASE_NS_PER_SECOND)

/* A child that serves. What it leaves in the end the kernel frees. */
struct lab_server {
    struct bench *bench;
    const char *url; /* of the provider, static: "shm:" or "tcp:" */
    bool roams;      /* it may use all cores, not the second alone */

    /** In the child: begin to serve. @return 0; negative errno */
    int (*begin)(struct lab_server *server, struct tarn_node *node, struct tarn_fabric *fabric);

    /** In the child: obey requests until lab_child_receive() fails. NULL: there are none */
    void (*obey)(struct lab_server *server);

    /** In the child: stop serving. @return 0; else it does not end well */
    int (*end)(struct lab_server *server);

    void *serving;     /* what begin() is given, and then what it has made, which is the child's own */
    char address[100]; /* where it serves; room, so that something can be added to a path */
    struct lab_child child;
};

/** Find an address, and start the child: the members up to `end` are set. @return 0; negative errno: said, and it does not
 * run */
base_must_check int lab_server_start(struct lab_server *server);

/** End it. @return 0; -ECHILD: said in bench->err */
int lab_server_stop(struct lab_server *server);

/** Whether it serves by shared memory. */
bool lab_server_is_shm(const struct lab_server *server);

/**
 * Run a function in this thread, on the first core, with a node and a fabric of its own.
 *
 * @return what it returned; errors of opening the two
 */
base_must_check int
lab_client_run(const struct lab_server *server,
               int (*function)(void *arg, struct tarn_node *node, struct tarn_fabric *fabric), void *arg);

/** Add several arguments to a command line: a printf format, cut at its blanks. */
void lab_command_add_words(struct lab_command *command, const char *format, ...) base_printf_like(2, 3);

#endif
