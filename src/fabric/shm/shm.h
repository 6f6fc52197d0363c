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

/* A memory file, mapped. */
struct shm_file {
    int fd; /* the file; -1: closed, while the mapping lives on */
    uint8_t *memory;
    uint64_t bytes;
};

/**
 * Make a file: mode 0600, its length fixed for ever.
 *
 * @param readers  peers only read it: seal it, so that no process, this one included, can map it writable again or write
 *                 to it by other means
 * @return 0 or negative errno
 */
base_must_check int shm_file_make(const char *name, uint64_t bytes, bool readers, struct shm_file *ret_file);

/**
 * Map a file that a peer has made, and check that it has the length that the peer claims.
 *
 * @param fd  still the caller's afterwards
 * @return 0; -EPROTO (another kind of file, another length, or one that could become shorter); -ENOMEM
 */
base_must_check int shm_file_take(int fd, uint64_t bytes, bool writable, struct shm_file *ret_file);

/** Unmap and close. */
void shm_file_drop(struct shm_file *file);

/* ---- service.c: a thread that watches descriptors ------------------------------------------------ */

/* A descriptor that is watched. */
struct shm_source {
    int fd;
    void (*event)(
        struct shm_source *source); /* called by the service's thread with its lock held; must not wait */
    uint32_t number;                /* number of this watch, given by the service */
};

/* The service's thread, and the descriptors that it watches. */
struct shm_service {
    struct base_account *account;
    struct task_mutex lock;      /* protects the fields below, and is held during `event` */
    struct shm_source **sources; /* the watched sources, indexed by descriptor */
    uint32_t sources_count;
    uint32_t numbers; /* numbers given to sources since the start */
    int epoll;
    int stop;   /* an eventfd that ends the thread */
    int closer; /* to shm_close_later()'s thread */
    int spare; /* a descriptor that is closed for a moment, so that a client can be refused when none is left */
    pthread_t thread;
    pthread_t closer_thread;
};

/** Start the service. @return 0 or negative errno */
base_must_check int shm_service_open(struct shm_service *service, struct base_account *account);

/** End the service, which watches nothing any more. Waits two seconds at most for what is closed later. */
void shm_service_close(struct shm_service *service);

/**
 * Close a descriptor that came from a peer, or through which a peer can send some, in a thread of its own: closing what
 * a peer has chosen may take as long as it likes (a TCP socket that lingers, a file of a file system in user space).
 * Never waits.
 *
 * @param closer  shm_service.closer; -1: close it at once
 */
void shm_close_later(int closer, int fd);

/** Shut a peer's socket down at once, so that the peer sees that, and close it later. */
void shm_socket_close(int closer, int fd);

/** Take the lock, which guards the sources and all that their events change. Yields. */
void shm_service_lock(struct shm_service *service);

/** Give it back. */
void shm_service_unlock(struct shm_service *service);

/** Begin to watch a source. @param source  fd and event are set @return 0; -ENOMEM and the like */
base_must_check int shm_service_watch_locked(struct shm_service *service, struct shm_source *source);

/** Refuse a client when no descriptor is left to accept it with; otherwise it would wake the thread again and again. */
void shm_service_refuse_locked(struct shm_service *service, int listening);

/** Stop watching a source; nothing happens if it is not watched. */
void shm_service_forget_locked(struct shm_service *service, struct shm_source *source);

/* ---- ring.c: messages --------------------------------------------------------------------------- */

struct shm_ring_format;

/* One side of a ring, whose file the receiver has made. All that the other side writes there is checked. */
struct shm_ring {
    struct shm_file file;
    struct shm_ring_format *shared;
    uint32_t slots;
    uint32_t payload_bytes; /* the most payload bytes of a slot */
    uint64_t position;      /* number of messages that this side has written or read */
    uint64_t read_seen; /* the writer's alone: number of messages that the reader had read at the last look */
};

/** Bytes that a ring takes. */
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

/** Ask the reader to ring when there is credit. */
void shm_ring_arm_writer(struct shm_ring *ring);

