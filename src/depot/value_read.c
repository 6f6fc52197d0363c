/* Reading values in pieces, and parts of values. */
#include "depot/depot_internal.h"
#include <errno.h>

#define TRIES 8 /* before the key is locked: then no writer disturbs */

/* What is to be read of a value. */
struct part {
    const struct depot_key *key;
    uint64_t if_version; /* 0: any */
    uint64_t offset;
    uint8_t *data;
    uint64_t bytes;           /* room; and what was read */
    bool whole;               /* else -ENOBUFS */
    struct tarn_lease *lease; /* what lies together of it, instead of a copy in `data`; NULL: a copy */
    struct tarn_record_info info;
};

/* Whether a piece has the length that its head says. */
static bool is_right(const struct depot_record *piece, const struct seglog_pieces_format *head)
{
    uint64_t begin = (uint64_t)piece->pieces.number * head->piece_bytes;
    return piece->pieces.piece_bytes == head->piece_bytes &&
           piece->header.value_bytes == base_min((uint64_t)head->piece_bytes, head->value_bytes - begin);
}

/* Copy bytes of a record to their place in a part, or lease them. @return 0; -ENOBUFS */
static int hand_out(struct depot_record *record, uint64_t within, uint64_t bytes, const struct part *part,
                    uint64_t done)
{
    if (part->lease != NULL)
        return depot_lease_record(record, within, bytes, part->lease);
    memcpy(part->data + done, record->value + within, bytes);
    return 0;
}

/* @return 0; -ENOBUFS (lease); -ESTALE (a piece is not there: its value has gone); -EBADMSG; the drive's error */
static int read_pieces(struct tarn_depot *depot, const struct seglog_pieces_format *head,
                       const struct part *part)
{
    for (uint64_t done = 0; done < part->bytes;) {
        uint64_t at = part->offset + done;
        struct depot_key key = depot_piece_key(depot, head->id, (uint32_t)(at / head->piece_bytes));
        key.trace = part->key->trace;
        key.snapshot = part->key->snapshot;
        struct depot_record piece;
        int error = depot_find(depot, &key, DEPOT_WANT_WHOLE, true, &piece);
        if (error != 0)
            return error == -ENOENT ? -ESTALE : error;
        if (!is_right(&piece, head)) {
            depot_record_release(&piece);
            return depot_damaged(depot, piece.grain);
        }
        uint64_t within = at % head->piece_bytes;
        uint64_t bytes = base_min(part->bytes - done, piece.header.value_bytes - within);
        error = hand_out(&piece, within, bytes, part, done);
        depot_record_release(&piece);
        if (error != 0 || part->lease != NULL)
            return error;
        done += bytes;
    }
    return 0;
}

/* How much of a value is meant. @return 0; -ENOBUFS; -ESTALE */
static int clip(struct part *part)
{
    uint64_t value_bytes = part->info.value_bytes;
    if (part->if_version != 0 && part->info.version != part->if_version)
        return -ESTALE;
    if (part->whole && value_bytes > part->bytes)
        return -ENOBUFS;
    part->offset = base_min(part->offset, value_bytes);
    part->bytes = base_min(part->bytes, value_bytes - part->offset);
    return 0;
}

/*
 * One try.
 *
 * @param ret_head  set if the value is in pieces
 * @return -EAGAIN: its pieces were not all there
 */
static int read_once(struct tarn_depot *depot, struct part *part, bool locked,
                     struct seglog_pieces_format *ret_head)
{
    struct depot_record record;
    ret_head->id = 0;
    int error = depot_find_sure(depot, part->key, DEPOT_WANT_WHOLE, locked, &record);
    if (error != 0)
        return error;
    error = depot_show(depot, part->key, &record, &part->info);
    if (error == 0)
        error = clip(part);
    if (error == 0 && !depot_is_head(&record) && part->bytes > 0)
        error = hand_out(&record, part->offset, part->bytes, part, 0);
    depot_record_release(&record);
    if (error != 0 || !depot_is_head(&record))
        return error;
    *ret_head = record.pieces;
    error = read_pieces(depot, ret_head, part);
    if (error == 0)
        base_counter_add(&depot->get_hits, 1);
    return error == -ESTALE ? -EAGAIN : error;
}

