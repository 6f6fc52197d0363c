/* Requests that change something, or may: each is one call of the store. Gets that only read are step.c's. */
#include "kv/kv.h"
#include "memcache/memcache_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Bytes of an item in memcached's memory besides key, flags and value: header, the key's zero, line end. */
#define ITEM_FIXED_BYTES 59
#define ITEM_FLAGS_BYTES 4

#define NUMBER_ROOM 24

/* The result of a decision (tarn_update_function) by which nothing is written and nothing has failed. */
#define AS_IT_IS 1

#define NOT_A_NUMBER (-EDOM)

uint64_t memcache_item_bytes(size_t key_len, uint64_t value_len, uint32_t client_flags)
{
    return ITEM_FIXED_BYTES + key_len + value_len + (client_flags != 0 ? ITEM_FLAGS_BYTES : 0);
}

bool memcache_item_fits(const struct memcache_server *server, size_t key_len, uint64_t value_len,
                        uint32_t client_flags)
{
    return memcache_item_bytes(key_len, value_len, client_flags) <= server->item_bytes_max &&
           value_len <= kv_whole_bytes_max(server->kv, key_len);
}

/* ---- memory ------------------------------------------------------------------------------------------ */

void memcache_value_free(struct memcache_server *server, struct memcache_value *value)
{
    base_free(&server->values, value, value->bytes);
}

static void drop_value(struct memcache_op *op)
{
    if (op->outcome.value != NULL)
        memcache_value_free(op->server, op->outcome.value);
    op->outcome.value = NULL;
}

int memcache_value_provide(struct memcache_op *op)
{
    size_t bytes = sizeof(struct memcache_value) + op->outcome.needed_bytes;
    drop_value(op);
    struct memcache_value *value = base_alloc(&op->server->values, bytes);
    if (value == NULL)
        return -ENOMEM;
    value->bytes = bytes;
    value->len = op->outcome.needed_bytes;
    op->outcome.value = value;
    return 0;
}

/* Make sure that op->outcome.value has `bytes` of memory. @return 0; -ENOMEM; MEMCACHE_NEEDS_MEMORY */
static int require_memory(struct memcache_op *op, size_t bytes)
{
    struct memcache_value *value = op->outcome.value;
    op->outcome.needed_bytes = bytes;
    if (value == NULL || value->bytes - sizeof(*value) < bytes)
        return op->server->shows_under_lock ? MEMCACHE_NEEDS_MEMORY : memcache_value_provide(op);
    value->len = bytes;
    return 0;
}

int memcache_value_take(struct memcache_op *op, const void *value, size_t len)
{
    const char *tail = memcache_tail(op);
    const size_t tail_len = strlen(tail);
    int error = require_memory(op, len + tail_len);
    if (error != 0)
        return error;
    if (len > 0)
        memcpy(op->outcome.value->data, value, len);
    memcpy(op->outcome.value->data + len, tail, tail_len);
    return 0;
}

/* ---- what all have in common --------------------------------------------------------------------------- */

static uint64_t now_ns(const struct memcache_op *op)
{
    return task_wall(op->server->node);
}

/* The expiry that a request asks for. */
static uint64_t new_expiry_ns(const struct memcache_op *op)
{
    return memcache_expiry_ns(op->request.exptime, now_ns(op));
}

/* The expiry of an item that a request makes because there was none. */
static uint64_t made_expiry_ns(const struct memcache_op *op)
{
    return memcache_expiry_ns(op->request.meta.vivify, now_ns(op));
}

static bool has_flag(const struct memcache_op *op, char flag)
{
    return memcache_meta_has(&op->request, flag);
}

uint64_t memcache_expiry_behind(const struct memcache_op *op, char flag, uint64_t expiry_ns)
{
    if (flag == 'T')
        return new_expiry_ns(op);
    if (flag == 'N' && op->outcome.made)
        return made_expiry_ns(op);
    return expiry_ns;
}

/* The expiry of an item after all flags have been applied. */
static uint64_t expiry_behind_all(const struct memcache_op *op, uint64_t expiry_ns)
{
    struct memcache_text rest = op->request.rest, word;
    while (memcache_next_word(&rest, &word))
        expiry_ns = memcache_expiry_behind(op, word.text[0], expiry_ns);
    return expiry_ns;
}

/* The version that a change gives; 0: a new one. */
static uint64_t new_version(const struct memcache_op *op)
{
    return op->request.meta.version;
}

/* Whether the item differs from the version that the client names. */
static bool is_another(const struct memcache_op *op, const struct tarn_record_info *old)
{
    return has_flag(op, 'C') && old->version != op->request.cas;
}

/* Whether the item differs from the version that the client names, if it names one: 0 means none. */
static bool is_another_if_seen(const struct memcache_op *op, const struct tarn_record_info *old)
{
    return op->request.cas != 0 && is_another(op, old);
}