/** Ask the writer to ring when there is a message. */
void shm_ring_arm_reader(struct shm_ring *ring);

/** Whether the reader has asked to be rung; asking once is answered once. */
bool shm_ring_reader_sleeps(struct shm_ring *ring);

/** Whether the writer has asked to be rung; asking once is answered once. */
bool shm_ring_writer_sleeps(struct shm_ring *ring);

/* The writer's state, as it tells the reader. */
enum shm_presence {
    SHM_PRESENT,
    SHM_FAILED, /* the writer has given the connection up */
    SHM_LEFT,   /* the writer has also unmapped the reader's memory, and will write nowhere any more */
};

/** Tell the reader this side's state. */
void shm_ring_tell(struct shm_ring *ring, enum shm_presence presence);

/** The state that the writer told last. */
enum shm_presence shm_ring_told(const struct shm_ring *ring);

/* ---- domain.c: domains and regions -------------------------------------------------------------- */

/* The files in which regions lie. */
enum shm_place { SHM_READABLE, SHM_WRITABLE, SHM_PLACES };

struct shm_table_format;

struct shm_domain {
    struct shm *shm;
    uint64_t identity; /* in every handle */
    struct shm_file files[SHM_PLACES];
    uint64_t charged_bytes;
    struct shm_table_format *table; /* at the beginning of the readable file */
    uint32_t table_slots;
    uint64_t keys;                        /* the last key that was given out; the first is random */
    struct task_mutex lock;               /* protects table, keys and extents */
    struct base_list extents[SHM_PLACES]; /* of struct shm_extent, by offset; together they cover each file */
    struct base_list
        connections;            /* of struct shm_connection, ghosts included; the service's lock guards it */
    uint64_t connections_begun; /* number of the next connection; the service's lock guards it */
};

/* A peer's region that was looked up; it is valid while its key is in the peer's table. */
struct shm_sight {
    uint64_t key;
    const _Atomic uint64_t *key_now; /* the key's place in the peer's table; NULL: the sight is empty */
    uint8_t *memory;                 /* the region's memory in this side's mapping */
    uint64_t bytes;
    uint32_t rights; /* the region's rights, as far as the mapping allows them */
};

#define SHM_SIGHTS 8 /* a power of two */

/* A peer's domain, mapped. */
struct shm_peer_domain {
    uint64_t identity;
    struct shm_file files[SHM_PLACES];
    uint32_t table_slots;
    struct shm_sight sights
        [SHM_SIGHTS]; /* regions found lately, by the low bits of the key; only the connection's user touches them */
};

/** Members of struct fabric_provider, which says what each promises. */
int shm_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain);
void shm_domain_close(void *state);
int shm_region_alloc(void *state, struct tarn_fabric_region *region);
void shm_region_free(void *state, struct tarn_fabric_region *region);

struct shm_hello;

/** Map the domain of a hello. @param fds  its files by enum shm_place, still the caller's @return 0; -EPROTO; -ENOMEM */
base_must_check int shm_peer_domain_take(const struct shm_hello *hello, const int *fds,
                                         struct shm_peer_domain *ret_peer);

/** Unmap a peer's domain. */
void shm_peer_domain_drop(struct shm_peer_domain *peer);

/** Look a key up in a peer's table, and keep the region as a sight. @return false: the table has no such key */
base_must_check bool shm_find(struct shm_peer_domain *peer, uint64_t key);

/**
 * Find the memory that an operation names in a peer's domain, as the peer's table has it now.
 *
 * @param rights  the rights that the operation needs
 * @return op->bytes of this side's mapping, word-aligned if the rights have TARN_FABRIC_MAY_SWAP; NULL: -EACCES
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

/* A side's first message. With it come three descriptors: of its domain's two files and of its ring. */
struct shm_hello {
    uint64_t identity;
    uint64_t bytes[SHM_PLACES];
    uint32_t table_slots;
    uint32_t ring_slots;
    uint32_t ring_payload_bytes;
    uint32_t data_bytes;
    uint8_t data[TARN_FABRIC_PRIVATE_BYTES_MAX];
};

