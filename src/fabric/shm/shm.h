/* The provider `shm`: the processes of one user on one host. For the files of this folder. */
#ifndef FABRIC_SHM_SHM_H
#define FABRIC_SHM_SHM_H

#include "fabric/bell.h"
#include "fabric/fabric_internal.h"
#include <pthread.h>
#include <sys/types.h>

struct shm;
struct shm_connection;

/* ---- file.c: sealed memory files ---------------------------------------------------------------- */

/* A file of memory, mapped. */
struct shm_file {
    int fd; /* -1: closed, the mapping lives on */
    uint8_t *memory;
    uint64_t bytes;
};

/**
 * Make one: mode 0600, of fixed length for ever.
 *
 * @param readers  nobody, not even we, gets a further writable mapping or may write by other means
 * @return 0 or negative errno
 */
base_must_check int shm_file_make(const char *name, uint64_t bytes, bool readers, struct shm_file *ret_file);

/**
 * Map one that somebody else has made and claims to be so long.
 *
 * @param fd  stays the caller's
 * @return 0; -EPROTO (another kind of file, another length, or one that could become shorter); -ENOMEM
 */
base_must_check int shm_file_take(int fd, uint64_t bytes, bool writable, struct shm_file *ret_file);

/** Unmap and close. */
void shm_file_drop(struct shm_file *file);

/* ---- service.c: a thread that watches descriptors ------------------------------------------------ */

/* A descriptor that is watched. */
struct shm_source {
    int fd;
    void (*event)(struct shm_source *source); /* with the service's lock, in its thread: must not wait */
    uint32_t number;                          /* the service's: of this watching */
};

/* The thread, and what it watches. */
struct shm_service {
    struct base_account *account;
    struct task_mutex lock;      /* of what follows, and of what `event` does */
    struct shm_source **sources; /* by descriptor */
    uint32_t sources_count;
    uint32_t numbers; /* given to sources so far */
    int epoll;
    int stop;  /* an eventfd */
    int spare; /* a descriptor to give up when there are no more */
    pthread_t thread;
};

/** Begin. @return 0 or negative errno */
base_must_check int shm_service_open(struct shm_service *service, struct base_account *account);

/** End; nothing is watched. */
void shm_service_close(struct shm_service *service);

/** Take the lock: nothing changes in sources and what belongs to them. Yields. */
void shm_service_lock(struct shm_service *service);

/** Give it back. */
void shm_service_unlock(struct shm_service *service);

/** Watch, from now on. @param source  fd and event are set @return 0; -ENOMEM and the like */
base_must_check int shm_service_watch_locked(struct shm_service *service, struct shm_source *source);

/** There are no descriptors to accept somebody with: refuse him, so that the thread does not wake up for him again
 * and again. */
void shm_service_refuse_locked(struct shm_service *service, int listening);

/** Watch no more; one that is not watched stays so. */
void shm_service_forget_locked(struct shm_service *service, struct shm_source *source);

/* ---- ring.c: messages --------------------------------------------------------------------------- */

struct shm_ring_format;

/* One side of a ring: its receiver has made the file. What the other side writes there is never believed. */
struct shm_ring {
    struct shm_file file;
    struct shm_ring_format *shared;
    uint32_t slots;
    uint32_t payload_bytes; /* of a slot */
    uint64_t position;      /* our own count of messages: written or read */
    uint64_t read_seen;     /* the writer's: what the reader had read when we last had to look */
};

/** What a ring of such slots takes. */
uint64_t shm_ring_bytes(uint32_t slots, uint32_t payload_bytes);

/** Begin to use a ring whose file is mapped. */
void shm_ring_begin(struct shm_ring *ring, uint32_t slots, uint32_t payload_bytes);

/** Write a message if there is credit. @return 1; 0: there is none; -EPROTO; -EMSGSIZE */
base_must_check int shm_ring_write_try(struct shm_ring *ring, const struct tarn_fabric_message *message,
                                       const struct iovec *iov, uint32_t iov_count);

/** Read a message if there is one. @param data  room for payload_bytes @return 1; 0: there is none; -EPROTO */
base_must_check int shm_ring_read_try(struct shm_ring *ring, void *data,
                                      struct tarn_fabric_message *ret_message);

/** Whether shm_ring_write_try() would return something else than 0. */
bool shm_ring_has_credit(const struct shm_ring *ring);

/** Whether shm_ring_read_try() would return something else than 0. */
bool shm_ring_has_message(const struct shm_ring *ring);

/** From now on the reader tells when there is credit. */
void shm_ring_arm_writer(struct shm_ring *ring);

