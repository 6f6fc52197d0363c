/* A service: one thread of a fabric that watches descriptors and handles their events. For the providers. */
#ifndef FABRIC_SERVICE_H
#define FABRIC_SERVICE_H

#include "task/task.h"
#include <pthread.h>

/* A descriptor that is watched. */
struct fabric_source {
    int fd;
    void (*event)(
        struct fabric_source *source); /* called by the service's thread with its lock held; must not wait */
    bool is_watched;                   /* set by the service */
};

struct fabric_service {
    struct task_mutex lock; /* guards the sources and all that their events change; held during `event` */
    bool has_forgotten;     /* a source was forgotten since the thread has handled events */
    int epoll;
    int stop; /* an eventfd that ends the thread */
    pthread_t thread;
};

/** Start the service. @param name  the thread's, as tools show it @return 0 or negative errno */
base_must_check int fabric_service_open(struct fabric_service *service, const char *name);

/** End the service; from then on it handles no events. Blocks as long as a thread takes to end. */
void fabric_service_close(struct fabric_service *service);

/** Begin to watch a source; with the lock or without it. @param source  fd and event are set @return 0; -ENOMEM and the
 * like */
base_must_check int fabric_service_watch(struct fabric_service *service, struct fabric_source *source);

/** Stop watching a source; nothing happens if it is not watched. */
void fabric_service_forget_locked(struct fabric_service *service, struct fabric_source *source);

#endif
