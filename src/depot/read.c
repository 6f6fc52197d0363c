/* Reading records: one read, and the search for a key. */
#include "depot/depot_internal.h"
#include <errno.h>
#include <inttypes.h>

#define DAMAGE_TRIES    3 /* a read may return damaged bytes once */
#define DISTURBED_TRIES 8 /* before a reader takes the key lock */

/* ---- one read ---------------------------------------------------------------------------------------- */

/* What is in the memory of an asynchronous writer needs no drive. */
static bool read_from_memory(struct tarn_depot *depot, struct depot_read *read)
{
    struct seglog_record_format header;
    uint8_t *to = read->record.buffer + ((read->record.grain << depot->grain_shift) - read->begin);
    if (!depot->async || !seglog_read_pending(depot->log, read->record.grain, to, sizeof(header)))
        return false;
    memcpy(&header, to, sizeof(header));
    uint64_t bytes = seglog_record_bytes(header.kind, header.key_bytes, header.value_bytes);
    if (bytes > read->room && read->want == DEPOT_WANT_WHOLE)
        return false;
    return seglog_read_pending(depot->log, read->record.grain, to, base_min(bytes, read->room));
}

/* What the hot tier has needs neither a drive nor a buffer. */
static bool read_from_hot(struct tarn_depot *depot, struct depot_read *read)
{
    struct depot_hot_found found;
    if (depot->hot == NULL)
        return false;
    bool counts = read->warms == DEPOT_WARMS;
    bool is_there = depot_hot_find(depot->hot, read->record.grain, read->stamp, counts, &found);
    if (counts)
        base_counter_add(is_there ? &depot->hot_hits : &depot->hot_misses, 1);
    if (!is_there)
        return false;
    read->record.buffer = found.record;
    read->record.page = found.page;
    read->begin = read->record.grain << depot->grain_shift;
    read->room = found.room;
    read->span_bytes = 0;
    return true;
}

/* A read of the drive, verified: the next one is served from memory. */
static void warm(struct tarn_depot *depot, const struct depot_read *read)
{
    const struct depot_record *record = &read->record;
    const uint8_t *bytes = record->buffer + ((record->grain << depot->grain_shift) - read->begin);
    const struct depot_hot_part part = {.bytes = bytes, .len = record->bytes};
    if (depot->hot != NULL && read->warms != DEPOT_WARMS_NOT && read->want == DEPOT_WANT_WHOLE &&
        record->page == NULL)
        depot_hot_add(depot->hot, record->grain, read->stamp, &part, 1, read->warms == DEPOT_WARMS_AGAIN);
}

/* Bytes in which an entry's record lies, and maybe a little more. */
static uint64_t room_of(struct tarn_depot *depot, uint64_t word)
{
    const uint64_t offset = depot_index_address(&depot->index, word) << depot->grain_shift;
    const uint64_t room = depot_index_grains(&depot->index, word) << depot->grain_shift;
    return base_min(room,
                    base_min((uint64_t)depot->record_bytes_max, seglog_store_bytes(depot->log) - offset));
}

bool depot_read_post(struct tarn_depot *depot, struct depot_read *read, uint64_t word, enum depot_want want,
                     size_t key_len, bool wait)
{
    uint64_t unit = drive_info(depot->drive)->logical_block_bytes;
    uint64_t grain = depot_index_address(&depot->index, word);
    uint64_t offset = grain << depot->grain_shift;
    uint64_t room = room_of(depot, word);
    if (want == DEPOT_WANT_KEY) /* header, an extension, the key */
        room =
            base_min(room, sizeof(struct seglog_record_format) + seglog_extension_bytes(UINT8_MAX) + key_len);
    read->want = want;
    read->room = room;
    read->begin = base_align_down(offset, unit);
    read->span_bytes = base_align_up(offset + room, unit) - read->begin;
    read->stamp =
        seglog_stamp_at(depot->log, grain); /* before the read: what is written later does not verify */
    read->record = (struct depot_record){.class = NULL, .word = word, .grain = grain};
    if (read_from_hot(depot, read))
        return true;
    uint8_t *buffer;
    struct depot_read_class *class = depot_buffer_take(depot, read->span_bytes, wait, &buffer);
    if (class == NULL)
        return false;
    read->record.class = class;
    read->record.buffer = buffer;
    if (read_from_memory(depot, read)) {
        read->span_bytes = 0;
        return true;
    }
    base_counter_add(&depot->reads, 1);
    read->iov = (struct iovec){.iov_base = buffer, .iov_len = read->span_bytes};
    read->request = (struct drive_request){
        .op = DRIVE_READ, .offset = read->begin, .iov = &read->iov, .iov_count = 1, .region = -1};
    drive_post(depot->drive, &read->request);
    return true;
}

