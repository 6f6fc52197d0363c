/*
 * What a peer's domain is to this side: its table, and its regions, each of which is asked for at the first operation on
 * it. The user of a connection asks, and looks at what has come; the service's thread takes the answer and maps the file.
 */
#include "fabric/shm/shm.h"
#include <errno.h>
#include <sys/stat.h>

/* A memory file of a peer, mapped once for all connections of this fabric. */
struct shm_mapping {
    struct base_list link; /* shm.mappings */
    struct shm_file file;
    dev_t device;
    ino_t number;
    bool writable;
    uint32_t users;
};

/* ---- mapped files ------------------------------------------------------------------------------- */

/* Take a mapping that there is already into use. @return NULL: there is none */
static struct shm_mapping *use_mapping(struct shm *shm, const struct stat *status, bool writable)
{
    struct shm_mapping *found = NULL;
    base_spin_lock(&shm->mappings_lock);
    base_list_for_each(item, &shm->mappings) {
        struct shm_mapping *mapping = base_container_of(item, struct shm_mapping, link);
        if (mapping->device == status->st_dev && mapping->number == status->st_ino &&
            mapping->writable == writable)
            found = mapping;
    }
    if (found != NULL)
        found->users++;
    base_spin_unlock(&shm->mappings_lock);
    return found;
}

static void leave_mapping(struct shm *shm, struct shm_mapping *mapping)
{
    base_spin_lock(&shm->mappings_lock);
    const bool is_last = --mapping->users == 0;
    if (is_last)
        base_list_remove(&mapping->link);
    base_spin_unlock(&shm->mappings_lock);
    if (!is_last)
        return;
    shm_file_drop(&mapping->file);
    base_free(&shm->node->memory, mapping, sizeof(*mapping));
}

/* Map a file, unless it is mapped. Two threads may do so at the same time, each for itself. @return 0; -EPROTO; -ENOMEM */
static int take_mapping(struct shm *shm, int fd, uint64_t bytes, bool writable,
                        struct shm_mapping **ret_mapping)
{
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0 || (uint64_t)status.st_size != bytes)
        return -EPROTO;
    struct shm_mapping *mapping = use_mapping(shm, &status, writable);
    if (mapping != NULL) {
        *ret_mapping = mapping;
        return 0;
    }
    mapping = base_alloc(&shm->node->memory, sizeof(*mapping));
    if (mapping == NULL)
        return -ENOMEM;
    *mapping = (struct shm_mapping){
        .device = status.st_dev, .number = status.st_ino, .writable = writable, .users = 1};
    int error = shm_file_take(fd, bytes, writable, &mapping->file);
    if (error != 0) {
        base_free(&shm->node->memory, mapping, sizeof(*mapping));
        return error;
    }
    base_spin_lock(&shm->mappings_lock);
    base_list_push_back(&shm->mappings, &mapping->link);
    base_spin_unlock(&shm->mappings_lock);
    *ret_mapping = mapping;
    return 0;
}

/* ---- sights ------------------------------------------------------------------------------------- */

static void drop_sight(struct shm *shm, struct shm_sight *sight)
{
    leave_mapping(shm, sight->mapping);
    base_free(&shm->node->memory, sight, sizeof(*sight));
}

/* Make the sight of a region that its owner has described. Nothing of that is believed. */
static int make_sight(struct shm_connection *connection, const struct shm_note *note, int fd,
                      struct shm_sight **ret_sight)
{
    const uint32_t all =
        TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP | TARN_FABRIC_BULK;
    struct shm *shm = connection->shm;
    struct shm_peer_domain *peer = &connection->peer;
    if (note->slot >= peer->table_slots || note->generation == 0 || (note->rights & ~all) != 0)
        return -EPROTO;
    struct shm_sight *sight = base_alloc(&shm->node->memory, sizeof(*sight));
    if (sight == NULL)
        return -ENOMEM;
    int error = take_mapping(shm, fd, note->bytes, fabric_may_change(note->rights), &sight->mapping);
    if (error != 0) {
        base_free(&shm->node->memory, sight, sizeof(*sight));
        return error;
    }
    const _Atomic uint64_t *table = (const _Atomic uint64_t *)(const void *)peer->table->file.memory;
    sight->key = note->key;
    sight->generation = note->generation;
    sight->now = &table[note->slot];
    sight->memory = sight->mapping->file.memory;
    sight->bytes = note->bytes;
    sight->rights = note->rights;
    *ret_sight = sight;
    return 0;
}

