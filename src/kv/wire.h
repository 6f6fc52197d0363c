/*
 * The messages of the kv service, as docs/wire.md defines them; for each, the function that saves it and the one that
 * loads it stand together. A function that loads checks bytes from an unknown sender, in memory that no other process
 * changes; pointers in its result point into that memory.
 */
#ifndef KV_WIRE_H
#define KV_WIRE_H

#include "kv/kv_internal.h"
#include <tarn/rpc.h>

#define KV_WIRE_VERSION      1
#define KV_GETS_MAX          64 /* the most keys of one MULTI_GET */
#define KV_STORE_BY_NAME     UINT16_MAX
#define KV_RECORD_BYTES      32
#define KV_ITEM_BYTES        (8 + KV_RECORD_BYTES) /* bytes before each value in results of MULTI_GET and SCAN */
#define KV_PAGE_BYTES        16                    /* bytes at the beginning of a result of SCAN or RANGE */
#define KV_SCAN_BYTES_MAX    (UINT32_C(256) << 10) /* the most bytes of a page */
#define KV_SCAN_VALUE_MAX    (UINT32_C(128) << 10) /* the longest value that a client asks a scan to show */
#define KV_REQUEST_BYTES_MAX 88                    /* the most bytes of a request before its key and value */
#define KV_HANDLE_AT         56                    /* offset of the handle in a PUT_REGION */
#define KV_TAKES_REGIONS     128                   /* one of the abilities: the server answers PUT_REGION */
#define KV_IS_SHARED         16                    /* one more: clients may read it by themselves */
#define KV_HANDLES_BYTES     16                    /* bytes of a result of HANDLES before the handles */
#define KV_READS_BYTES       16                    /* private data of a connection for READs */
#define KV_INFO_BYTES        40                    /* bytes of an INFO's result before the name */

enum kv_method {
    KV_INFO,
    KV_GET,
    KV_MULTI_GET,
    KV_PUT,
    KV_DELETE,
    KV_GET_RANGE,
    KV_SCAN,
    KV_PUT_REGION,
    KV_RANGE,
    KV_BATCH,
    KV_HANDLES,
    KV_METHODS,
    KV_SHORT = 16, /* added to a method's number: the variant for caches, which never yields */
};

/* A request; its method decides which fields are used. */
struct kv_request {
    uint16_t store;
    uint16_t key_len;
    const void *key; /* the key; INFO: the name; RANGE: where it begins */
    uint32_t
        amount; /* the amount that docs/wire.md defines for the method; HANDLES: the region; PUT, PUT_REGION, RANGE: bytes of `value` */
    const void *value;               /* RANGE: where it ends */
    struct tarn_put_options options; /* PUT, PUT_REGION */
    uint64_t if_version;             /* GET_RANGE */
    uint64_t
        offset; /* GET_RANGE: offset in the value; PUT_REGION: … in the region; HANDLES: the first handle */
    uint64_t region_bytes;            /* PUT_REGION: bytes of the value that lie in the region */
    struct tarn_fabric_handle handle; /* PUT_REGION */
    uint64_t scan;                    /* SCAN */
    uint32_t value_room;              /* SCAN, RANGE */
    uint32_t records;                 /* RANGE: the most that are wanted */
    bool reverse;                     /* RANGE: from the greatest key down */
    bool after;                       /* RANGE: the key where it begins is not meant */
};

/** The bytes of a request, without the keys of a MULTI_GET. */
uint64_t kv_request_bytes(enum kv_method method, const struct kv_request *request);

/** Write a request, without the keys of a MULTI_GET. @param to  room for kv_request_bytes() */
void kv_request_save(enum kv_method method, const struct kv_request *request, uint8_t *to);

/** Read a request; of a MULTI_GET its beginning. @return 0; -EINVAL: it is none */
base_must_check int kv_request_load(enum kv_method method, const uint8_t *bytes, size_t count,
                                    struct kv_request *ret_request);

/** The bytes of one key of a MULTI_GET. */
static inline size_t kv_key_bytes(size_t key_len)
{
    return 8 + key_len;
}

/** Write one key of a MULTI_GET. @param to  room for kv_key_bytes() */
void kv_key_save(const struct tarn_get *get, uint32_t room, uint8_t *to);

/** Read all keys of a MULTI_GET: key, key_len and value_room of each. @return 0; -EINVAL */
base_must_check int kv_keys_load(const struct kv_request *request, const uint8_t *bytes, size_t count,
                                 struct tarn_get *ret_gets);

#define KV_CHANGE_BYTES  40 /* bytes before key and value of a change in a BATCH */
#define KV_CHANGED_BYTES 16 /* bytes of its outcome, and before all outcomes */

/** The bytes of one change of a BATCH. */
static inline uint64_t kv_change_bytes(const struct tarn_batch_item *item)
{
    return KV_CHANGE_BYTES + item->key_len + (item->remove || item->check ? 0 : item->value_len);
}

/** Write one change of a BATCH, whose key has 1 to TARN_KEY_BYTES_MAX bytes. @param to  room for kv_change_bytes() */
void kv_change_save(const struct tarn_batch_item *item, uint8_t *to);