static int verify(struct tarn_depot *depot, struct depot_read *read)
{
    struct depot_record *record = &read->record;
    const uint8_t *bytes = record->buffer + ((record->grain << depot->grain_shift) - read->begin);
    uint64_t seed = seglog_record_seed(depot->check_seed, read->stamp);
    int error =
        seglog_record_parse(bytes, read->room, seed, record->grain, depot->record_bytes_max, &record->header);
    if (error != 0)
        return error;
    const struct seglog_record_format *header = &record->header;
    uint64_t front = seglog_record_bytes(header->kind, header->key_bytes, 0);
    record->bytes = front + header->value_bytes;
    record->key = bytes + front - header->key_bytes;
    record->value = bytes + front;
    if ((header->kind & SEGLOG_KIND_MASK) != SEGLOG_VALUE)
        return -EBADMSG;
    if ((header->kind & SEGLOG_MARKS_PIECES) != 0)
        memcpy(&record->pieces, bytes + sizeof(*header), sizeof(record->pieces));
    if (read->want == DEPOT_WANT_KEY) /* another key may be too long to be read to its end */
        return 0;
    if (record->bytes > read->room)
        return -EBADMSG;
    /* what the hot tier has was verified when it came */
    if (record->page == NULL && seglog_record_verify_body(bytes, header, depot->check_seed) != 0)
        return -EBADMSG;
    return !depot_is_head(record) || depot_pieces_make_sense(&record->pieces) ? 0 : -EBADMSG;
}

bool depot_read_within(struct tarn_depot *depot, uint8_t *memory, uint64_t begin, uint64_t word,
                       struct depot_record *ret_record)
{
    const uint64_t grain = depot_index_address(&depot->index, word);
    struct depot_read read = {.want = DEPOT_WANT_WHOLE,
                              .begin = begin,
                              .room = room_of(depot, word),
                              .stamp = seglog_stamp_at(depot->log, grain),
                              .record = {.word = word, .grain = grain, .buffer = memory}};
    if (verify(depot, &read) != 0)
        return false;
    *ret_record = read.record;
    return true;
}

int depot_read_finish(struct tarn_depot *depot, struct depot_read *read)
{
    int error = 0;
    if (read->span_bytes > 0) {
        do
            error = drive_wait(&read->request, TASK_FOREVER);
        while (error == -ETIMEDOUT);
        depot_trace_mark(read->trace, TARN_STAGE_READ);
    }
    if (error == 0) {
        error = verify(depot, read);
        depot_trace_mark(read->trace, TARN_STAGE_VERIFY);
    }
    if (error == 0) {
        warm(depot, read);
        return 0;
    }
    if (read->record.page != NULL) /* a bit of memory has changed: the drive has it right */
        (void)depot_hot_drop(depot->hot, read->record.grain);
    depot_record_release(&read->record);
    return error;
}

int depot_damaged(struct tarn_depot *depot, uint64_t grain)
{
    base_error_limited(&depot->node->log, &depot->damage_limit, "a record is damaged",
                       "path=%s offset=%" PRIu64, drive_name(depot->drive), grain << depot->grain_shift);
    return -EBADMSG;
}

