/* A client's operations: cut at the borders of chunks, posted together, and counted only within the lease. */
#include "fabric/fabric.h"
#include "space/client.h"
#include <errno.h>
#include <string.h>

#define RETRIES 16 /* of a READ that has failed at one copy after the other */

/* ---- where bytes are ---------------------------------------------------------------------------- */

/* A part of a region that lies in one chunk. */
struct part {
    uint32_t chunk;
    uint64_t offset; /* in the chunk */
    uint64_t bytes;
};

/* The part that begins at an offset of a region. @param bytes  the most that are wanted */
static struct part part_at(const struct tarn_space_region *region, uint64_t offset, uint64_t bytes)
{
    const struct tarn_space *space = region->of->space;
    const uint64_t at = region->skipped + offset, in_chunk = at & (space->chunk_bytes - 1);
    const uint64_t left = base_min(space->chunk_bytes - in_chunk, TARN_FABRIC_BYTES_MAX);
    return (struct part){
        .chunk = (uint32_t)(at >> space->chunk_shift), .offset = in_chunk, .bytes = base_min(bytes, left)};
}

static bool is_within(const struct tarn_space_region *region, uint64_t offset, uint64_t bytes)
{
    return offset <= region->bytes && bytes <= region->bytes - offset;
}

static bool is_swap(enum tarn_fabric_op_kind kind)
{
    return kind == TARN_FABRIC_CAS || kind == TARN_FABRIC_FAA;
}

/* Whether a client may make a swap there. */
static int check_swap(const struct tarn_space_region *region, uint64_t offset)
{
    if (!base_is_aligned(region->skipped + offset, 8))
        return -EINVAL;
    return region->memory_class == TARN_SPACE_WORDS ? 0 : -EACCES;
}

/* Have a READ of one word that clients swap bring a value that the word had at one moment: where the fabric cannot, it becomes an FAA of 0,
 * whose `before` is what is read. */
static void read_whole_word(const struct tarn_space_region *region, struct tarn_fabric_op *op)
{
    if (op->kind != TARN_FABRIC_READ || region->memory_class != TARN_SPACE_WORDS || op->iov_count != 1 ||
        op->iov[0].iov_len != 8 || !base_is_aligned(op->offset, 8))
        return;
    op->whole = tarn_fabric_info(region->of->space->fabric)->whole_reads;
    if (op->whole)
        return;
    op->kind = TARN_FABRIC_FAA;
    op->iov_count = 0;
}

/* Put what such an FAA has found where it is to be read. */
static void take_whole_word(const struct tarn_fabric_op *op, const struct iovec *iov)
{
    if (op->kind == TARN_FABRIC_FAA)
        memcpy(iov->iov_base, &op->before, sizeof(op->before));
}

/* What an outcome of the fabric's means for a client. */
static int outcome_of(const struct tarn_space *space, int result)
{
    switch (result) {
    case 0:
        return client_holds(space) ? 0 : -ESTALE;
    case -EPIPE:
    case -ECONNRESET:
    case -ECONNABORTED:
    case -EACCES: /* the handle has ended with its memory server, or its connection: what a client may do is checked before */
        return -EHOSTUNREACH;
    default:
        return result;
    }
}

/* ---- one part, waited for ----------------------------------------------------------------------- */

/* Carry out an operation that lies in one chunk, of which there is one copy. */
static int run_part(struct tarn_space_region *region, const struct part *part, struct tarn_fabric_op *op,
                    uint64_t deadline_ns)
{
    struct tarn_space *space = region->of->space;
    struct client_target *target = &region->targets[part->chunk];
    if (base_unlikely(!client_is_reached(target) || !client_has_session(space))) {
        int error = client_reach(region, part->chunk, deadline_ns);
        if (error != 0)
            return error;
        if (region->error != 0)
            return region->error; /* it was gone when the session was begun again meanwhile */
    }
    op->tag = CLIENT_TAG;
    op->handle = &target->handle;
    op->offset = part->offset;
    const bool is_read = op->kind == TARN_FABRIC_READ;
    const struct iovec *iov = op->iov;
    read_whole_word(region, op);
    struct client_link *link = target->link;
    link->users++;
    int error = fabric_run(link->connection, op, deadline_ns);
    link->users--;
    if (error == 0 && is_read)
        take_whole_word(op, iov);
    if (error != 0 && !is_read)
        region->is_in_doubt = region->is_broken = true;
    return outcome_of(space, error);
}

