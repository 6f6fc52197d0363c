/*
 * The engines that `tarn-lab ycsb` measures, behind one interface. Each lives in a process of its own
 * (ycsb_host.c), and its calls come from several threads at once, each with a session of its own. Other
 * people's libraries are loaded when they are needed (library.h): the program needs none of them to run.
 */
#ifndef LAB_YCSB_ENGINE_H
#define LAB_YCSB_ENGINE_H

#include "base/base.h"
#include <stdatomic.h>

enum { LAB_YCSB_WHY_ROOM = 256, LAB_YCSB_PATH_ROOM = 4096 };

/* Where an engine is, and what it may take. */
struct lab_ycsb_place {
    const char *folder; /* its own */
    struct base_account *account;
    uint64_t memory_bytes; /* all together, page cache included */
    uint64_t records_max;
    bool direct; /* past the page cache, where the engine can */
    uint32_t value_bytes;
    _Atomic bool said;
    char why[LAB_YCSB_WHY_ROOM]; /* the first error, in the engine's words */
};

struct lab_ycsb_engine {
    const char *name;
    const char *skipped; /* why it is not in this build, or NULL */

    /** Make what is in the folder an empty store. NULL: it is enough to remove all of it. @return 0; negative
     * errno: said */
    int (*renew)(struct lab_ycsb_place *place);

    /**
     * Open what is in the folder, or make it if the folder is empty.
     *
     * @param sync  a put is durable when it returns
     * @return 0; negative errno: said
     */
    int (*open)(struct lab_ycsb_place *place, bool sync, void **ret_store);

    /** Sessions are closed. @return 0; negative errno: said */
    int (*close)(void *store);

    /** For one thread. NULL: the store is a session for all. @return 0; negative errno: said */
    int (*session_open)(void *store, void **ret_session);
    void (*session_close)(void *session);

    /** @param value  value_bytes of room @return 0; -ENOENT; -EBADMSG (another length); negative errno: said
     */
    int (*get)(void *session, const void *key, size_t key_bytes, void *value);

    /** @param value  value_bytes @return 0; negative errno: said */
    int (*put)(void *session, const void *key, size_t key_bytes, const void *value);
};

extern const struct lab_ycsb_engine lab_ycsb_tarn;
extern const struct lab_ycsb_engine lab_ycsb_rocksdb;
extern const struct lab_ycsb_engine lab_ycsb_lmdb;
extern const struct lab_ycsb_engine lab_ycsb_wiredtiger;

/** Keep what an engine says of an error, unless there was one before. Any thread. @return `error` */
int lab_ycsb_say(struct lab_ycsb_place *place, int error, const char *format, ...) base_printf_like(3, 4);

/** lab_library_open(), which see, of an engine's library. @return 0; -ELIBACC: said */
base_must_check int lab_ycsb_library(struct lab_ycsb_place *place, const char *file, const char *const *names,
                                     size_t count, void *ret_calls);

#endif
