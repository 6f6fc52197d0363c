/*
 * The two sides of a measurement over the fabric: a child that serves, on the second core, and a plain thread that asks,
 * on the first.
 */
#ifndef LAB_SERVER_H
#define LAB_SERVER_H

#include "bench/bench.h"
#include "lab/child.h"
#include <tarn/fabric.h>

struct lab_server {
    struct bench *bench;
    const char *url;   /* of the provider: "shm:" or "tcp:" */
    char address[100]; /* so that something can be added to a path */
    struct lab_child child;
};

/**
 * Find an address, and start the child, whose first answer is an int: 0, or why it does not serve.
 *
 * @param url       static
 * @param function  as lab_child_start(); `arg` may lead to `server`, whose address is there
 * @return 0; negative errno: said in bench->err, and it does not run
 */
base_must_check int lab_server_start(struct lab_server *server, struct bench *bench, const char *url,
                                     int (*function)(void *arg), void *arg);

/** End it. @return 0; -ECHILD: said in bench->err */
int lab_server_stop(struct lab_server *server);

/**
 * Run a function in this thread, on the first core, with a node and a fabric of its own.
 *
 * @return what it returned; errors of opening the two
 */
base_must_check int
lab_client_run(struct bench *bench, const char *url,
               int (*function)(void *arg, struct tarn_node *node, struct tarn_fabric *fabric), void *arg);

#endif