/* ---- the search for a key ------------------------------------------------------------------------------ */

/*
 * Whether what was read is what the entry still means: then it was the record of its key all the time.
 *
 * @param view  that the entry was found in, or NULL: where nothing near it has changed, one look is enough
 */
static bool still_there(struct tarn_depot *depot, const struct tarn_depot_snapshot *snapshot, uint64_t hash,
                        const struct depot_read *read, const struct depot_index_view *view)
{
    if (snapshot != NULL)
        return depot_snapshot_holds(snapshot);
    bool unchanged = view != NULL && depot_index_unchanged(view);
    return (unchanged || depot_index_holds(&depot->index, hash, read->record.word)) &&
           seglog_stamp_at(depot->log, read->record.grain) == read->stamp;
}

/* Read one entry's record, more than once if it looks damaged and nobody has moved it. */
static int read_word(struct tarn_depot *depot, const struct tarn_depot_snapshot *snapshot,
                     struct depot_read *read, uint64_t hash, uint64_t word, enum depot_want want,
                     size_t key_len)
{
    int error = -EBADMSG;
    for (int tries = 0; tries < DAMAGE_TRIES && error != 0; tries++) {
        base_assert(depot_read_post(depot, read, word, want, key_len, true));
        error = depot_read_finish(depot, read);
        if (error != 0 && !still_there(depot, snapshot, hash, read, NULL))
            return -EAGAIN;
    }
    return error == -EBADMSG ? depot_damaged(depot, read->record.grain) : error;
}

static bool is_key(const struct depot_record *record, const struct depot_key *key)
{
    if (depot_is_piece(record) || key->piece_id != 0)
        return depot_is_piece(record) && record->pieces.id == key->piece_id &&
               record->pieces.number == key->piece_number;
    return record->header.key_bytes == key->len && memcmp(record->key, key->bytes, key->len) == 0;
}

/*
 * Read what may be the record of a key. The header's check does not cover the key: what looks like another
 * one is read whole and verified before it is believed. So is a head, for what it says of its pieces.
 */
static int read_candidate(struct tarn_depot *depot, struct depot_read *read, const struct depot_key *key,
                          uint64_t word, enum depot_want want)
{
    int error = read_word(depot, key->snapshot, read, key->hash.low, word, want, key->len);
    const struct depot_record *record = &read->record;
    if (error != 0 || want == DEPOT_WANT_WHOLE || record->header.key_bytes != key->len ||
        depot_is_piece(record) != (key->piece_id != 0) || (is_key(record, key) && !depot_is_head(record)))
        return error;
    depot_record_release(&read->record);
    return read_word(depot, key->snapshot, read, key->hash.low, word, DEPOT_WANT_WHOLE, key->len);
}

/* Entries that were found to be other keys'. */
struct others {
    uint32_t count;
    uint64_t words[DEPOT_CANDIDATES_MAX];
    uint64_t stamps[DEPOT_CANDIDATES_MAX];
};

/* Whether all that the index has now are those entries, with the records that were read: then the key is not
 * there. */
static bool only_others(struct tarn_depot *depot, const struct depot_index_view *view,
                        const struct others *others)
{
    for (uint32_t i = 0; i < view->count; i++) {
        uint32_t at = 0;
        while (at < others->count && !depot_index_is_same(others->words[at], view->words[i]))
            at++;
        if (at == others->count ||
            seglog_stamp_at(depot->log, depot_index_address(&depot->index, view->words[i])) !=
                others->stamps[at])
            return false;
    }
    return true;
}

static void look_up(struct tarn_depot *depot, const struct depot_key *key, struct depot_index_view *ret_view)
{
    if (key->snapshot != NULL)
        depot_index_snapshot_find(&depot->index, key->snapshot->index, key->hash.low, ret_view);
    else
        depot_index_find(&depot->index, key->hash.low, ret_view);
    depot_trace_mark(key->trace, TARN_STAGE_INDEX);
}