/* ---- pieces ------------------------------------------------------------------------------------- */

/* Note what the word of a chunk that was read says. @param word  0: nothing is known */
static void note_word(struct tarn_space_region *region, uint64_t word)
{
    region->is_outdated = region->is_outdated || !space_word_is_current(word, region->number) ||
                          region->view < atomic_load(&region->of->space->view);
}

/* Whether an operation goes to all copies of a chunk. */
static bool is_for_all(const struct tarn_space_op *op)
{
    return op->kind == TARN_FABRIC_WRITE && op->region->copies > 1;
}

/* The chunks that an operation touches. */
static uint32_t count_chunks(const struct tarn_space_op *op)
{
    return 1 + part_at(op->region, op->offset + op->bytes - 1, 1).chunk -
           part_at(op->region, op->offset, 1).chunk;
}

/* Look whether an operation has finished. A READ that has failed at one copy begins again, at others. */
static void look_at_end(struct tarn_space_op *op)
{
    const bool is_over = op->pieces == 0 && op->done_bytes == op->bytes && op->words_left == 0;
    op->finished = is_over;
    if (!is_over || op->result != -EHOSTUNREACH || op->kind != TARN_FABRIC_READ || op->region->copies == 1 ||
        ++op->copy == RETRIES)
        return;
    op->result = 0;
    op->done_bytes = 0;
    op->words_left = client_looks_at_words(op->region) ? count_chunks(op) : 0;
    op->finished = false;
}

/* Note that a piece has failed. */
static void note_failure(struct tarn_space_op *op, const struct client_piece *piece, int result)
{
    if (op->kind != TARN_FABRIC_READ)
        op->region->is_in_doubt = true;
    else if (op->region->copies > 1)
        piece->target->handle.key = 0; /* it is located again before it is used */
    if (is_for_all(op) && result != -ESTALE && client_lose_copies(op->region, piece->over))
        return; /* the other copies have it, or will */
    if (op->kind != TARN_FABRIC_READ)
        op->region->is_broken = true;
    op->done_bytes = op->bytes; /* nothing more is posted */
    op->words_left = 0;
    if (op->result == 0)
        op->result = result;
}

/* Note the end of a piece, and free it. */
static void take_piece(struct tarn_space *space, struct client_piece *piece)
{
    struct tarn_space_op *op = piece->owner;
    const int result = outcome_of(space, piece->op.result);
    if (piece->is_of_word && result == 0)
        note_word(op->region, piece->word);
    if (is_swap(op->kind)) {
        op->before = piece->op.before;
        op->has_run = piece->op.result == 0;
    } else if (result == 0 && !piece->is_of_word) {
        take_whole_word(&piece->op, piece->iov);
    }
    if (result != 0)
        note_failure(op, piece, result);
    else if (op->region->copies > 1)
        piece->over->heard_ns = task_now();
    op->pieces--;
    look_at_end(op);
    piece->over->users--;
    base_list_remove(&piece->link);
    base_list_push_back(&space->free_pieces, &piece->link);
}

void client_take_ended(struct tarn_space *space, const struct client_link *link,
                       const struct tarn_space_op *op)
{
    base_list_for_each_safe(at, &space->posted_pieces) {
        struct client_piece *piece = base_container_of(at, struct client_piece, link);
        if ((link == NULL || piece->over == link) && (op == NULL || piece->owner == op) &&
            !piece->is_awaited && tarn_fabric_test(&piece->op))
            take_piece(space, piece);
    }
}

/* Describe the local memory of a part of an operation. */
static uint32_t cut_vectors(const struct tarn_space_op *op, uint64_t skip, uint64_t bytes,
                            struct iovec *ret_iov)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->iov_count && bytes > 0; i++) {
        const struct iovec *iov = &op->iov[i];
        if (skip >= iov->iov_len) {
            skip -= iov->iov_len;
            continue;
        }
        const uint64_t here = base_min((uint64_t)iov->iov_len - skip, bytes);
        ret_iov[count++] =
            (struct iovec){.iov_base = (uint8_t *)iov->iov_base + skip, .iov_len = (size_t)here};
        bytes -= here;
        skip = 0;
    }
    return count;
}

/* End an operation of which nothing more is posted. */
static void end_op(struct tarn_space_op *op, int result)
{
    op->result = op->result == 0 ? result : op->result;
    op->done_bytes = op->bytes;
    op->words_left = 0;
    look_at_end(op);
}