/* A decision of an operation. */
struct decision {
    struct memcache_op *op;
    tarn_update_function *decide;
    void *arg;
};

/* Decide from a fresh outcome, because the findings of an earlier attempt may be outdated. */
static int decide_afresh(void *arg, const struct tarn_record_info *old, const void *value,
                         struct tarn_update *update)
{
    const struct decision *decision = arg;
    struct memcache_value *memory = decision->op->outcome.value;
    decision->op->outcome = (struct memcache_outcome){.value = memory};
    return decision->decide(decision->arg, old, value, update);
}

/* Update a record. @return the update's result, with the outcome set */
static int update_record(struct memcache_op *op, tarn_update_function *decide, void *arg)
{
    struct decision decision = {.op = op, .decide = decide, .arg = arg};
    uint64_t version = 0;
    int error;
    do {
        struct memcache_value *value = op->outcome.value;
        op->outcome = (struct memcache_outcome){.value = value};
        error = kv_update(op->server->kv, op->request.key.text, op->request.key.len, decide_afresh, &decision,
                          &version);
    } while (error == MEMCACHE_NEEDS_MEMORY && (error = memcache_value_provide(op)) == 0);
    if (error == 0)
        op->outcome.info.version = version;
    op->outcome.error = error == AS_IT_IS ? 0 : error;
    return error;
}

/* Note the item that will be stored, for the answer; its version is known afterwards. */
static void note_item(struct memcache_op *op, const struct tarn_update *update)
{
    op->outcome.info = (struct tarn_record_info){.version = update->version,
                                                 .expiry_ns = update->expiry_ns,
                                                 .client_flags = update->client_flags,
                                                 .value_bytes = (uint32_t)update->value_len,
                                                 .note = update->note};
}

/* ---- set and its kin ------------------------------------------------------------------------------ */

static void put_value(struct memcache_op *op, enum tarn_put_condition condition)
{
    const struct memcache_request *request = &op->request;
    const struct tarn_put_options options = {.condition = condition,
                                             .if_version = request->cas,
                                             .expiry_ns = new_expiry_ns(op),
                                             .version = new_version(op),
                                             .client_flags = request->client_flags};
    op->outcome.info.value_bytes = request->value_bytes;
    op->outcome.error = tarn_kv_put(op->server->kv, request->key.text, request->key.len, op->value,
                                    request->value_bytes, &options, &op->outcome.info.version);
}

/* Store a value that the client has made from an older version of the item: it is marked as out of date, and keeps the
 * item's expiry and marks. */
static int decide_stale(void *arg, const struct tarn_record_info *old, const void *value,
                        struct tarn_update *update)
{
    struct memcache_op *op = arg;
    (void)value;
    if (old == NULL)
        return -ENOENT;
    if (op->request.cas == 0 || op->request.cas > old->version)
        return -EEXIST;
    bool late = is_another(op, old);
    *update = (struct tarn_update){
        .value = op->value,
        .value_len = op->request.value_bytes,
        .expiry_ns = late ? old->expiry_ns : new_expiry_ns(op),
        .version = new_version(op),
        .client_flags = op->request.client_flags,
        .note = late ? (uint8_t)(MEMCACHE_NOTE_STALE | (old->note & MEMCACHE_NOTE_SENT)) : 0,
    };
    note_item(op, update);
    return 0;
}

struct joining {
    struct memcache_op *op;
    bool in_front;
};

static int join_values(struct joining *joining, const struct tarn_record_info *old, const void *value,
                       struct tarn_update *update)
{
    struct memcache_op *op = joining->op;
    size_t len = (size_t)old->value_bytes + op->request.value_bytes;
    if (!memcache_item_fits(op->server, op->request.key.len, len, old->client_flags))
        return -EMSGSIZE;
    int error = require_memory(op, len);
    if (error != 0)
        return error;
    char *joined = op->outcome.value->data;
    char *old_place = joined + (joining->in_front ? op->request.value_bytes : 0);
    char *new_place = joined + (joining->in_front ? 0 : old->value_bytes);
    memcpy(old_place, value, old->value_bytes);
    memcpy(new_place, op->value, op->request.value_bytes);
    update->value = joined;
    update->value_len = len;
    return 0;
}

static int decide_join(void *arg, const struct tarn_record_info *old, const void *value,
                       struct tarn_update *update)
{
    struct joining *joining = arg;
    struct memcache_op *op = joining->op;
    if (old == NULL && !has_flag(op, 'N'))
        return -ENOENT;
    if (old != NULL && is_another_if_seen(op, old))
        return -EEXIST;
    if (old != NULL) {
        int error = join_values(joining, old, value, update);
        if (error != 0)
            return error;
    } else {
        update->value = op->value;
        update->value_len = op->request.value_bytes;
        update->client_flags = op->request.client_flags;
        update->expiry_ns = made_expiry_ns(op);
    }
    update->version = new_version(op);
    update->note = 0; /* a joined value counts as new */
    note_item(op, update);
    return 0;
}