/* One pass over what the index has. @return -EAGAIN: it was changed meanwhile */
static int find_once(struct tarn_depot *depot, const struct depot_key *key, enum depot_want want,
                     struct depot_record *ret_record)
{
    struct depot_index_view view;
    struct others others = {.count = 0};
    struct depot_read read;
    int damage = 0;
    read.trace = key->trace;
    read.warms = key->warms;
    look_up(depot, key, &view);
    if (view.count == 0)
        return -ENOENT;
    for (uint32_t i = 0; i < view.count; i++) {
        int error = read_candidate(depot, &read, key, view.words[i], want);
        if (error == -EAGAIN)
            return error;
        if (error == 0 && is_key(&read.record, key)) {
            if (still_there(depot, key->snapshot, key->hash.low, &read, &view)) {
                *ret_record = read.record;
                return 0;
            }
            depot_record_release(&read.record);
            return -EAGAIN;
        }
        if (error == 0) {
            depot_record_release(&read.record);
            others.words[others.count] = view.words[i];
            others.stamps[others.count++] = read.stamp;
        } else {
            damage = error; /* it may be this key's */
        }
    }
    if (damage != 0)
        return damage;
    look_up(depot, key, &view);
    return only_others(depot, &view, &others) ? -ENOENT : -EAGAIN;
}

int depot_find(struct tarn_depot *depot, const struct depot_key *key, enum depot_want want, bool locked,
               struct depot_record *ret_record)
{
    struct task_mutex *lock = NULL;
    int error;
    for (int tries = 0;; tries++) {
        error = find_once(depot, key, want, ret_record);
        if (key->snapshot != NULL && !depot_snapshot_holds(key->snapshot)) {
            if (error == 0)
                depot_record_release(ret_record);
            error = -ECANCELED;
        }
        if (error != -EAGAIN)
            break;
        if (tries == DISTURBED_TRIES && !locked) { /* no writer disturbs any more */
            lock = depot_key_lock(depot, key);
            task_mutex_lock_firmly(lock);
        }
    }
    if (lock != NULL)
        task_mutex_unlock(lock);
    return error;
}

bool depot_is_unsure(struct tarn_depot *depot, const struct depot_record *record)
{
    uint64_t loss = atomic_load_explicit(&depot->loss_sequence, memory_order_relaxed);
    return base_unlikely(loss != 0) && (record == NULL || record->header.sequence < loss);
}

int depot_find_sure(struct tarn_depot *depot, const struct depot_key *key, enum depot_want want, bool locked,
                    struct depot_record *ret_record)
{
    struct depot_record record;
    int error = depot_find(depot, key, want, locked, &record);
    if (error != 0)
        return error == -ENOENT && depot_is_unsure(depot, NULL) ? -EBADMSG : error;
    if (depot_is_unsure(depot, &record)) {
        depot_record_release(&record);
        return -EBADMSG;
    }
    *ret_record = record;
    return 0;
}

int depot_read_entry(struct tarn_depot *depot, const struct tarn_depot_snapshot *snapshot, uint64_t hash,
                     uint64_t word, enum depot_want want, struct depot_record *ret_record)
{
    struct depot_read read;
    read.trace = NULL;
    read.warms = DEPOT_WARMS_NOT;
    const int gone = snapshot != NULL ? -ECANCELED : -ENOENT;
    int error = read_word(depot, snapshot, &read, hash, word, want, 0);
    if (error == -EAGAIN)
        return gone;
    if (error != 0)
        return error;
    if (!still_there(depot, snapshot, hash, &read, NULL)) {
        depot_record_release(&read.record);
        return gone;
    }
    *ret_record = read.record;
    return 0;
}

/* ---- get ------------------------------------------------------------------------------------------------
 */