/** Read all changes of a BATCH. @param ret_options  one for each of ret_items, to which that points @return 0; -EINVAL */
base_must_check int kv_changes_load(const struct kv_request *request, const uint8_t *bytes, size_t count,
                                    struct tarn_put_options *ret_options, struct tarn_batch_item *ret_items);

/** Write the outcome of a BATCH. @param to  room for KV_CHANGED_BYTES, and as many for each item */
void kv_changed_save(const struct tarn_batch_item *items, uint32_t count, int error, uint8_t *to);

/** Read the outcome of a BATCH: version and error of each item. @return the batch's; -EPROTO: it is none, and items are untouched */
base_must_check int kv_changed_load(const uint8_t *bytes, size_t bytes_count, struct tarn_batch_item *items,
                                    uint32_t count);

/** Write a record. @param to  KV_RECORD_BYTES */
void kv_record_save(const struct tarn_record_info *info, uint8_t *to);

/** Read a record. @return 0; -EPROTO: it is none */
base_must_check int kv_record_load(const uint8_t *bytes, struct tarn_record_info *ret_info);

/* The beginning of a result of HANDLES. */
struct kv_handles {
    uint64_t step_bytes; /* bytes of the region that each handle is for */
    uint32_t unit_bytes; /* of a node */
    uint32_t count;      /* of handles that follow */
};

/** Write an answer to HANDLES. @param to  room for KV_HANDLES_BYTES and TARN_FABRIC_HANDLE_BYTES each */
void kv_handles_save(const struct kv_handles *head, const struct tarn_fabric_handle *handles, uint8_t *to);

/** Read an answer to HANDLES. @param room  for handles @return 0; -EPROTO: it is none, or has more */
base_must_check int kv_handles_load(const uint8_t *bytes, size_t count, struct kv_handles *ret_head,
                                    struct tarn_fabric_handle *ret_handles, uint32_t room);

/** Write the private data of a connection for READs. @param to  KV_READS_BYTES */
void kv_reads_hello_save(uint16_t store, uint8_t *to);

/** Read such data. @return false: it is other data */
base_must_check bool kv_reads_hello_load(const void *bytes, size_t count, uint16_t *ret_store);

/* The head of a value in a result of MULTI_GET, SCAN or RANGE. */
struct kv_item {
    int32_t status;               /* MULTI_GET */
    uint16_t key_len;             /* SCAN, RANGE */
    bool is_shown;                /* SCAN, RANGE: the value follows */
    uint32_t bytes;               /* bytes of the value that follow */
    struct tarn_record_info info; /* set if the status is 0 or -ENOBUFS */
    const uint8_t *key, *value;   /* set by loading, within the loaded bytes */
};

/** Write the outcome of one of several gets. @param to  room for KV_ITEM_BYTES; the value stands behind it */
void kv_got_save(const struct tarn_get *get, uint8_t *to);

/** Read the outcome of a get, with its value. @return its bytes; 0: it is none */
size_t kv_got_load(const uint8_t *bytes, size_t count, struct kv_item *ret_item);

/** Write a record of a page, with key and value. @param to  KV_ITEM_BYTES, key, and the value if it is shown */
void kv_scanned_save(const struct kv_item *item, uint8_t *to);

/** Read a record of a page. @return its bytes; 0: it is none */
size_t kv_scanned_load(const uint8_t *bytes, size_t count, struct kv_item *ret_item);

/* The beginning of a page. */
struct kv_page {
    uint64_t scan; /* RANGE: 1; 0: there are no more */
    uint32_t count;
};

/* A page that is filled record by record. */
struct kv_filling {
    uint8_t *page;
    uint32_t room; /* bytes of the page, at most */
    uint32_t bytes;
    uint32_t value_room; /* the longest value that is shown */
    struct kv_page head;
};

/** Empty a page, of which the head's `scan` stays. */
static inline void kv_filling_empty(struct kv_filling *filling)
{
    filling->bytes = KV_PAGE_BYTES;
    filling->head.count = 0;
}

/** Whether a page has room for any one record whose value is shown. */
static inline bool kv_page_has_room(uint32_t room, uint32_t value_room)
{
    return (uint64_t)KV_PAGE_BYTES + KV_ITEM_BYTES + TARN_KEY_BYTES_MAX + value_room <= room;
}

/** Add a record to a page. @param value  NULL: it cannot be shown @return false: there is no room for it */
bool kv_filling_add(struct kv_filling *filling, const void *key, size_t key_len, const void *value,
                    const struct tarn_record_info *info);

/** Write the beginning of a page. @param to  room for KV_PAGE_BYTES */
void kv_page_save(const struct kv_page *page, uint8_t *to);

/** Read the beginning of a page. @return 0; -EPROTO */
base_must_check int kv_page_load(const uint8_t *bytes, size_t count, struct kv_page *ret_page);

/* The answer to INFO. */
struct kv_store_info {
    uint16_t store, stores, workers;
    struct tarn_kv_info info;
    uint64_t seed;
    size_t name_len;
    const char *name;
};

/** Write an answer to INFO. @param to  room for KV_INFO_BYTES and the name */
void kv_info_save(const struct kv_store_info *info, uint8_t *to);

/** Read an answer to INFO. @return 0; -EPROTO */
base_must_check int kv_info_load(const uint8_t *bytes, size_t count, struct kv_store_info *ret_info);

#endif