/* Take a piece for a part of an operation, at a copy. */
static struct client_piece *begin_piece(struct tarn_space *space, struct tarn_space_op *op,
                                        struct client_target *target)
{
    struct client_piece *piece =
        base_container_of(base_list_pop_front(&space->free_pieces), struct client_piece, link);
    piece->owner = op;
    piece->over = target->link;
    piece->target = target;
    piece->is_awaited = piece->is_of_word = false;
    return piece;
}

static void post_piece(struct tarn_space *space, struct client_piece *piece)
{
    base_assert(piece->over->session == space->session_number);
    piece->owner->pieces++;
    piece->over->users++;
    base_list_push_back(&space->posted_pieces, &piece->link);
    tarn_fabric_post(piece->over->connection, &piece->op, 1);
}

/* Whether an operation may be posted. What is posted then goes over connections of the present session, because nothing yields in between and
 * another session begins without any (client_give_up_session()). @return 0; -ESTALE: its region or its session is gone */
static int check_op(const struct tarn_space_op *op)
{
    if (op->session != 0 && op->session != tarn_space_session(op->region->of->space))
        return -ESTALE;
    return op->region->error;
}

/* Post READs of the version words of the chunks of which an operation has read all, in the order of the chunks. */
static void post_words(struct tarn_space *space, struct tarn_space_op *op)
{
    const struct tarn_space_region *region = op->region;
    const uint32_t last = part_at(region, op->offset + op->bytes - 1, 1).chunk;
    while (op->words_left > 0 && !base_list_empty(&space->free_pieces)) {
        struct client_target *target = client_copy(region, last + 1 - op->words_left);
        const bool is_stale = check_op(op) != 0 || !client_has_session(space);
        if (target == NULL || is_stale) {
            end_op(op, is_stale ? -ESTALE : -EHOSTUNREACH);
            return;
        }
        if (target->words.key == 0) {
            note_word(op->region, 0);
            op->words_left--;
            continue;
        }
        struct client_piece *piece = begin_piece(space, op, target);
        const uint64_t offset = target->chunk * sizeof(piece->word);
        piece->is_of_word = true;
        piece->iov[0] = (struct iovec){.iov_base = &piece->word, .iov_len = sizeof(piece->word)};
        piece->words = (struct tarn_fabric_handle){.domain = target->words.domain,
                                                   .key = target->words.key,
                                                   .bytes = offset + sizeof(piece->word),
                                                   .rights = TARN_FABRIC_MAY_READ};
        piece->op = (struct tarn_fabric_op){.kind = TARN_FABRIC_READ,
                                            .tag = CLIENT_TAG,
                                            .handle = &piece->words,
                                            .offset = offset,
                                            .iov = piece->iov,
                                            .iov_count = 1};
        op->words_left--;
        post_piece(space, piece);
    }
    look_at_end(op);
}

/* Choose where the next part of an operation goes. @return NULL: that is not reached now */
static struct client_target *next_target(const struct tarn_space_op *op, uint32_t chunk)
{
    if (!is_for_all(op))
        return client_copy(op->region, chunk);
    struct client_target *target = client_target_of(op->region, chunk, op->copy);
    return target->is_lost || client_is_reached(target) ? target : NULL;
}

/* Note that a part has been posted: to one of the copies that it is for. */
static void pass_part(struct tarn_space_op *op, uint64_t bytes)
{
    if (is_for_all(op) && ++op->copy < op->region->copies)
        return;
    op->done_bytes += bytes;
    op->copy = is_for_all(op) ? 0 : op->copy;
}

/* Post as much of an operation as can be now. */
static void post_more(struct tarn_space *space, struct tarn_space_op *op)
{
    while (op->done_bytes < op->bytes && !base_list_empty(&space->free_pieces)) {
        const struct part part = part_at(op->region, op->offset + op->done_bytes, op->bytes - op->done_bytes);
        struct client_target *target = next_target(op, part.chunk);
        const int error = check_op(op); /* the session may have been begun again meanwhile */
        if (error != 0) {
            end_op(op, error);
            return;
        }
        if (target == NULL || !client_has_session(space))
            return;
        if (target->is_lost) {
            pass_part(op, part.bytes);
            continue;
        }
        struct client_piece *piece = begin_piece(space, op, target);
        piece->op = (struct tarn_fabric_op){.kind = op->kind,
                                            .tag = CLIENT_TAG,
                                            .handle = &target->handle,
                                            .offset = part.offset,
                                            .compare = op->compare,
                                            .operand = op->operand};
        if (!is_swap(op->kind)) {
            piece->op.iov = piece->iov;
            piece->op.iov_count = cut_vectors(op, op->done_bytes, part.bytes, piece->iov);
            read_whole_word(op->region, &piece->op);
        }
        pass_part(op, part.bytes);
        post_piece(space, piece);
    }
    if (op->words_left > 0 && op->done_bytes == op->bytes && op->pieces == 0)
        post_words(space, op);
    else
        look_at_end(op); /* the last copies may have been given up */
}

