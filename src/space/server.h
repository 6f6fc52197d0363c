/* The insides of a memory server, for its files: all of it belongs to tasks of its scheduler, so nothing is locked. */
#ifndef SPACE_SERVER_H
#define SPACE_SERVER_H

#include "space/space.h"
#include "space/wire.h"
#include <limits.h>
#include <tarn/rpc.h>

/* A namespace that has chunks here, or clients. */
struct server_space {
    struct base_list link;
    uint32_t number;
    struct space_server *server;
    uint32_t users;   /* chunks that it has, and clients */
    bool is_unfenced; /* some clients of it are to be fenced, and were not yet: while this is being told */
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region
        *words; /* the version words of all chunks, which its clients read; NULL: not used yet */
};

struct server_chunk {
    struct tarn_fabric_region *memory;
    struct server_space *space;      /* NULL: no namespace has it */
    struct tarn_fabric_region *bulk; /* its memory in the namespace's domain, for either class */
    struct tarn_fabric_region *words;
    bool is_dirty;        /* it holds what a namespace has left there */
    bool is_being_zeroed; /* a task is at it */
};

/* A client's connection, from its hello until it cannot write here any more. */
struct server_client {
    struct base_list link;
    struct space_server *server;
    struct tarn_fabric_incoming *incoming; /* NULL: it was accepted or refused */
    struct space_hello hello;
    struct server_space *space;
    struct tarn_fabric_connection *connection; /* NULL: not yet */
    bool is_fenced;                            /* the master wants it ended */
    bool is_suspect; /* the master tells what sessions live, and has not told this one yet */
};

struct space_server {
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    struct task_sched *sched;
    char name[TARN_SPACE_NAME_MAX + 1];
    char address[SPACE_ADDRESS_MAX + 1];
    char masters[SPACE_ADDRESSES_MAX + 1]; /* their addresses */
    uint32_t turn;                         /* which of them is tried */
    uint8_t secret[TARN_SPACE_SECRET_MAX];
    uint32_t secret_bytes;
    uint8_t identity[SPACE_IDENTITY_BYTES];
    char memory_file[PATH_MAX]; /* its path; empty: there is none */
    int next_file;              /* descriptor of FILE.tmp, which takes its place at the end; -1: none */
    bool has_loaded;            /* the contents, and the identity, are those of the memory file */
    bool is_to_be_saved;        /* nobody else can take the contents up any more: they are saved at the end */
    uint64_t chunk_bytes;
    uint32_t chunk_count;
    struct server_chunk *chunks;
    struct tarn_fabric_domain *domain; /* in which the memory was made; no peer is connected with it */
    struct tarn_fabric_listener *listener;
    struct task_group group;
    struct task_semaphore dirty; /* posted when a chunk is to be zeroed */
    _Atomic bool closing;
    struct base_list spaces;               /* of struct server_space */
    struct base_list clients;              /* of struct server_client */
    struct tarn_rpc_connection *questions; /* over which the master is asked; NULL: it is not there */
    uint32_t questioners;                  /* tasks that use it */
    struct tarn_rpc_connection *attended;  /* over which the master gives orders; NULL: it does not */
    uint64_t heard_ns;                     /* when it has last given one */
    uint64_t lease_ns;                     /* for which its silence is endured */
    _Atomic uint64_t refused, client_count, assigned_count, dirty_count;
    _Atomic bool is_attended;
};

/** The namespace of a number; made if there is none. The caller has a use of it. @return 0; -ENOMEM and the like */
base_must_check int server_space_get(struct space_server *server, uint32_t number,
                                     struct server_space **ret_space);

/** Give back a use of a namespace. Yields. */
void server_space_put(struct server_space *space);

/* ---- server_chunks.c ---------------------------------------------------------------------------- */

/** Make all memory. Yields. */
base_must_check int server_make_chunks(struct space_server *server);

/** Take all chunks from their namespaces; what they hold stays. No task of the server runs any more. Yields. */
void server_revoke_chunks(struct space_server *server);

/** Give all memory back. Yields. */
void server_free_chunks(struct space_server *server);

/** Assign a chunk to a namespace. @return 0; -EINVAL; -EBUSY: another namespace has it. Yields. */
base_must_check int server_assign(struct space_server *server, uint32_t chunk, uint32_t space_number);

/** Take a chunk from its namespace; it is to be zeroed. @return 0; -EINVAL. Yields. */
int server_unassign(struct space_server *server, uint32_t chunk);

/** Set the version word of a chunk. @param version  as space_version_word() @return 0; -EINVAL: the namespace does not have the
 * chunk; -ENOMEM and the like. Yields. */
base_must_check int server_mark(struct server_space *space, uint32_t chunk, uint32_t version);

/** The handles of a chunk; all 0 if no namespace has it. */
struct space_keys server_keys(const struct server_chunk *chunk);

/** Zero what is dirty, until the server closes. A task. */
void server_clean_task(void *arg);

/** Have no version word say that a chunk is current. */
void server_forget_marks(struct space_server *server);

/* ---- server_copy.c ------------------------------------------------------------------------------ */

/** Write what a chunk of another memory server holds into one of the same namespace here, as long as the master that has ordered it is
 * there. @param hello  to the other server @param from  the other chunk. @return 0; -EINVAL; errors of the fabric's. Yields. */
base_must_check int server_copy(struct space_server *server, uint32_t number, const struct space_hello *hello,
                                const struct tarn_fabric_handle *from, const char *address,
                                uint64_t deadline_ns);

/* ---- server_file.c ------------------------------------------------------------------------------ */

/** Take up what the memory file has, if there is one, and leave the file as it is. No task of the server runs yet.
 * @return 0; -EINVAL, -EUCLEAN, -EBUSY (another server has the file), errors of the kernel (logged). Yields. */
base_must_check int server_load(struct space_server *server);

/** Remove the memory file, so that nobody takes its contents up again; from now on the contents are to be saved.
 * @return 0; errors of the kernel (logged) */
base_must_check int server_remove_file(struct space_server *server);

/** If the contents are to be saved, take all chunks from their namespaces, and save what they hold in the memory file. What goes
 * wrong is logged. No task of the server runs any more. Yields. */
void server_close_file(struct space_server *server);

/* ---- server_clients.c --------------------------------------------------------------------------- */

/** Accept clients until the server closes. A task. */
void server_accept_task(void *arg);

/** Begin to learn what sessions live. */
void server_suspect_all(struct space_server *server);

/** Learn that some sessions live. @param sessions  `count` ids */
void server_trust(struct space_server *server, const uint8_t *sessions, uint32_t count);

/** End the connections of those that have not been told to live, and tell in which namespaces their peers could still write.
 * @param ret_spaces  numbers, 4 bytes each */
void server_fence_suspects(struct space_server *server, struct space_cursor *ret_spaces);

/* ---- server_master.c ---------------------------------------------------------------------------- */

/** Join the master, and serve it, again and again, until the server closes. A task. */
void server_join_task(void *arg);

/** Leave a master that has been silent for a lease, until the server closes. A task. */
void server_watch_task(void *arg);

/** Ask the master whether a session has joined a namespace. @return 0; -EACCES; -EHOSTDOWN and the like: it cannot be asked.
 * Yields. */
base_must_check int server_ask_admission(struct space_server *server, const struct space_hello *hello);

#endif
