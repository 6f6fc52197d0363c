/* The provider `shm`: the processes of one user on one host. For the files of this folder. */
#ifndef FABRIC_SHM_SHM_H
#define FABRIC_SHM_SHM_H

#include "fabric/bell.h"
#include "fabric/fabric_internal.h"
#include "fabric/key.h"
#include "fabric/service.h"
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
 * Make a file: mode 0600, its length fixed for ever, all zero and all there, so that a lack of memory is an error here and
 * no signal later.
 *
 * @param readers  peers only read it: seal it, so that no process, this one included, can map it writable again or write
 *                 to it by other means
 * @param region   the region whose memory it becomes, which its caller may watch; NULL: it is no region
 * @return 0 or negative errno
 */
base_must_check int shm_file_make(const char *name, uint64_t bytes, bool readers,
                                  const struct tarn_fabric_region *region, struct shm_file *ret_file);

/**
 * Map a file that a peer has made, and check that it has the length that the peer claims.
 *
 * @param fd  still the caller's afterwards
 * @return 0; -EPROTO (another kind of file, another length, or one that could become shorter); -ENOMEM
 */
base_must_check int shm_file_take(int fd, uint64_t bytes, bool writable, struct shm_file *ret_file);

/** Close the descriptor; the memory stays mapped. */
void shm_file_close(struct shm_file *file);

/** Unmap and close. */
void shm_file_drop(struct shm_file *file);

/* ---- closer.c: a thread that closes descriptors --------------------------------------------------- */

/** Start the thread. @return 0 or negative errno */
base_must_check int shm_closer_open(struct shm *shm);

/** End the thread. Waits two seconds at most for what is still to be closed. */
void shm_closer_close(const struct shm *shm);

/**
 * Close a descriptor that came from a peer, or through which a peer can send some, in a thread of its own: closing what
 * a peer has chosen may take as long as it likes (a TCP socket that lingers, a file of a file system in user space).
 * Never waits.
 *
 * @param closer  shm.closer; -1: close it at once
 */
void shm_close_later(int closer, int fd);

/** Shut a peer's socket down at once, so that the peer sees that, and close it later. */
void shm_socket_close(int closer, int fd);

/* ---- ring.c: messages --------------------------------------------------------------------------- */

struct shm_ring_format;

/* One side of a ring, whose file the receiver has made. All that the other side writes there is checked. */
struct shm_ring {
    struct shm_file file;
    struct shm_ring_format *shared;
    _Atomic uint32_t *asleep, *peer_asleep; /* 1: this side, or the other, waits to be rung; in the file */
    uint32_t slots;
    uint32_t payload_bytes; /* the most payload bytes of a slot */
    uint64_t position;      /* number of messages that this side has written or read */
    uint64_t read_seen; /* the writer's alone: number of messages that the reader had read at the last look */
};

/** Bytes that a ring takes. */
uint64_t shm_ring_bytes(uint32_t slots, uint32_t payload_bytes);

/** Begin to use a ring whose file is mapped. @param reads  this side reads it; otherwise it writes */
void shm_ring_begin(struct shm_ring *ring, uint32_t slots, uint32_t payload_bytes, bool reads);

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

/** Ask the other side to ring: the writer, when there is a message; the reader, when there is credit. */
void shm_ring_arm(struct shm_ring *ring);

/** Whether the other side has asked to be rung; asking once is answered once. */
bool shm_ring_peer_sleeps(struct shm_ring *ring);

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

struct shm_region;

struct shm_domain {
    struct shm *shm;
    uint64_t identity; /* in every handle */
    struct shm_file table_file;
    _Atomic uint64_t *table; /* for each slot the generation of its region, or 0; peers map it to read */
    uint32_t table_slots;
    uint64_t charged_bytes;
    /* What follows is guarded by the service's lock. */
    uint32_t holders; /* the domain until it is closed, and its regions until nothing is left of them */
    struct shm_region **regions; /* by slot; NULL: none */
    struct fabric_keys keys;
    uint64_t left_bytes[2];       /* bytes that regions may still take; [1]: those that peers may change */
    struct base_list connections; /* of struct shm_connection, ghosts included */
};

/** Bytes of a table. */
uint64_t shm_table_bytes(uint32_t slots);