#define SHM_HELLO_FDS (SHM_PLACES + 1) /* the domain's files by enum shm_place, then the ring's */

/* A hello that was received, with its descriptors. */
struct shm_greeting {
    struct shm_hello hello;
    int fds[SHM_HELLO_FDS];
    pid_t pid;
};

/** Make a socket for hellos. @return 0 or negative errno */
base_must_check int shm_socket(int *ret_socket);

/** Have the kernel attach each sender's credentials to its messages. @return 0 or negative errno */
base_must_check int shm_socket_ask_who(int fd);

/** Send a hello. @return 0 or negative errno */
base_must_check int shm_hello_send(int fd, const struct shm_hello *hello, const int *fds);

/** Send a refusal. */
void shm_hello_refuse(int fd, int error);

/**
 * Receive a hello.
 *
 * @param closer  for descriptors that are not wanted
 * @return 0; -EAGAIN (none has come); -ECONNREFUSED; -ENOBUFS; -ECONNRESET; -EACCES (another user's); -EPROTO
 */
base_must_check int shm_hello_receive(int closer, int fd, struct shm_greeting *ret_greeting);

/** Receive bytes of a peer that has said its hello, and close what descriptors come with them. @return as recv() */
ssize_t shm_bytes_receive(int closer, int fd, void *bytes, size_t room);

/** Close a hello's descriptors. */
void shm_greeting_drop(int closer, struct shm_greeting *greeting);

/** Members of struct fabric_provider, which says what each promises. */
int shm_listen(void *state, const char *address, void **ret_listener);
void shm_listener_close(void *state);
int shm_listener_wait(void *state, uint64_t deadline_ns, void **ret_incoming);
uint32_t shm_incoming_data(const void *state, const void **ret_data);
void shm_reject(void *state, int error);

/** Free an incoming client; its hello's descriptors and its socket are the caller's. @return the socket */
int shm_incoming_take(void *state, struct shm_greeting *ret_greeting);

/* ---- connection.c, connect.c -------------------------------------------------------------------- */

/*
 * A connection. While it has an owner, the owner's thread uses it, and the service's thread watches the socket and
 * the pidfd. After shm_disconnect() it is a ghost, which belongs to the service until the peer can write no more.
 */
struct shm_connection {
    struct base_list link; /* place in shm_domain.connections, ordered by `number` */
    struct shm *shm;
    struct shm_domain *domain;
    uint64_t number;
    struct tarn_fabric_connection
        *owner; /* the public object; NULL: a ghost. The service's lock guards changes */
    struct shm_source socket;
    struct shm_source process; /* the pidfd of the peer's process */
    bool exposed;              /* the peer may have mapped our memory */
    _Atomic bool answered;     /* while connecting: the answer can be read from the socket */
    _Atomic bool ended;        /* the peer's process has ended */
    bool unsettled;            /* an operation has stored something, and no fence has followed yet */
    struct shm_ring in, out;
    bool messages_are_rare; /* messages come here seldom: their receiver sleeps at once */
    struct shm_peer_domain peer;
    struct fabric_bell bell;
    struct fabric_queue pending; /* operations that wait for credit, in the order of posting */
    uint32_t data_bytes;         /* bytes of the peer's private data */
    uint8_t data[TARN_FABRIC_PRIVATE_BYTES_MAX];
};

/** Wake the peer's service, which then rings its bell. */
void shm_connection_ring_peer(struct shm_connection *connection);

/** Tell the peer that the connection has ended, and free it, once the peer can write no more. Yields. */
void shm_connection_end(struct shm_connection *connection);

/** End and free a ghost, although its peer might still write. */
void shm_ghost_end_locked(struct shm_connection *connection);

/** Handle a byte, or the end, of the peer's socket. In the service's thread. */
void shm_socket_event(struct shm_source *source);

/** Handle the end of the peer's process. In the service's thread. */
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
    struct base_log_limit refusals; /* limits the lines about refused clients */
};

#endif
