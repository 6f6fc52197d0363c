/*
 * The messages of space and the nodes of its metadata (README, "Messages" and "Metadata"), as sequences of fields: one
 * function of a pair appends what the other takes. What is taken may come from anywhere: a cursor that runs past its end,
 * or meets a field that must be 0 and is not, is *wrong* from then on, and gives zeros.
 */
#ifndef SPACE_WIRE_H
#define SPACE_WIRE_H

#include "base/base.h"
#include <tarn/space.h>

_Static_assert(TARN_SPACE_NAME_MAX == BASE_NAME_MAX, "names are checked by base_name_is_good()");

#define SPACE_SESSION_BYTES  16
#define SPACE_IDENTITY_BYTES 16
#define SPACE_ADDRESS_MAX    107  /* the most bytes of an address, as tarn_fabric_connect() takes it */
#define SPACE_ADDRESSES_MAX  1023 /* the most bytes of a list of addresses */
#define SPACE_HELLO_BYTES    48   /* bytes of a client's hello to a memory server */
#define SPACE_REGION_BYTES   32
#define SPACE_PLACE_BYTES    24
#define SPACE_KEYS_BYTES     24
#define SPACE_MARK_BYTES     8
#define SPACE_WORDS_BYTES    16
#define SPACE_REQUEST_MAX    1024        /* the most bytes of a client's request */
#define SPACE_RESULT_MAX     (16U << 10) /* the most bytes of a result for a client */
#define SPACE_SERVER_MAX                                                                                     \
    (16U << 10) /* the most bytes of a request or a result between master and memory server */

enum space_method {
    SPACE_HELLO,
    SPACE_RENEW,
    SPACE_BYE,
    SPACE_CREATE,
    SPACE_JOIN,
    SPACE_DELETE,
    SPACE_RESERVE,
    SPACE_RELEASE,
    SPACE_ALLOC,
    SPACE_INIT,
    SPACE_FIND,
    SPACE_HOLD,
    SPACE_PLACES,
    SPACE_FREE,
    SPACE_DROP,
    SPACE_SERVER,
    SPACE_LIST,
    SPACE_BEGIN,
    SPACE_PUBLISH,
    SPACE_RESUMED,
    SPACE_DRAIN,
    SPACE_ENDED,
    SPACE_REGISTER = 32,
    SPACE_REPORT,
    SPACE_ATTEND,
    SPACE_ADMIT,
    SPACE_METHODS,
};

/* Calls of the master to a memory server. */
enum space_order {
    SPACE_ASSIGN,
    SPACE_UNASSIGN,
    SPACE_FENCE,
    SPACE_PING,
    SPACE_MARK,
    SPACE_COPY,
    SPACE_ORDERS,
};

/* Flags of FENCE, whose sessions may come in several orders. */
#define SPACE_FENCE_FIRST 1U
#define SPACE_FENCE_LAST  2U

#define SPACE_RESUMES                                                                                        \
    1U /* flag of HELLO: the session was another master's, and may have operations under way */

enum space_kind { SPACE_SERVERS, SPACE_NAMESPACES, SPACE_REGIONS, SPACE_STATISTICS };

#define SPACE_PING_BYTES 16 /* of the answer to PING */

/* A place in bytes that are written, or taken. */
struct space_cursor {
    uint8_t *at;
    uint8_t *end;
    bool is_wrong; /* there was no room, or what was taken is no message */
};

/** A cursor over bytes to be written. */
struct space_cursor space_cursor_to(void *bytes, size_t room);

/** A cursor over bytes to be taken, which are not changed. */
struct space_cursor space_cursor_from(const void *bytes, size_t count);

/** Bytes that were written, or taken, so far. @param bytes  where the cursor began */
size_t space_cursor_count(const struct space_cursor *cursor, const void *bytes);

/** Whether all was taken, and nothing was wrong. */
bool space_cursor_is_done(const struct space_cursor *cursor);

/** Append a number of 1 to 8 bytes. */
void space_put(struct space_cursor *cursor, uint64_t value, unsigned bytes);

/** Append bytes. */
void space_put_bytes(struct space_cursor *cursor, const void *data, size_t count);

/** Take a number of 1 to 8 bytes. */
uint64_t space_take(struct space_cursor *cursor, unsigned bytes);

/** Take bytes that must be 0. */
void space_take_zeros(struct space_cursor *cursor, unsigned bytes);

/** Take bytes. @return where they are; NULL: there are fewer */
const void *space_take_bytes(struct space_cursor *cursor, size_t count);