/* ---- posting, waiting --------------------------------------------------------------------------- */

/* Check an operation, and set what the space sets. @return 0; why it cannot be */
static int begin_op(struct tarn_space_op *op)
{
    op->before = op->done_bytes = op->bytes = 0;
    op->pieces = op->words_left = op->copy = 0;
    op->result = 0;
    op->done_in = 0;
    op->finished = op->has_run = false;
    const int error = check_op(op);
    if (error != 0)
        return error;
    if (op->kind == TARN_FABRIC_WRITE && client_looks_at_words(op->region))
        return -EROFS;
    if (is_swap(op->kind)) {
        op->bytes = 8;
        return is_within(op->region, op->offset, 8) ? check_swap(op->region, op->offset) : -EINVAL;
    }
    if ((op->kind != TARN_FABRIC_READ && op->kind != TARN_FABRIC_WRITE) ||
        op->iov_count > TARN_FABRIC_IOV_MAX)
        return -EINVAL;
    for (uint32_t i = 0; i < op->iov_count; i++) {
        if (op->iov[i].iov_len > TARN_SPACE_BYTES_MAX)
            return -EINVAL;
        op->bytes += op->iov[i].iov_len;
    }
    if (!is_within(op->region, op->offset, op->bytes))
        return -EINVAL;
    if (op->bytes > 0 && client_looks_at_words(op->region))
        op->words_left = count_chunks(op);
    return 0;
}

/* Find the place of bytes of which nothing has to be cut, nor repeated for other copies, nor looked at for its version. @return NULL: it is
 * another one, or its memory server is not reached now */
static struct client_target *place_of_whole(const struct tarn_space_region *region, uint64_t offset,
                                            uint64_t bytes, uint64_t *ret_offset)
{
    const struct part part = part_at(region, offset, bytes);
    struct client_target *target = &region->targets[part.chunk];
    if (part.bytes != bytes || region->copies != 1 || client_looks_at_words(region) ||
        !client_has_session(region->of->space) || target->is_lost || !client_is_reached(target))
        return NULL;
    *ret_offset = part.offset;
    return target;
}

/* Have memory fetched into the cache, if it is loaded from there. @return whether it is */
static bool prefetch(const struct client_target *target, uint64_t offset, uint64_t bytes)
{
    return fabric_prefetch(target->link->connection, &target->handle, offset, bytes);
}

/* Carry out an operation at once, if its provider can. Its connection is of the present session, as post_piece() says.
 * @param is_first  of those that were posted together */
static bool run_at_once(struct tarn_space_op *op, const struct client_target *target, uint64_t offset,
                        bool is_first)
{
    struct tarn_fabric_op whole = {.kind = op->kind,
                                   .tag = CLIENT_TAG,
                                   .handle = &target->handle,
                                   .offset = offset,
                                   .compare = op->compare,
                                   .operand = op->operand};
    if (!is_swap(op->kind)) {
        whole.iov = op->iov;
        whole.iov_count = op->iov_count;
        read_whole_word(op->region, &whole);
    }
    if (!fabric_try(target->link->connection, &whole, is_first))
        return false;
    if (is_swap(op->kind))
        op->before = whole.before;
    else
        take_whole_word(&whole, op->iov);
    op->done_bytes = op->bytes;
    op->done_in = target->link->session;
    op->has_run = true;
    return true;
}

enum { TOGETHER = 16 }; /* whose memory is fetched into the cache at the same time */