/** From now on the writer tells when there is a message. */
void shm_ring_arm_reader(struct shm_ring *ring);

/** Whether the reader is to be told, once, of what was written. */
bool shm_ring_reader_sleeps(struct shm_ring *ring);

/** Whether the writer is to be told, once, of what was read. */
bool shm_ring_writer_sleeps(struct shm_ring *ring);

/* What the writer says of itself. */
enum shm_presence {
    SHM_PRESENT,
    SHM_FAILED, /* it has given the connection up */
    SHM_LEFT,   /* and unmapped the reader's memory: it will write no more, neither here nor there */
};

/** Say so. */
void shm_ring_tell(struct shm_ring *ring, enum shm_presence presence);

/** What it said last. */
enum shm_presence shm_ring_told(const struct shm_ring *ring);

/* ---- domain.c: domains and regions -------------------------------------------------------------- */

/* Where regions lie. */
enum shm_place { SHM_READABLE, SHM_WRITABLE, SHM_PLACES };

struct shm_table_format;

struct shm_domain {
    struct shm *shm;
    uint64_t identity; /* in every handle */
    struct shm_file files[SHM_PLACES];
    uint64_t charged_bytes;
    struct shm_table_format *table; /* at the beginning of the readable file */
    uint32_t table_slots;
    uint64_t keys;                        /* given out so far, from a random number on */
    struct task_mutex lock;               /* of table, keys and extents */
    struct base_list extents[SHM_PLACES]; /* of struct shm_extent, by offset: all of each file */
    struct base_list connections;         /* of struct shm_connection, ghosts too; under the service's lock */
    uint64_t connections_begun;           /* the next one's number; the same */
};

/* A region of a peer's that was found: as it is while its key is in the table. */
struct shm_sight {
    uint64_t key;
    const _Atomic uint64_t *key_now; /* in the table; NULL: nothing was found yet */
    uint8_t *memory;                 /* in our mapping */
    uint64_t bytes;
    uint32_t rights; /* that the mapping has, too */
};

#define SHM_SIGHTS 8 /* a power of two */

/* What a peer has told of its domain. */
struct shm_peer_domain {
    uint64_t identity;
    struct shm_file files[SHM_PLACES];
    uint32_t table_slots;
    struct shm_sight sights[SHM_SIGHTS]; /* by the low bits of the key; its user's */
};

/** Members of struct fabric_provider, which says what each promises. */
int shm_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain);
void shm_domain_close(void *state);
int shm_region_alloc(void *state, struct tarn_fabric_region *region);
void shm_region_free(void *state, struct tarn_fabric_region *region);

struct shm_hello;

/** Map what a hello tells of a domain. @param fds  by enum shm_place, the caller's @return 0; -EPROTO; -ENOMEM */
base_must_check int shm_peer_domain_take(const struct shm_hello *hello, const int *fds,
                                         struct shm_peer_domain *ret_peer);

/** Unmap. */
void shm_peer_domain_drop(struct shm_peer_domain *peer);

/** Look for a key in a peer's table, and keep what is found in its sight. @return false: it is not there */
base_must_check bool shm_find(struct shm_peer_domain *peer, uint64_t key);

/**
 * Find what an operation names in a peer's domain, as the peer's table has it now.
 *
 * @param rights  that it takes
 * @return op->bytes of our mapping, aligned to the word if it takes TARN_FABRIC_MAY_SWAP; NULL: -EACCES
 */
base_must_check static inline uint8_t *shm_locate(struct shm_peer_domain *peer,
                                                  const struct tarn_fabric_op *op, uint32_t rights)
{
    const struct tarn_fabric_handle *handle = op->handle;
    const uint64_t key = handle->key;
    const struct shm_sight *sight = &peer->sights[key % SHM_SIGHTS];
    if (base_unlikely(handle->domain != peer->identity))
        return NULL;
    if (base_unlikely(sight->key != key || sight->key_now == NULL || atomic_load(sight->key_now) != key) &&
        !shm_find(peer, key))
        return NULL;
    bool granted = (sight->rights & rights) == rights && op->offset <= sight->bytes &&
                   op->bytes <= sight->bytes - op->offset;
    return base_likely(granted) ? sight->memory + op->offset : NULL;
}

/* ---- hello.c, listener.c: how two processes meet ------------------------------------------------------------ */

/* What a side tells the other, beside three descriptors: its ring's and its domain's. */
struct shm_hello {
    uint64_t identity;
    uint64_t bytes[SHM_PLACES];
    uint32_t table_slots;
    uint32_t ring_slots;
    uint32_t ring_payload_bytes;
    uint32_t data_bytes;
    uint8_t data[TARN_FABRIC_PRIVATE_BYTES_MAX];
};