/** Take a text of a known length. @param ret_text  room for max + 1 bytes @return whether it is 1 to `max` bytes long */
bool space_take_text(struct space_cursor *cursor, size_t count, char *ret_text, size_t max);

/** The same of a name. @param ret_name  room for TARN_SPACE_NAME_MAX + 1 bytes @return whether it is one */
bool space_take_name(struct space_cursor *cursor, size_t count, char *ret_name);

/* A region, as answers tell it. */
struct space_region_row {
    uint32_t number;
    uint8_t memory_class;
    uint8_t is_freed;
    uint8_t is_versioned;
    uint8_t copies;
    uint64_t address;
    uint64_t bytes;
    uint32_t chunks;
};

/** Append a region. */
void space_put_region(struct space_cursor *cursor, const struct space_region_row *region);

/** Take a region. */
void space_take_region(struct space_cursor *cursor, struct space_region_row *ret_region);

/* Where a chunk is: its server, and the handle of its class there. */
struct space_place {
    uint32_t server;
    uint32_t chunk; /* number at the server */
    uint64_t domain;
    uint64_t key; /* 0: the server is not there */
};

/* The handle of a namespace's version words at a server, without what all have in common. A key of 0: it is not known. */
struct space_words {
    uint64_t domain;
    uint64_t key;
};

/** Append the handle of version words. */
void space_put_words(struct space_cursor *cursor, const struct space_words *words);

/** Take the handle of version words. */
void space_take_words(struct space_cursor *cursor, struct space_words *ret_words);

/** Bytes of a place in an answer. @param is_versioned  with the handle of its server's version words */
static inline uint32_t space_place_bytes(bool is_versioned)
{
    return SPACE_PLACE_BYTES + (is_versioned ? SPACE_WORDS_BYTES : 0);
}

/** Append a place. */
void space_put_place(struct space_cursor *cursor, const struct space_place *place);

/** Take a place. */
void space_take_place(struct space_cursor *cursor, struct space_place *ret_place);

/* The handles of a chunk in a namespace's domain, without what they have in common. */
struct space_keys {
    uint64_t domain;
    uint64_t bulk;
    uint64_t words;
};

/** Append the handles of a chunk. */
void space_put_keys(struct space_cursor *cursor, const struct space_keys *keys);

/** Take the handles of a chunk. */
void space_take_keys(struct space_cursor *cursor, struct space_keys *ret_keys);

/** The version word of a chunk that is a current one of a copy-on-write region. @param number  of the version for which the
 * chunk was taken; 0: the word of a chunk that is tainted */
uint64_t space_version_word(uint32_t number);

/** Whether a version word says without doubt that its chunk, which a version has, is still the current one there. @param
 * version  its number */
bool space_word_is_current(uint64_t word, uint32_t version);

/** The rights of clients to a chunk, by the class of its region: bits of enum tarn_fabric_rights. */
uint32_t space_rights(enum tarn_space_class memory_class);

/** The number by which others know a session, of which they learn nothing of its id. @return 0: no memory */
uint64_t space_session_number(const uint8_t *id);

/** The number of addresses of a list, in which they stand with ',' between them. @return 0: it is none, or too long */
uint32_t space_address_count(const char *list);

/** One address of a list. @param turn  which one: they are counted on and on @param ret_address  room for
 * SPACE_ADDRESS_MAX + 1 bytes @return whether there is one */
bool space_address_at(const char *list, uint32_t turn, char *ret_address);

/* Views of a term are numbered from its first, in which memory servers are believed as before; later terms have greater ones. */
#define SPACE_VIEW_BITS 20

/** The first view of a term. */
static inline uint64_t space_view_first(uint64_t epoch)
{
    return epoch << SPACE_VIEW_BITS;
}

/** Whether a view is the first of its term. */
static inline bool space_view_is_first(uint64_t view)
{
    return (view & ((UINT64_C(1) << SPACE_VIEW_BITS) - 1)) == 0;
}

/* A client's hello to a memory server. */
struct space_hello {
    uint8_t session[SPACE_SESSION_BYTES];
    uint8_t identity[SPACE_IDENTITY_BYTES]; /* of the memory that the client looks for: it may be lost */
    uint32_t space_namespace;
};

/** Write a hello, SPACE_HELLO_BYTES bytes. */
void space_hello_save(const struct space_hello *hello, void *bytes);

/** Read a hello of an unknown sender. @return 0; -EPROTO */
base_must_check int space_hello_load(const void *bytes, size_t count, struct space_hello *ret_hello);

#endif