/** Answer a peer that asks for the file of a region. @return 0; -ENOMEM; -ECONNRESET: it takes no answers */
base_must_check int shm_exposure_begin_locked(struct shm_connection *connection, uint64_t key);

/** A peer has unmapped a region that was freed. */
void shm_exposure_end_locked(struct shm_connection *connection, uint64_t key);

/** A peer has nothing mapped any more. */
void shm_exposures_end_locked(struct shm_connection *connection);

/** Members of struct fabric_provider, which says what each promises. */
int shm_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain);
void shm_domain_close(void *state);
int shm_region_alloc(void *state, struct tarn_fabric_region *region);
int shm_region_register(void *state, struct tarn_fabric_region *region);
int shm_region_adopt(void *state, struct tarn_fabric_region *region);
void shm_region_free(void *state, struct tarn_fabric_region *region);

/* ---- peer.c: a peer's domain -------------------------------------------------------------------- */

struct shm_mapping;

/* A peer's region, mapped; it is there while its generation is in the peer's table. */
struct shm_sight {
    struct shm_sight *next; /* in its bucket */
    uint64_t key;
    uint64_t generation;
    const _Atomic uint64_t *now; /* the slot in the peer's table */
    uint8_t *memory;
    uint64_t bytes;
    uint32_t rights; /* as the owner has said; a file that may only be read is mapped to read only */
    struct shm_mapping *mapping;
};

#define SHM_BUCKETS 64

/* A peer's domain. Its user is the connection's, but for what the service's thread says. */
struct shm_peer_domain {
    uint64_t identity;
    struct shm_mapping *table; /* NULL: not known yet */
    uint32_t table_slots;
    struct shm_sight *sights[SHM_BUCKETS]; /* by key */
    uint64_t refused;         /* the key of which the peer said last that it has no such region */
    _Atomic uint64_t asked;   /* the key that the peer was asked for; 0: none */
    struct shm_sight *answer; /* what it has answered; NULL: there is no such region */
    _Atomic uint32_t news;    /* what the service's thread has heard, and the user has not looked at yet */
};

#define SHM_ANSWERS UINT32_C(1) /* `answer` is there */
#define SHM_FREES   UINT32_C(2) /* the peer has freed regions that this side has mapped */

struct shm_hello;
struct shm_note;

/** Take the domain of a hello. @param table  the file of its table, still the caller's @return 0; -EPROTO; -ENOMEM */
base_must_check int shm_peer_domain_take(struct shm *shm, const struct shm_hello *hello, int table,
                                         struct shm_peer_domain *peer);

/** Unmap a peer's domain. */
void shm_peer_domain_drop(struct shm *shm, struct shm_peer_domain *peer);

/**
 * Ask a peer for the region of an operation, which is carried out once the answer has come. Never waits.
 *
 * @return 0; -EACCES: there is no such region, or it does not grant the operation; -ECONNRESET
 */
base_must_check int shm_peer_ask(struct shm_connection *connection, const struct tarn_fabric_op *op);

/** Take a note of a peer's about its regions. Run by the service's thread. @param fd  still the caller's
 * @return 0; -EPROTO; -ENOMEM */
base_must_check int shm_peer_hear_locked(struct shm_connection *connection, const struct shm_note *note,
                                         int fd);

/** Have operations find the region that has come, and unmap those that were freed. Never waits. */
void shm_peer_take_news(struct shm_connection *connection);

/** The sight of a key, or NULL. */
static inline struct shm_sight *shm_sight_of(const struct shm_peer_domain *peer, uint64_t key)
{
    struct shm_sight *sight = peer->sights[key % SHM_BUCKETS];
    while (sight != NULL && sight->key != key)
        sight = sight->next;
    return sight;
}

/** Whether the owner has not freed the region of a sight. The load pairs with the store of shm_region_free(). */
static inline bool shm_sight_holds(const struct shm_sight *sight)
{
    atomic_signal_fence(memory_order_seq_cst); /* what an operation has copied before is not copied after */
    return base_likely(atomic_load(sight->now) == sight->generation);
}

/**
 * Find the region that an operation names in a peer's domain, as the peer's table has it now.
 *
 * @param rights  the rights that the operation needs
 * @return a sight that has op->bytes at op->offset, word-aligned if the rights have TARN_FABRIC_MAY_SWAP; NULL: shm_peer_ask()
 */