/* A value that is replaced while it is read is read anew; one that stays and lacks a piece is damaged. */
static int read_part(struct tarn_depot *depot, struct part *part)
{
    const struct part asked = *part;
    struct seglog_pieces_format head, head_before = {.id = 0};
    struct task_mutex *lock = NULL;
    int error;
    for (int tries = 0;; tries++) {
        *part = asked;
        error = read_once(depot, part, lock != NULL, &head);
        if (error != -EAGAIN)
            break;
        if (head.id == head_before.id) {
            base_error_limited(&depot->node->log, &depot->damage_limit, "a value lacks a piece", "path=%s",
                               drive_name(depot->drive));
            error = -EBADMSG;
            break;
        }
        head_before = head;
        if (tries == TRIES) {
            lock = depot_key_lock(depot, part->key);
            task_mutex_lock_firmly(lock);
        }
    }
    if (lock != NULL)
        task_mutex_unlock(lock);
    return error;
}

int depot_pieces_get(struct tarn_depot *depot, const struct depot_key *key, void *value, size_t value_room,
                     struct tarn_record_info *ret_info)
{
    struct part part = {.key = key, .data = value, .bytes = value_room, .whole = true};
    int error = read_part(depot, &part);
    if (ret_info != NULL && (error == 0 || error == -ENOBUFS))
        *ret_info = part.info;
    return error;
}

/* @param ret_bytes  NULL: nobody asks */
static int read_and_tell(struct tarn_depot *depot, struct part *part, size_t *ret_bytes,
                         struct tarn_record_info *ret_info)
{
    int error = read_part(depot, part);
    if (error != 0)
        return error;
    if (ret_bytes != NULL)
        *ret_bytes = part->bytes;
    if (ret_info != NULL)
        *ret_info = part->info;
    return 0;
}

int depot_read_part(struct tarn_depot *depot, const struct depot_key *key, uint64_t if_version,
                    uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                    struct tarn_record_info *ret_info)
{
    struct part part = {
        .key = key, .if_version = if_version, .offset = offset, .data = data, .bytes = data_room};
    return read_and_tell(depot, &part, ret_bytes, ret_info);
}

/* A client's read of a part. */
static int serve_part(struct tarn_depot *depot, const void *key, size_t key_len, struct part *part,
                      size_t *ret_bytes, struct tarn_record_info *ret_info)
{
    struct depot_trace trace;
    struct depot_key found_key;
    int error = depot_get_begin(depot, key, key_len, &trace, &found_key);
    if (error != 0)
        return error;
    part->key = &found_key;
    error = read_and_tell(depot, part, ret_bytes, ret_info);
    depot_trace_end(&depot->stages, &trace, TARN_STAGE_GET);
    return error;
}

int tarn_depot_read(struct tarn_depot *depot, const void *key, size_t key_len, uint64_t if_version,
                    uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                    struct tarn_record_info *ret_info)
{
    struct part part = {.if_version = if_version, .offset = offset, .data = data, .bytes = data_room};
    return serve_part(depot, key, key_len, &part, ret_bytes, ret_info);
}

int tarn_depot_lease(struct tarn_depot *depot, const void *key, size_t key_len, uint64_t if_version,
                     uint64_t offset, struct tarn_lease *ret_lease, struct tarn_record_info *ret_info)
{
    struct tarn_lease lease = {.data = NULL};
    struct part part = {.if_version = if_version, .offset = offset, .bytes = SIZE_MAX, .lease = &lease};
    int error = serve_part(depot, key, key_len, &part, NULL, ret_info);
    if (error == 0)
        *ret_lease = lease;
    return error;
}
