/*
 * Between the files of this folder: session.c finds requests, step.c keeps many of them in flight, operate.c
 * carries out those that may change something, answer.c writes the answers.
 */
#ifndef MEMCACHE_MEMCACHE_INTERNAL_H
#define MEMCACHE_MEMCACHE_INTERNAL_H

#include "memcache/memcache.h"

/*
 * The longest text of an answer without its value: a meta line with every flag, most of which is the key in
 * base64. A classic VALUE line has a key, three numbers and spaces.
 */
#define MEMCACHE_ANSWER_MAX 640

/* Notes of records (tarn/depot.h). */
#define MEMCACHE_NOTE_STALE 1 /* the value is out of date, and clients see that */
#define MEMCACHE_NOTE_SENT  2 /* a client was told to fetch the item anew */

/** Add to a counter. */
static inline void memcache_count(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* ---- step.c: requests in flight ------------------------------------------------------------------ */

/**
 * Add a request to those in flight. If it may not be in flight together with them, they are carried out first, which
 * yields.
 *
 * @param request  copied; the texts that it points to stay until memcache_step() has returned
 */
struct memcache_op *memcache_add(struct memcache_session *session, struct memcache_work *work,
                                 const struct memcache_request *request);

/** Carry out the requests that were added, and queue their answers. Yields. */
void memcache_step(struct memcache_session *session, struct memcache_work *work);

/* ---- operate.c: requests of one key that change something, or may ------------------------------------ */

/** Carry out a request and set op->outcome. Yields. */
void memcache_operate(struct memcache_op *op);

/* The result of a decision (tarn_update_function) that needs memory while the store's lock is held: the memory is taken
 * without the lock, and the decision is made again. */
#define MEMCACHE_NEEDS_MEMORY 2

/** Copy a value and the text behind it to op->outcome.value. @return 0; -ENOMEM; MEMCACHE_NEEDS_MEMORY */
base_must_check int memcache_value_take(struct memcache_op *op, const void *value, size_t len);

/** Take the memory that was needed. @return 0; -ENOMEM */
base_must_check int memcache_value_provide(struct memcache_op *op);

/** Free a value. */
void memcache_value_free(struct memcache_server *server, struct memcache_value *value);

/** Whether a meta get of an item makes its client the one that shall fetch it anew. */
bool memcache_wins(const struct memcache_op *op, const struct tarn_record_info *info);

/** The expiry of an item after a meta flag has been applied to it. */
uint64_t memcache_expiry_behind(const struct memcache_op *op, char flag, uint64_t expiry_ns);

/** The size of an item in memcached's count. @param value_len  length of the whole value */
uint64_t memcache_item_bytes(size_t key_len, uint64_t value_len, uint32_t client_flags);

/** Whether an item is within the size limit. @param value_len  length of the whole value */
bool memcache_item_fits(const struct memcache_server *server, size_t key_len, uint64_t value_len,
                        uint32_t client_flags);

/* ---- answer.c ------------------------------------------------------------------------------------- */

/** Write the text of an answer, up to the item's value if it has one. @param to  room for MEMCACHE_ANSWER_MAX
 * @return its length */
size_t memcache_answer(struct memcache_op *op, char *to);

/** Count an outcome in the statistics. */
void memcache_count_outcome(const struct memcache_op *op);

/** Whether the answer to a hit has the item's value. */
bool memcache_wants_value(const struct memcache_request *request);

/** The text behind a value. */
const char *memcache_tail(const struct memcache_op *op);

/** The answer to a failure of the store. */
const char *memcache_failure(int error);

/* ---- output.c -------------------------------------------------------------------------------------- */

/** Queue a piece of memory, which stays until it is sent; joined with the last if it follows it. */
void memcache_output_queue(struct memcache_output *output, const void *data, size_t len);

/** Append bytes to the queued answers. No request may be in flight. Yields when the room is used up. */
void memcache_output_add(struct memcache_server *server, struct memcache_output *output, const void *data,
                         size_t len);

/** Append a text, as memcache_output_add() does. */
void memcache_output_text(struct memcache_server *server, struct memcache_output *output, const char *text);

/* ---- dump.c ----------------------------------------------------------------------------------------- */

/** Answer the commands of `lru_crawler`. Yields. */
void memcache_lru_crawler(struct memcache_server *server, struct memcache_output *output,
                          const struct memcache_request *request);

/** Answer `stats cachedump`. Yields. */
void memcache_cachedump(struct memcache_server *server, struct memcache_output *output,
                        const struct memcache_request *request);

/* ---- stats.c ---------------------------------------------------------------------------------------- */

/** Answer a stats request. May yield. */
void memcache_stats(struct memcache_server *server, struct memcache_output *output,
                    const struct memcache_request *request);

#endif