/* Post a few operations. What can be carried out at once, because the fabric loads it, is fetched first, all together. */
static void post_some(struct tarn_space *space, struct tarn_space_op *ops, uint32_t count, bool is_first)
{
    const struct client_target *targets[TOGETHER];
    uint64_t offsets[TOGETHER];
    for (uint32_t i = 0; i < count; i++) {
        const int error = begin_op(&ops[i]);
        const bool is_over = error != 0 || ops[i].bytes == 0;
        if (is_over)
            end_op(&ops[i], error);
        targets[i] = is_over ? NULL : place_of_whole(ops[i].region, ops[i].offset, ops[i].bytes, &offsets[i]);
        if (targets[i] != NULL && count > 1)
            (void)prefetch(targets[i], offsets[i], ops[i].bytes);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!ops[i].finished && (targets[i] == NULL || !client_is_reached(targets[i]) ||
                                 !run_at_once(&ops[i], targets[i], offsets[i], is_first && i == 0)))
            post_more(space, &ops[i]);
    }
}

void tarn_space_post(struct tarn_space *space, struct tarn_space_op *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += TOGETHER)
        post_some(space, ops + i, base_min(count - i, (uint32_t)TOGETHER), i == 0);
}

/* Take an operation that was carried out at once. @param holds  the lease does, after it */
static void take_done(const struct tarn_space *space, struct tarn_space_op *op, bool holds)
{
    op->result = holds && op->done_in == space->session_number ? 0 : -ESTALE;
    op->done_in = 0;
    op->finished = true;
    if (op->result != 0 && op->kind != TARN_FABRIC_READ)
        op->region->is_in_doubt = op->region->is_broken = true;
}

/* Find the place of bytes that are to be glanced at. @return NULL: they cannot be */
static const struct client_target *place_of_glance(const struct tarn_space_region *region, uint64_t offset,
                                                   uint64_t bytes, uint64_t *ret_offset)
{
    return is_within(region, offset, bytes) && bytes > 0 && region->error == 0
               ? place_of_whole(region, offset, bytes, ret_offset)
               : NULL;
}

bool tarn_space_glance(struct tarn_space_region *region, uint64_t offset, void *memory, uint64_t bytes)
{
    const struct iovec iov = {.iov_base = memory, .iov_len = bytes};
    struct tarn_fabric_op op = {.kind = TARN_FABRIC_READ, .tag = CLIENT_TAG, .iov = &iov, .iov_count = 1};
    const struct client_target *target = place_of_glance(region, offset, bytes, &op.offset);
    if (target == NULL)
        return false;
    op.handle = &target->handle;
    read_whole_word(region, &op);
    return op.kind == TARN_FABRIC_READ && fabric_try(target->link->connection, &op, false);
}

bool tarn_space_prefetch(const struct tarn_space_region *region, uint64_t offset, uint64_t bytes)
{
    uint64_t at;
    const struct client_target *target = place_of_glance(region, offset, bytes, &at);
    return target != NULL && prefetch(target, at, bytes);
}

bool tarn_space_holds(const struct tarn_space *space, uint64_t session, uint64_t now_ns)
{
    return session != 0 && session == tarn_space_session(space) &&
           now_ns < atomic_load_explicit(&space->held_until_ns, memory_order_relaxed);
}

/* Choose a posted piece that no task waits for. @param op  whose; NULL: anybody's. @return NULL: there is none */
static struct client_piece *find_piece(const struct tarn_space *space, const struct tarn_space_op *op)
{
    base_list_for_each(at, &space->posted_pieces) {
        struct client_piece *piece = base_container_of(at, struct client_piece, link);
        if ((op == NULL || piece->owner == op) && !piece->is_awaited)
            return piece;
    }
    return NULL;
}

/* Wait for a piece. @return as tarn_fabric_await(); -EHOSTUNREACH: there are other copies, and over the connection nothing has come for a lease */
static int await_while_heard(struct tarn_space *space, struct client_piece *piece, uint64_t deadline_ns)
{
    const uint64_t begin_ns = task_now();
    for (;;) {
        const uint64_t silent_ns = base_max(begin_ns, piece->over->heard_ns) + space->lease_ns;
        const bool may_fall_silent = piece->owner->region->copies > 1 && silent_ns < deadline_ns;
        const int error = tarn_fabric_await(&piece->op, 1, may_fall_silent ? silent_ns : deadline_ns);
        if (error != -ETIMEDOUT || !may_fall_silent)
            return error;
        client_take_ended(space, piece->over, NULL);
        if (base_max(begin_ns, piece->over->heard_ns) + space->lease_ns <= task_now())
            return -EHOSTUNREACH;
    }
}