void depot_tell(const struct depot_record *record, struct tarn_record_info *ret_info)
{
    if (ret_info != NULL)
        *ret_info = (struct tarn_record_info){
            .version = record->header.version,
            .expiry_ns = seglog_expiry_ns(record->header.expiry),
            .client_flags = record->header.client_flags,
            .value_bytes = depot_is_head(record) ? record->pieces.value_bytes : record->header.value_bytes,
            .note = seglog_note(record->header.kind)};
}

int depot_show(struct tarn_depot *depot, const struct depot_key *key, const struct depot_record *record,
               struct tarn_record_info *ret_info)
{
    if (!depot_visible(depot, key->snapshot, record)) {
        bool flushed =
            record->header.sequence < atomic_load_explicit(&depot->gone_sequence, memory_order_acquire);
        base_counter_add(flushed ? &depot->gets_flushed : &depot->gets_expired, 1);
        return -ENOENT;
    }
    if (depot->cache && !depot_is_head(record)) /* values in pieces are not written again */
        depot_index_hit(&depot->index, key->hash.low, record->word);
    if (!depot_is_head(record)) /* else when its value was read */
        base_counter_add(&depot->get_hits, 1);
    depot_tell(record, ret_info);
    return 0;
}

int depot_get_begin(struct tarn_depot *depot, const void *key, size_t key_len, struct depot_trace *trace,
                    struct depot_key *ret_key)
{
    if (!depot_key_is_valid(key_len))
        return -EINVAL;
    depot_flush_due(depot);
    base_counter_add(&depot->gets, 1);
    depot_trace_begin(&depot->stages, trace, 0);
    *ret_key = depot_key_of(depot, key, key_len);
    ret_key->trace = trace;
    ret_key->warms = DEPOT_WARMS;
    return 0;
}

int tarn_depot_get(struct tarn_depot *depot, const void *key, size_t key_len, void *value, size_t value_room,
                   struct tarn_record_info *ret_info)
{
    struct depot_trace trace;
    struct depot_key found_key;
    struct depot_record record = {.class = NULL};
    int error = depot_get_begin(depot, key, key_len, &trace, &found_key);
    if (error != 0)
        return error;
    error = depot_find_sure(depot, &found_key, DEPOT_WANT_WHOLE, false, &record);
    if (error == 0 && depot_is_head(&record)) {
        depot_record_release(&record);
        error = depot_pieces_get(depot, &found_key, value, value_room, ret_info);
        depot_trace_end(&depot->stages, &trace, TARN_STAGE_GET);
        return error;
    }
    if (error == 0)
        error = depot_show(depot, &found_key, &record, ret_info);
    if (error == 0 && record.header.value_bytes > value_room)
        error = -ENOBUFS;
    if (error == 0 && record.header.value_bytes > 0)
        memcpy(value, record.value, record.header.value_bytes);
    depot_record_release(&record);
    depot_trace_end(&depot->stages, &trace, TARN_STAGE_GET);
    return error;
}

/* ---- get many -------------------------------------------------------------------------------------------
 */

#define GETS_IN_FLIGHT 32
#define HASHED_AHEAD                                                                                         \
    12 /* of the next get to be posted: the index is being fetched into the processor's cache */
#define FOUND_AHEAD 6 /* the hot tier is */

/* What the first read did not decide. */
#define UNDECIDED (-EINPROGRESS)

/* One of many gets on its way. */
struct pending_get {
    struct depot_key key;
    struct depot_read read;
    struct depot_trace trace;
    uint64_t word; /* what the index has first, if it has something */
    bool reading;
    int error; /* if it is not */
};

/* Gets that are shown in order; those from `shown` to `posted` are on their way, and a few behind them looked up. */
struct gets {
    struct tarn_depot *depot;
    struct tarn_get *gets;
    size_t count, shown, posted, found, hashed;
    struct depot_room room; /* that is left */
    uint64_t begin_ns;      /* of those that had to wait for others; 0: none had */
    struct pending_get window[GETS_IN_FLIGHT];
};

static struct pending_get *pending_of(struct gets *gets, size_t at)
{
    return &gets->window[at % GETS_IN_FLIGHT];
}