base_must_check static inline const struct shm_sight *
shm_locate(const struct shm_peer_domain *peer, const struct tarn_fabric_op *op, uint32_t rights)
{
    const struct tarn_fabric_handle *handle = op->handle;
    const struct shm_sight *sight = shm_sight_of(peer, handle->key);
    if (base_unlikely(sight == NULL || handle->domain != peer->identity || !shm_sight_holds(sight)))
        return NULL;
    bool granted = (sight->rights & rights) == rights && op->offset <= sight->bytes &&
                   op->bytes <= sight->bytes - op->offset;
    return base_likely(granted) ? sight : NULL;
}

/* ---- hello.c, listener.c: how two processes meet ------------------------------------------------------------ */

/*
 * A side's first message, as it is sent, of one machine's byte order. With it come two descriptors.
 *
 * | offset | bytes | meaning                                                       |
 * |--------|-------|---------------------------------------------------------------|
 * | 0      | 4     | what this is, version 2: set by hello.c                       |
 * | 4      | 4     | 0; 1: refused, 2: out of memory, and nothing else counts      |
 * | 8      | 8     | identity of the sender's domain                               |
 * | 16     | 4     | slots of its table of regions                                 |
 * | 20     | 4     | slots of the ring in which the sender receives                |
 * | 24     | 4     | payload of each                                               |
 * | 28     | 4     | bytes of private data                                         |
 * | 32     | 56    | private data, zeros after it                                  |
 */
struct shm_hello {
    uint32_t mark;
    uint32_t refused;
    uint64_t identity;
    uint32_t table_slots;
    uint32_t ring_slots;
    uint32_t ring_payload_bytes;
    uint32_t data_bytes;
    uint8_t data[TARN_FABRIC_PRIVATE_BYTES_MAX];
};

_Static_assert(sizeof(struct shm_hello) == 88, "a message between processes");

enum shm_hello_fd { SHM_TABLE, SHM_RING, SHM_HELLO_FDS }; /* the files that come with it */

/* A hello that was received, with its descriptors. */
struct shm_greeting {
    struct shm_hello hello;
    int fds[SHM_HELLO_FDS];
    pid_t pid;
};

/** Make a socket for hellos: the kernel attaches each sender's credentials to its messages, also on sockets that are
 * accepted by this one. @return 0 or negative errno */
base_must_check int shm_socket(int *ret_socket);

/** Send a message with descriptors. Never waits. @return false: the peer's end is full, or shut */
bool shm_message_send(int fd, const void *bytes, size_t count, const int *fds, unsigned fd_count);

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

/* The kinds of notes of connected sides. */
enum shm_note_kind {
    SHM_LOOK,      /* nothing but: look at the ring */
    SHM_ASK,       /* send me the file of the region with this key */
    SHM_FILE,      /* here it is */
    SHM_NO_REGION, /* there is none */
    SHM_FREED,     /* regions whose files you have are no more: look at the table */
    SHM_DROPPED,   /* the region with this key is not mapped here any more */
};

/*
 * What connected sides tell each other over the socket, as it is sent. A message of any other length, usually of one
 * byte, says: look.
 *
 * | offset | bytes | meaning                                                       |
 * |--------|-------|---------------------------------------------------------------|
 * | 0      | 4     | enum shm_note_kind                                            |
 * | 4      | 4     | file: the region's slot in the table                          |
 * | 8      | 8     | key of the region; of freed 0                                 |
 * | 16     | 8     | file: its generation                                          |
 * | 24     | 8     | file: its length                                              |
 * | 32     | 4     | file: its rights; its descriptor comes with the note          |
 * | 36     | 4     | 0                                                             |
 */
struct shm_note {
    uint32_t kind;
    uint32_t slot;
    uint64_t key;
    uint64_t generation;
    uint64_t bytes;
    uint32_t rights;
    uint32_t unused;
};

_Static_assert(sizeof(struct shm_note) == 40, "a message between processes");

/** Send a note, with a descriptor or -1. Never waits. @return false: the peer's end is full, or shut */
bool shm_note_send(int socket, const struct shm_note *note, int fd);