/* Wait for a piece, and give its connection up if it does not come. */
static void await_piece(struct tarn_space *space, struct client_piece *piece, uint64_t deadline_ns)
{
    piece->is_awaited = true;
    int error = await_while_heard(space, piece, deadline_ns);
    if (error != 0 && tarn_fabric_wait(&piece->op, 1, task_now()) != 0 && /* that gives the connection up */
        error == -EHOSTUNREACH)
        piece->op.result = error;
    take_piece(space, piece);
}

/* Do one thing for an operation that has not finished. */
static void advance_op(struct tarn_space *space, struct tarn_space_op *op, uint64_t deadline_ns)
{
    post_more(space, op);
    if (op->finished)
        return;
    struct client_piece *piece = find_piece(space, op);
    int error = 0;
    if (piece == NULL && op->pieces == 0 && op->done_bytes == op->bytes) {
        piece = find_piece(space, NULL); /* none was free to read a word */
    } else if (piece == NULL && op->pieces == 0) {
        const struct part part = part_at(op->region, op->offset + op->done_bytes, op->bytes - op->done_bytes);
        if (base_list_empty(&space->free_pieces))
            piece = find_piece(space, NULL);
        else
            error = client_reach(op->region, part.chunk, deadline_ns);
        if (error == 0 && piece == NULL && is_for_all(op))
            error = client_reach_copies(op->region, part.chunk, deadline_ns);
    }
    if (piece != NULL)
        await_piece(space, piece, deadline_ns);
    else if (error != 0)
        end_op(op, error);
    else
        task_yield(); /* other tasks wait for its pieces, or for those that it needs, and take them */
}

int tarn_space_wait(struct tarn_space *space, struct tarn_space_op *ops, uint32_t count, uint64_t deadline_ns)
{
    int first = 0;
    const bool holds = client_holds(space); /* for all that was carried out at once */
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].done_in != 0)
            take_done(space, &ops[i], holds);
        while (!ops[i].finished)
            advance_op(space, &ops[i], deadline_ns);
        if (first == 0)
            first = ops[i].result;
    }
    return first;
}

/* Take what has completed of an operation, and post more of it. */
static void take_completed(struct tarn_space *space, struct tarn_space_op *op)
{
    if (op->done_in != 0)
        take_done(space, op, client_holds(space));
    client_take_ended(space, NULL, op);
    if (!op->finished)
        post_more(space, op);
}

bool tarn_space_test(struct tarn_space *space, struct tarn_space_op *op)
{
    take_completed(space, op);
    if (!op->finished && op->pieces == 0 && !base_list_empty(&space->free_pieces))
        end_op(op, -ENOTCONN);
    return op->finished;
}

/* Wait for the first of the pieces of some operations. @return 0; -ENOENT: there are none; errors of tarn_fabric_await_any() */
static int await_first_piece(struct tarn_space *space, const struct tarn_space_op *ops, uint32_t count,
                             uint64_t deadline_ns)
{
    struct client_piece *pieces[CLIENT_PIECES];
    struct tarn_fabric_op *posted[CLIENT_PIECES];
    uint32_t found = 0, index;
    base_list_for_each(at, &space->posted_pieces) {
        struct client_piece *piece = base_container_of(at, struct client_piece, link);
        if (piece->owner < ops || piece->owner >= ops + count || piece->is_awaited)
            continue;
        piece->is_awaited = true;
        pieces[found] = piece;
        posted[found++] = &piece->op;
    }
    int error = found == 0 ? -ENOENT : tarn_fabric_await_any(posted, found, deadline_ns, &index);
    for (uint32_t i = 0; i < found; i++)
        pieces[i]->is_awaited = false;
    return error;
}

int tarn_space_wait_any(struct tarn_space *space, struct tarn_space_op *ops, uint32_t count,
                        uint64_t deadline_ns, uint32_t *ret_index)
{
    for (;;) {
        for (uint32_t i = 0; i < count; i++) {
            take_completed(space, &ops[i]);
            if (ops[i].finished) {
                *ret_index = i;
                return 0;
            }
        }
        int error = count == 0 ? -EINVAL : await_first_piece(space, ops, count, deadline_ns);
        if (error ==
            -ENOENT) /* nothing of them is posted: the first needs a connection, or has to wait for others */
            advance_op(space, &ops[0], deadline_ns);
        else if (error != 0)
            return error;
    }
}

/* ---- calls that wait ---------------------------------------------------------------------------- */