/* Take room for a get, if there is. @param record_bytes  0: it has none, or the record is not known */
static bool take_room(struct depot_room *room, uint64_t record_bytes, bool first)
{
    bool leased = record_bytes >= room->lease_from;
    uint64_t bytes = room->extra_bytes + (leased ? 0 : record_bytes);
    uint64_t lease_bytes = leased ? record_bytes : 0;
    if ((bytes > room->bytes || lease_bytes > room->lease_bytes) && !first)
        return false;
    room->bytes -= base_min(bytes, room->bytes);
    room->lease_bytes -= base_min(lease_bytes, room->lease_bytes);
    return true;
}

static void hash_next(struct gets *gets)
{
    struct tarn_depot *depot = gets->depot;
    const struct tarn_get *get = &gets->gets[gets->hashed];
    struct pending_get *pending = pending_of(gets, gets->hashed++);
    pending->error = -EINVAL;
    pending->trace.begin_ns = 0;
    if (!depot_key_is_valid(get->key_len))
        return;
    pending->error = -ENOENT;
    pending->key = depot_key_of(depot, get->key, get->key_len);
    pending->key.trace = &pending->trace;
    pending->key.warms = pending->read.warms = DEPOT_WARMS;
    depot_index_prefetch(&depot->index, pending->key.hash.low);
}

static void find_next(struct gets *gets)
{
    struct tarn_depot *depot = gets->depot;
    struct pending_get *pending = pending_of(gets, gets->found++);
    struct depot_index_view view;
    pending->reading = false;
    pending->read.trace = &pending->trace;
    if (pending->error == -EINVAL)
        return;
    depot_trace_begin(&depot->stages, &pending->trace, gets->begin_ns);
    depot_index_find(&depot->index, pending->key.hash.low, &view);
    depot_trace_mark(&pending->trace, TARN_STAGE_INDEX);
    pending->reading = view.count > 0;
    if (!pending->reading)
        return;
    pending->word = view.words[0];
    if (depot->hot != NULL)
        depot_hot_prefetch(depot->hot, depot_index_address(&depot->index, pending->word));
}

/* Look the next gets up, each step some gets before its result is needed. */
static void look_ahead(struct gets *gets)
{
    size_t last = base_min(gets->count, gets->shown + GETS_IN_FLIGHT);
    while (gets->hashed < base_min(last, gets->posted + HASHED_AHEAD))
        hash_next(gets);
    while (gets->found < base_min(gets->hashed, gets->posted + FOUND_AHEAD))
        find_next(gets);
}

/* Start the next get. @return false: there is no room for its value, or no buffer */
static bool post_next(struct gets *gets)
{
    struct tarn_depot *depot = gets->depot;
    const struct tarn_get *get = &gets->gets[gets->posted];
    struct pending_get *pending = pending_of(gets, gets->posted);
    bool first = gets->posted == gets->shown; /* a caller that holds buffers never waits for one */
    look_ahead(gets);
    struct depot_room room = gets->room;
    uint64_t bytes =
        pending->reading ? depot_index_grains(&depot->index, pending->word) << depot->grain_shift : 0;
    if (!take_room(&room, bytes, gets->posted == 0))
        return false;
    if (pending->reading &&
        !depot_read_post(depot, &pending->read, pending->word, DEPOT_WANT_WHOLE, get->key_len, first))
        return false;
    gets->room = room;
    gets->posted++;
    return true;
}

/* The first read decides almost always. @return 0: the record is held; an error; UNDECIDED */
static int finish_first(struct gets *gets, struct depot_record *ret_record)
{
    struct pending_get *pending = pending_of(gets, gets->shown);
    struct depot_record *record = &pending->read.record;
    if (!pending->reading)
        return pending->error == -ENOENT && depot_is_unsure(gets->depot, NULL) ? UNDECIDED : pending->error;
    if (depot_read_finish(gets->depot, &pending->read) != 0)
        return UNDECIDED;
    if (is_key(record, &pending->key) && !depot_is_unsure(gets->depot, record) &&
        still_there(gets->depot, NULL, pending->key.hash.low, &pending->read, NULL)) {
        *ret_record = *record;
        return 0;
    }
    depot_record_release(record);
    return UNDECIDED;
}