static void append_value(struct memcache_op *op, bool in_front)
{
    struct joining joining = {.op = op, .in_front = in_front};
    (void)update_record(op, decide_join, &joining);
    drop_value(op);
}

static void meta_set(struct memcache_op *op)
{
    switch (op->request.meta.mode) {
    case 'E':
        put_value(op, TARN_PUT_IF_ABSENT);
        break;
    case 'A':
        append_value(op, false);
        break;
    case 'P':
        append_value(op, true);
        break;
    default:
        if (has_flag(op, 'C') && has_flag(op, 'I'))
            (void)update_record(op, decide_stale, op);
        else if (has_flag(op, 'C'))
            put_value(op, TARN_PUT_IF_VERSION);
        else
            put_value(op, op->request.meta.mode == 'R' ? TARN_PUT_IF_PRESENT : TARN_PUT_ANY);
        break;
    }
}

/* ---- numbers ---------------------------------------------------------------------------------------- */

struct counting {
    struct memcache_op *op;
    bool down;
    char text[NUMBER_ROOM]; /* the digits of the new value, without padding */
};

/* Write a number. One that has become shorter is padded to its old length, as memcached does, and keeps the item's
 * marks. */
static int write_number(struct counting *counting, size_t old_len, struct tarn_update *update)
{
    int len = snprintf(counting->text, sizeof(counting->text), "%" PRIu64, counting->op->outcome.number);
    base_assert(len > 0 && (size_t)len < sizeof(counting->text));
    update->value = counting->text;
    update->value_len = (size_t)len;
    if ((size_t)len > old_len)
        update->note = 0;
    if ((size_t)len >= old_len)
        return 0;
    int error = require_memory(counting->op, old_len);
    if (error != 0)
        return error;
    char *padded = counting->op->outcome.value->data;
    memset(padded, ' ', old_len);
    memcpy(padded, counting->text, (size_t)len);
    update->value = padded;
    update->value_len = old_len;
    return 0;
}

static int decide_count(void *arg, const struct tarn_record_info *old, const void *value,
                        struct tarn_update *update)
{
    struct counting *counting = arg;
    struct memcache_op *op = counting->op;
    uint64_t number, delta = op->request.delta;
    if (old == NULL && !has_flag(op, 'N'))
        return -ENOENT;
    if (old != NULL && old->value_bytes == 0)
        return NOT_A_NUMBER;
    if (old != NULL && is_another_if_seen(op, old))
        return -EEXIST;
    if (old != NULL) {
        if (value == NULL || !memcache_parse_number(value, old->value_bytes, &number))
            return NOT_A_NUMBER;
        op->outcome.number = !counting->down ? number + delta : number < delta ? 0 : number - delta;
        op->outcome.hit = true;
    } else {
        op->outcome.number = op->request.meta.initial;
        op->outcome.made = true;
    }
    op->outcome.old_expiry_ns = update->expiry_ns;
    if (op->request.verb == MEMCACHE_META_ARITHMETIC)
        update->expiry_ns = expiry_behind_all(op, update->expiry_ns);
    update->version = new_version(op);
    int error = write_number(counting, old == NULL ? 0 : old->value_bytes, update);
    if (error == 0)
        note_item(op, update);
    return error;
}

static void change_number(struct memcache_op *op, bool down)
{
    struct counting counting = {.op = op, .down = down};
    if (update_record(op, decide_count, &counting) == NOT_A_NUMBER) {
        op->outcome.text = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
        op->outcome.error = 0;
    }
    drop_value(op);
}

/* ---- delete ------------------------------------------------------------------------------------------ */

static int decide_delete(void *arg, const struct tarn_record_info *old, const void *value,
                         struct tarn_update *update)
{
    struct memcache_op *op = arg;
    (void)value;
    if (old == NULL)
        return -ENOENT;
    if (is_another(op, old))
        return -EEXIST;
    update->remove = !has_flag(op, 'I') && !has_flag(op, 'x');
    update->version = has_flag(op, 'I') || has_flag(op, 'E') ? new_version(op) : old->version;
    update->keep = !has_flag(op, 'x');
    if (has_flag(op, 'I')) {
        update->note = MEMCACHE_NOTE_STALE; /* the next client is told to fetch it anew */
        if (has_flag(op, 'T'))
            update->expiry_ns = new_expiry_ns(op);
    }
    if (has_flag(op, 'x')) {
        update->client_flags = op->request.client_flags;
        update->expiry_ns = new_expiry_ns(op);
    }
    return 0;
}

