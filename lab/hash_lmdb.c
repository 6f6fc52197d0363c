/* LMDB beside the hash store: its readers share memory and write nothing into it. Its file is in memory. */
#include "lab/hash.h"
#include "lab/ycsb.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct state {
    struct lab_ycsb_place place;
    char folder[64];
    void *engine, *session;
};

static int open_engine(struct lab_hash_store *store, struct state *state)
{
    const struct lab_ycsb_engine *engine = &lab_ycsb_lmdb;
    struct base_account *account = store->job->bench->account;
    int error = lab_ycsb_library(&state->place, engine);
    if (error != 0)
        return error;
    state->engine = base_alloc(account, engine->store_bytes);
    if (state->engine == NULL)
        return -ENOMEM;
    error = engine->open(&state->place, false, state->engine);
    if (error != 0) {
        base_free(account, state->engine, engine->store_bytes);
        state->engine = NULL;
        return error;
    }
    return lab_ycsb_session_open(&state->place, engine, state->engine, &state->session);
}

static int open_lmdb(struct lab_hash_store *store)
{
    const struct lab_hash_job *job = store->job;
    store->skipped = lab_ycsb_lmdb.skipped;
    if (store->skipped != NULL)
        return 0;
    struct state *state = base_alloc(job->bench->account, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    store->state = state;
    (void)snprintf(state->folder, sizeof(state->folder), "/dev/shm/tarn-lab-hash-XXXXXX");
    if (mkdtemp(state->folder) == NULL) {
        state->folder[0] = '\0';
        return -errno;
    }
    state->place = (struct lab_ycsb_place){.folder = state->folder,
                                           .account = job->bench->account,
                                           .records_max = job->keys.count,
                                           .value_bytes = job->values.bytes};
    int error = open_engine(store, state);
    return error == 0 ? 0 : bench_fail(job->bench, error, "lmdb: %s", state->place.why);
}

static void close_lmdb(struct lab_hash_store *store)
{
    const struct lab_ycsb_engine *engine = &lab_ycsb_lmdb;
    struct base_account *account = store->job->bench->account;
    struct state *state = store->state;
    if (state == NULL)
        return;
    if (state->session != NULL)
        lab_ycsb_session_close(&state->place, engine, state->session);
    if (state->engine != NULL) {
        (void)engine->close(state->engine);
        base_free(account, state->engine, engine->store_bytes);
    }
    if (state->folder[0] != '\0') {
        (void)lab_ycsb_empty_folder(state->folder);
        (void)rmdir(state->folder);
    }
    base_free(account, state, sizeof(*state));
    store->state = NULL;
}

static int get_lmdb(struct lab_hash_store *store, const char (*keys)[BENCH_KEY_BYTES], uint32_t count,
                    uint8_t *values)
{
    const struct state *state = store->state;
    int error = 0;
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = lab_ycsb_lmdb.get(state->session, keys[i], BENCH_KEY_BYTES,
                                  values + (size_t)i * store->job->values.bytes);
    return error;
}

static int put_lmdb(struct lab_hash_store *store, const char (*keys)[BENCH_KEY_BYTES], uint32_t count,
                    const uint8_t *values)
{
    const struct state *state = store->state;
    int error = 0;
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = lab_ycsb_lmdb.put(state->session, keys[i], BENCH_KEY_BYTES,
                                  values + (size_t)i * store->job->values.bytes);
    return error;
}

static uint64_t lmdb_bytes(struct lab_hash_store *store)
{
    const struct state *state = store->state;
    char path[96];
    struct stat file;
    (void)snprintf(path, sizeof(path), "%s/data.mdb", state->folder);
    return stat(path, &file) == 0 ? (uint64_t)file.st_blocks * 512 : 0;
}

const struct lab_hash_store lab_hash_lmdb = {.name = "lmdb",
                                             .open = open_lmdb,
                                             .get = get_lmdb,
                                             .put = put_lmdb,
                                             .bytes = lmdb_bytes,
                                             .close = close_lmdb};