#define SHM_HELLO_FDS (SHM_PLACES + 1) /* by enum shm_place, then the ring's */

/* A hello that has come. */
struct shm_greeting {
    struct shm_hello hello;
    int fds[SHM_HELLO_FDS];
    pid_t pid;
};

/** A socket for hellos. @return 0 or negative errno */
base_must_check int shm_socket(int *ret_socket);

/** Have the kernel tell who has sent what comes. @return 0 or negative errno */
base_must_check int shm_socket_ask_who(int fd);

/** Say hello. @return 0 or negative errno */
base_must_check int shm_hello_send(int fd, const struct shm_hello *hello, const int *fds);

/** Say that there will be no connection. */
void shm_hello_refuse(int fd);

/**
 * Take a hello that has come.
 *
 * @return 0; -EAGAIN: none has; -ECONNREFUSED; -ECONNRESET; -EACCES (another user's); -EPROTO
 */
base_must_check int shm_hello_receive(int fd, struct shm_greeting *ret_greeting);

/** Close its descriptors. */
void shm_greeting_drop(struct shm_greeting *greeting);

/** Members of struct fabric_provider, which says what each promises. */
int shm_listen(void *state, const char *address, void **ret_listener);
void shm_listener_close(void *state);
int shm_listener_wait(void *state, uint64_t deadline_ns, void **ret_incoming);
uint32_t shm_incoming_data(const void *state, const void **ret_data);
void shm_reject(void *state);

/** Free one; what it has is the caller's. @return its socket */
int shm_incoming_take(void *state, struct shm_greeting *ret_greeting);

/* ---- connection.c, connect.c -------------------------------------------------------------------- */

/*
 * A connection. While it has an owner, the owner's thread uses it; the service's thread looks at the socket and
 * the pidfd. After shm_disconnect() it is a ghost, the service's, until the peer can write no more.
 */
struct shm_connection {
    struct base_list link; /* shm_domain.connections, in the order of `number` */
    struct shm *shm;
    struct shm_domain *domain;
    uint64_t number;
    struct tarn_fabric_connection *owner; /* NULL: a ghost; changed under the service's lock */
    struct shm_source socket;
    struct shm_source process; /* a pidfd */
    bool exposed;              /* the peer may have our memory */
    _Atomic bool answered;     /* while connecting: the socket has something */
    _Atomic bool ended;        /* the peer's process */
    bool unsettled; /* something was stored, and no fence stands between that and what comes next */
    struct shm_ring in, out;
    bool messages_are_rare; /* those that come here */
    struct shm_peer_domain peer;
    struct fabric_bell bell;
    struct fabric_queue pending; /* in the order of posting */
    uint32_t data_bytes;         /* the peer's */
    uint8_t data[TARN_FABRIC_PRIVATE_BYTES_MAX];
};

/** Have the peer's service look. */
void shm_connection_ring_peer(struct shm_connection *connection);

/** Tell the peer that it is over, and free it; as a ghost it stays while the peer might write. Yields. */
void shm_connection_end(struct shm_connection *connection);

/** End and free a ghost, whatever its peer may do. */
void shm_ghost_end_locked(struct shm_connection *connection);

/** The peer's socket says something, or its end. In the service's thread. */
void shm_socket_event(struct shm_source *source);

/** The peer's process has ended. In the service's thread. */
void shm_process_event(struct shm_source *source);

/** Members of struct fabric_provider, which says what each promises. */
int shm_accept(void *incoming, void *state, const struct tarn_fabric_connect_options *options,
               struct tarn_fabric_connection *owner, void **ret_connection);
int shm_connect(void *state, const char *address, const struct tarn_fabric_connect_options *options,
                uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection);
void shm_post(void *state, struct tarn_fabric_op *op);
bool shm_run(void *state, struct tarn_fabric_op *op);
void shm_posted(void *state);
void shm_progress(void *state);
int shm_wait(void *state, struct tarn_fabric_op *op, uint64_t deadline_ns);
int shm_receive(void *state, void *data, uint32_t room, uint64_t deadline_ns,
                struct tarn_fabric_message *ret_message);
void shm_fail(void *state);
int shm_fence(void *state, uint64_t deadline_ns);

/* ---- shm.c -------------------------------------------------------------------------------------- */

struct shm {
    struct tarn_node *node;
    struct shm_service service;
    struct base_log_limit refusals; /* of lines about who was not let in */
};

#endif