int shm_peer_hear_locked(struct shm_connection *connection, const struct shm_note *note, int fd)
{
    struct shm_peer_domain *peer = &connection->peer;
    task_mutex_assert_held(&connection->shm->service.lock);
    if (note->kind == SHM_FREED) {
        atomic_fetch_or(&peer->news, SHM_FREES);
        return 0;
    }
    if (note->key == 0 || note->key != atomic_load(&peer->asked) ||
        (atomic_load(&peer->news) & SHM_ANSWERS) != 0)
        return -EPROTO;
    peer->answer = NULL;
    int error = note->kind == SHM_FILE ? make_sight(connection, note, fd, &peer->answer) : 0;
    if (error == 0)
        atomic_fetch_or(&peer->news, SHM_ANSWERS);
    return error;
}

/* Take the answer of the peer's that has come. */
static void take_answer(struct shm_peer_domain *peer)
{
    struct shm_sight *sight = peer->answer;
    if (sight == NULL) {
        peer->refused = atomic_load(&peer->asked);
    } else {
        struct shm_sight **bucket = &peer->sights[sight->key % SHM_BUCKETS];
        sight->next = *bucket;
        *bucket = sight;
    }
    atomic_store(&peer->asked, 0); /* before the next line, so that no second answer is taken */
    atomic_fetch_and(&peer->news, ~SHM_ANSWERS);
}

/* Unmap what its owner has freed, and say so. */
static void drop_freed(struct shm_connection *connection)
{
    struct shm_peer_domain *peer = &connection->peer;
    for (unsigned i = 0; i < SHM_BUCKETS; i++) {
        for (struct shm_sight **place = &peer->sights[i]; *place != NULL;) {
            struct shm_sight *sight = *place;
            if (atomic_load(sight->now) == sight->generation) {
                place = &sight->next;
                continue;
            }
            const struct shm_note dropped = {.kind = SHM_DROPPED, .key = sight->key};
            *place = sight->next;
            drop_sight(connection->shm, sight);
            (void)shm_note_send(connection->socket.fd, &dropped,
                                -1); /* else the owner counts it until the end */
        }
    }
}

void shm_peer_take_news(struct shm_connection *connection)
{
    struct shm_peer_domain *peer = &connection->peer;
    if ((atomic_load(&peer->news) & SHM_ANSWERS) != 0)
        take_answer(peer);
    if ((atomic_fetch_and(&peer->news, ~SHM_FREES) & SHM_FREES) != 0)
        drop_freed(connection);
}

/* ---- a peer's domain ---------------------------------------------------------------------------- */

int shm_peer_domain_take(struct shm *shm, const struct shm_hello *hello, int table,
                         struct shm_peer_domain *peer)
{
    if (hello->table_slots == 0 || hello->table_slots > TARN_FABRIC_REGIONS_MAX)
        return -EPROTO;
    int error = take_mapping(shm, table, shm_table_bytes(hello->table_slots), false, &peer->table);
    if (error != 0)
        return error;
    peer->identity = hello->identity;
    peer->table_slots = hello->table_slots;
    return 0;
}

void shm_peer_domain_drop(struct shm *shm, struct shm_peer_domain *peer)
{
    if ((atomic_load(&peer->news) & SHM_ANSWERS) != 0)
        take_answer(peer);
    atomic_store(&peer->asked, 0); /* an answer that is on its way is not taken */
    for (unsigned i = 0; i < SHM_BUCKETS; i++) {
        while (peer->sights[i] != NULL) {
            struct shm_sight *sight = peer->sights[i];
            peer->sights[i] = sight->next;
            drop_sight(shm, sight);
        }
    }
    if (peer->table != NULL)
        leave_mapping(shm, peer->table);
    peer->table = NULL;
}

int shm_peer_ask(struct shm_connection *connection, const struct tarn_fabric_op *op)
{
    struct shm_peer_domain *peer = &connection->peer;
    const uint64_t key = op->handle->key;
    const struct shm_note note = {.kind = SHM_ASK, .key = key};
    if (op->handle->domain != peer->identity || key == 0 || key == peer->refused ||
        shm_sight_of(peer, key) != NULL)
        return -EACCES;
    if (atomic_load(&peer->asked) != 0)
        return 0; /* of the one that came before */
    atomic_store(&peer->asked, key);
    return shm_note_send(connection->socket.fd, &note, -1) ? 0 : -ECONNRESET;
}