/* Take back those behind the first, so that no buffer is held. */
static void recall(struct gets *gets)
{
    while (gets->posted > gets->shown + 1) {
        struct pending_get *pending = pending_of(gets, --gets->posted);
        if (pending->reading && depot_read_finish(gets->depot, &pending->read) == 0)
            depot_record_release(&pending->read.record);
    }
}

/* @return false: the visitor has no room */
static bool show_first(struct gets *gets, depot_get_function *visit, void *arg)
{
    struct tarn_get *get = &gets->gets[gets->shown];
    struct depot_record record = {.class = NULL};
    get->error = finish_first(gets, &record);
    if (get->error == UNDECIDED) {
        recall(gets);
        get->error = depot_find_sure(gets->depot, &pending_of(gets, gets->shown)->key, DEPOT_WANT_WHOLE,
                                     false, &record);
    }
    if (get->error == 0)
        get->error = depot_show(gets->depot, &pending_of(gets, gets->shown)->key, &record, &get->info);
    if (get->error == 0 && depot_is_head(&record))
        get->error = DEPOT_IN_PIECES;
    struct tarn_lease lease = get->error == 0 ? depot_lease_of(&record) : (struct tarn_lease){.data = NULL};
    bool taken = visit(arg, get, &lease);
    base_assert(taken || !lease.kept);
    if (lease.kept) {
        record.class = NULL;
        record.page = NULL;
    }
    depot_record_release(&record);
    if (taken) {
        depot_trace_end(&gets->depot->stages, &pending_of(gets, gets->shown)->trace, TARN_STAGE_GET);
        gets->shown++;
        return true;
    }
    recall(gets);
    return false;
}

size_t depot_get_each(struct tarn_depot *depot, struct tarn_get *list, size_t count,
                      const struct depot_room *room, depot_get_function *visit, void *arg)
{
    struct gets gets;
    gets.depot = depot;
    gets.gets = list;
    gets.count = count;
    gets.shown = gets.posted = gets.found = gets.hashed = 0;
    gets.room = *room;
    gets.begin_ns = 0;
    depot_flush_due(depot);
    while (gets.shown < count) {
        while (gets.posted < count && gets.posted - gets.shown < GETS_IN_FLIGHT && post_next(&gets))
            continue;
        if (gets.posted < count && gets.begin_ns == 0)
            gets.begin_ns = task_now();
        if (gets.posted == gets.shown || !show_first(&gets, visit, arg))
            break;
    }
    base_counter_add(&depot->gets, gets.shown);
    return gets.shown;
}

static bool copy_value(void *arg, struct tarn_get *get, struct tarn_lease *lease)
{
    (void)arg;
    if (get->error == 0 && get->info.value_bytes > get->value_room)
        get->error = -ENOBUFS;
    if (get->error == 0 && get->info.value_bytes > 0)
        memcpy(get->value, lease->data, lease->bytes);
    return true;
}

void tarn_depot_get_many(struct tarn_depot *depot, struct tarn_get *gets, size_t count)
{
    const struct depot_room room = {.bytes = UINT64_MAX, .lease_from = UINT64_MAX};
    size_t shown = depot_get_each(depot, gets, count, &room, copy_value, NULL);
    base_assert(shown == count);
    for (size_t i = 0; i < count; i++) {
        struct tarn_get *get = &gets[i];
        if (get->error != DEPOT_IN_PIECES)
            continue;
        const struct depot_key key = depot_key_of(depot, get->key, get->key_len);
        get->error = depot_pieces_get(depot, &key, get->value, get->value_room, &get->info);
    }
}