/**
 * Receive a note of a peer that has said its hello. Never waits.
 *
 * @param ret_note  what is no note is SHM_LOOK
 * @param ret_fd    the descriptor that came with it, the caller's now, or -1; any more are closed
 * @return as recv()
 */
ssize_t shm_note_receive(int closer, int socket, struct shm_note *ret_note, int *ret_fd);

/** Close a hello's descriptors. */
void shm_greeting_drop(int closer, struct shm_greeting *greeting);

/** Members of struct fabric_provider, which says what each promises. */
int shm_listen(void *state, const char *address, void **ret_listener);
void shm_listener_close(void *state);
int shm_listener_wait(void *state, uint64_t deadline_ns, struct tarn_fabric_incoming **ret_incoming);
void shm_reject(struct tarn_fabric_incoming *incoming, int error);

/** Free an incoming client; its hello's descriptors and its socket are the caller's. @return the socket */
int shm_incoming_take(struct tarn_fabric_incoming *client, struct shm_greeting *ret_greeting);

/* ---- connection.c, connect.c -------------------------------------------------------------------- */

/*
 * A connection. While it has an owner, the owner's thread uses it, and the service's thread watches the socket and
 * the pidfd. After shm_disconnect() it is a ghost, which belongs to the service until the peer has nothing mapped any more.
 */
struct shm_connection {
    struct base_list link;      /* shm_domain.connections */
    struct base_list exposures; /* what its peer has of the domain; the service's lock guards it */
    struct shm *shm;
    struct shm_domain *domain;
    struct tarn_fabric_connection
        *owner; /* the public object; NULL: a ghost. The service's lock guards changes */
    struct fabric_source socket;
    struct fabric_source process; /* the pidfd of the peer's process */
    _Atomic bool answered;        /* while connecting: the answer can be read from the socket */
    _Atomic bool ended;           /* the peer's process has ended */
    bool unsettled;               /* an operation has stored something, and no fence has followed yet */
    struct shm_ring in, out;
    bool messages_are_rare; /* messages come here seldom: their receiver sleeps at once */
    struct shm_peer_domain peer;
    struct fabric_bell bell;
    struct fabric_queue pending; /* operations that wait for credit or a region, in the order of posting */
};

/** End and free a ghost, although its peer might still write. */
void shm_ghost_end_locked(struct shm_connection *connection);

/** Handle a byte, or the end, of the peer's socket. In the service's thread. */
void shm_socket_event(struct fabric_source *source);

/** Handle the end of the peer's process. In the service's thread. */
void shm_process_event(struct fabric_source *source);

/** Members of struct fabric_provider, which says what each promises. */
int shm_accept(struct tarn_fabric_incoming *incoming, void *state,
               const struct tarn_fabric_connect_options *options, struct tarn_fabric_connection *owner,
               void **ret_connection);
int shm_connect(void *state, const char *address, const struct tarn_fabric_connect_options *options,
                uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection);
void shm_post(void *state, struct tarn_fabric_op *op);
bool shm_run(void *state, struct tarn_fabric_op *op);
void shm_prefetch(void *state, const struct tarn_fabric_handle *handle, uint64_t offset, uint64_t bytes);
void shm_posted(void *state);
void shm_progress(void *state);
int shm_wait(void *state, struct tarn_fabric_op *op, uint64_t deadline_ns);
bool shm_watch(void *state, struct fabric_watch *watch);
int shm_receive(void *state, void *data, uint32_t room, uint64_t deadline_ns,
                struct tarn_fabric_message *ret_message);
void shm_fail(void *state);
bool shm_peer_is_there(void *state);
int shm_fence(void *state, uint64_t deadline_ns);
void shm_disconnect(void *state);

/* ---- shm.c -------------------------------------------------------------------------------------- */

struct shm {
    struct tarn_node *node;
    struct fabric_service service;
    int closer; /* to shm_close_later()'s thread */
    pthread_t closer_thread;
    struct base_log_limit refusals; /* limits the lines about refused clients */
    struct base_list
        regions; /* of struct shm_region, those with a file of their own; the service's lock guards it */
    struct base_spin mappings_lock; /* guards the list, and the counts in it */
    struct base_list mappings;      /* of struct shm_mapping: files of peers */
};

#endif
