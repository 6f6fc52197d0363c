/* Clients that have said their hello and wait to be accepted or rejected: a listener's queue. For the providers. */
#ifndef FABRIC_ARRIVALS_H
#define FABRIC_ARRIVALS_H

#include "fabric/bell.h"
#include "fabric/fabric.h"

struct fabric_arrivals {
    struct fabric_bell bell; /* rung for each client; its lock guards the fields below */
    struct base_list list;   /* of struct tarn_fabric_incoming */
    uint32_t count, most;
};

/** Begin without clients. @param most  the most that may wait */
void fabric_arrivals_init(struct fabric_arrivals *arrivals, uint32_t most);

/** Put a client at the end. Any thread. @return false: too many wait. Else it may be freed by now */
base_must_check bool fabric_arrivals_push(struct fabric_arrivals *arrivals,
                                          struct tarn_fabric_incoming *client);

/** Take the first client out. Any thread. @return NULL: there is none */
struct tarn_fabric_incoming *fabric_arrivals_pop(struct fabric_arrivals *arrivals);

/** Wait for a client and take it out. @return 0; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int fabric_arrivals_wait(struct fabric_arrivals *arrivals, uint64_t deadline_ns,
                                         struct tarn_fabric_incoming **ret_client);

#endif