static void meta_delete(struct memcache_op *op)
{
    if (has_flag(op, 'I') || has_flag(op, 'x') || has_flag(op, 'C'))
        (void)update_record(op, decide_delete, op);
    else
        op->outcome.error = tarn_kv_delete(op->server->kv, op->request.key.text, op->request.key.len);
}

/* ---- gets that change something -------------------------------------------------------------------------
 */

/* Whether an item expires within the time of the flag R, by the expiry that the flags before it have left. */
static bool expires_soon(const struct memcache_op *op, uint64_t expiry_ns)
{
    struct memcache_text rest = op->request.rest, word;
    uint64_t recache_ns = memcache_expiry_ns(op->request.meta.recache, now_ns(op));
    while (memcache_next_word(&rest, &word)) {
        if (word.text[0] == 'R')
            return expiry_ns != 0 && expiry_ns < recache_ns;
        expiry_ns = memcache_expiry_behind(op, word.text[0], expiry_ns);
    }
    return false;
}

bool memcache_wins(const struct memcache_op *op, const struct tarn_record_info *info)
{
    if (op->request.verb != MEMCACHE_META_GET || (info->note & MEMCACHE_NOTE_SENT) != 0)
        return false;
    return (info->note & MEMCACHE_NOTE_STALE) != 0 ||
           (has_flag(op, 'R') && expires_soon(op, info->expiry_ns));
}

/* Make an empty item in place of a missing one, for the client to fill. */
static int vivify_item(struct memcache_op *op, struct tarn_update *update)
{
    op->outcome.made = true;
    update->expiry_ns = expiry_behind_all(op, 0);
    update->note = MEMCACHE_NOTE_SENT;
    update->version = new_version(op);
    note_item(op, update);
    op->outcome.info.note = 0; /* marks that earlier clients would have seen: none */
    op->outcome.won = true;
    return memcache_wants_value(&op->request) ? memcache_value_take(op, "", 0) : 0;
}

static int decide_get(void *arg, const struct tarn_record_info *old, const void *value,
                      struct tarn_update *update)
{
    struct memcache_op *op = arg;
    if (old == NULL)
        return has_flag(op, 'N') ? vivify_item(op, update) : -ENOENT;
    struct tarn_record_info info = *old;
    bool touches = memcache_has_keys(&op->request) || has_flag(op, 'T');
    op->outcome.won = memcache_wins(op, old);
    op->outcome.old_expiry_ns = old->expiry_ns;
    if (touches)
        info.expiry_ns = new_expiry_ns(op);
    op->outcome.hit = true;
    op->outcome.info = info;
    int error = 0;
    if (memcache_wants_value(&op->request))
        error = value == NULL ? KV_IN_PIECES : memcache_value_take(op, value, old->value_bytes);
    if (error != 0)
        return error;
    if (!touches && !op->outcome.won)
        return AS_IT_IS;
    *update = (struct tarn_update){.keep = true,
                                   .expiry_ns = info.expiry_ns,
                                   .version = old->version, /* a touch keeps the version */
                                   .client_flags = info.client_flags,
                                   .note = info.note};
    if (op->outcome.won)
        update->note |= MEMCACHE_NOTE_SENT;
    return 0;
}

static void get_and_change(struct memcache_op *op)
{
    if (update_record(op, decide_get, op) < 0)
        drop_value(op);
}

static void touch_key(struct memcache_op *op)
{
    op->outcome.error =
        kv_touch(op->server->kv, op->request.key.text, op->request.key.len, new_expiry_ns(op));
}

/* ---- all -------------------------------------------------------------------------------------------------
 */

void memcache_operate(struct memcache_op *op)
{
    switch (op->request.verb) {
    case MEMCACHE_SET:
        put_value(op, TARN_PUT_ANY);
        break;
    case MEMCACHE_ADD:
        put_value(op, TARN_PUT_IF_ABSENT);
        break;
    case MEMCACHE_REPLACE:
        put_value(op, TARN_PUT_IF_PRESENT);
        break;
    case MEMCACHE_CAS:
        put_value(op, TARN_PUT_IF_VERSION);
        break;
    case MEMCACHE_APPEND:
    case MEMCACHE_PREPEND:
        append_value(op, op->request.verb == MEMCACHE_PREPEND);
        break;
    case MEMCACHE_META_SET:
        meta_set(op);
        break;
    case MEMCACHE_INCR:
    case MEMCACHE_DECR:
        change_number(op, op->request.verb == MEMCACHE_DECR);
        break;
    case MEMCACHE_META_ARITHMETIC:
        change_number(op, op->request.meta.mode == 'D' || op->request.meta.mode == '-');
        break;
    case MEMCACHE_DELETE:
    case MEMCACHE_META_DELETE:
        meta_delete(op);
        break;
    case MEMCACHE_TOUCH:
        touch_key(op);
        break;
    default: /* gets that touch, or that may be told to fetch anew */
        get_and_change(op);
        break;
    }
}
