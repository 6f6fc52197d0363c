/* A request of a client, for the files of methods. */
#ifndef SPACE_ASKING_H
#define SPACE_ASKING_H

#include "space/master.h"

/* A request of a client, while its method runs. */
struct asking {
    struct space_master *master;
    struct space_cursor from; /* behind the session */
    struct space_cursor to;   /* the result */
    uint8_t id[SPACE_SESSION_BYTES];
    struct master_session *session; /* NULL: there is none, or none any more */
    uint64_t deadline_ns;
};

typedef int asking_function(struct asking *asking);

/** Whether all of a request was taken. */
static inline bool asking_is_taken(const struct asking *asking)
{
    return space_cursor_is_done(&asking->from);
}

/** Take the number of a namespace that the session has joined. @return NULL: it has not, or there is none any more */
struct master_space *asking_space(struct asking *asking);

/** Answer a region. */
void asking_put_region(struct asking *asking, const struct master_region *region);

/* ---- telling.c ---------------------------------------------------------------------------------- */

/** The method SERVER. */
int ask_server(struct asking *asking);

/** The method LIST. */
int ask_list(struct asking *asking);

#endif