static int move_bytes(struct tarn_space_region *region, enum tarn_fabric_op_kind kind, uint64_t offset,
                      void *memory, uint64_t bytes, uint64_t deadline_ns)
{
    const struct iovec iov = {.iov_base = memory, .iov_len = bytes};
    if (!is_within(region, offset, bytes))
        return -EINVAL;
    if (region->error != 0)
        return region->error;
    const struct part part = part_at(region, offset, bytes);
    if (part.bytes == bytes && !client_looks_at_words(region) && region->copies == 1) {
        struct tarn_fabric_op op = {.kind = kind, .iov = &iov, .iov_count = 1};
        return run_part(region, &part, &op, deadline_ns);
    }
    struct tarn_space_op op = {.kind = kind, .region = region, .offset = offset, .iov = &iov, .iov_count = 1};
    tarn_space_post(region->of->space, &op, 1);
    return tarn_space_wait(region->of->space, &op, 1, deadline_ns);
}

/* Read, again if the lease has ended meanwhile. */
static int read_bytes(struct tarn_space_region *region, uint64_t offset, void *memory, uint64_t bytes,
                      uint64_t deadline_ns)
{
    int error = move_bytes(region, TARN_FABRIC_READ, offset, memory, bytes, deadline_ns);
    while (error == -ESTALE && region->error == 0) {
        error = client_await_lease(region->of->space, deadline_ns);
        if (error == 0)
            error = move_bytes(region, TARN_FABRIC_READ, offset, memory, bytes, deadline_ns);
    }
    return error;
}

/* Where a pointer into a region's local memory points. @return false: it does not */
static bool find_offset(const struct tarn_space_region *region, const void *memory, uint64_t *ret_offset)
{
    const uintptr_t begin = region->memory == NULL ? 0 : (uintptr_t)region->memory->region->memory;
    *ret_offset = (uintptr_t)memory - begin;
    return begin != 0 && (uintptr_t)memory >= begin;
}

int tarn_space_read(struct tarn_space_region *region, void *memory, uint64_t bytes, uint64_t deadline_ns)
{
    uint64_t offset;
    return find_offset(region, memory, &offset) ? read_bytes(region, offset, memory, bytes, deadline_ns)
                                                : -EINVAL;
}

int tarn_space_write(struct tarn_space_region *region, const void *memory, uint64_t bytes,
                     uint64_t deadline_ns)
{
    uint64_t offset;
    return find_offset(region, memory, &offset)
               ? tarn_space_write_at(region, offset, memory, bytes, deadline_ns)
               : -EINVAL;
}

int tarn_space_read_at(struct tarn_space_region *region, uint64_t offset, void *memory, uint64_t bytes,
                       uint64_t deadline_ns)
{
    return read_bytes(region, offset, memory, bytes, deadline_ns);
}

int tarn_space_write_at(struct tarn_space_region *region, uint64_t offset, const void *memory, uint64_t bytes,
                        uint64_t deadline_ns)
{
    void *from = (void *)(uintptr_t)memory; /* a WRITE changes nothing there */
    return move_bytes(region, TARN_FABRIC_WRITE, offset, from, bytes, deadline_ns);
}

static int swap_word(struct tarn_space_region *region, struct tarn_fabric_op *op, uint64_t offset,
                     uint64_t deadline_ns, uint64_t *ret_before)
{
    if (!is_within(region, offset, 8))
        return -EINVAL;
    int error = check_swap(region, offset);
    if (error == 0)
        error = region->error;
    const struct part part = part_at(region, offset, 8);
    if (error == 0)
        error = run_part(region, &part, op, deadline_ns);
    if (error == 0)
        *ret_before = op->before;
    return error;
}

int tarn_space_cas(struct tarn_space_region *region, uint64_t offset, uint64_t compare, uint64_t operand,
                   uint64_t deadline_ns, uint64_t *ret_before)
{
    struct tarn_fabric_op op = {.kind = TARN_FABRIC_CAS, .compare = compare, .operand = operand};
    return swap_word(region, &op, offset, deadline_ns, ret_before);
}

int tarn_space_faa(struct tarn_space_region *region, uint64_t offset, uint64_t add, uint64_t deadline_ns,
                   uint64_t *ret_before)
{
    struct tarn_fabric_op op = {.kind = TARN_FABRIC_FAA, .operand = add};
    return swap_word(region, &op, offset, deadline_ns, ret_before);
}
