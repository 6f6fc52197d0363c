/* The reload of a running server: its stores grow to the size of their drives, and their indexes shrink to fit. */
#include "depot/depot.h"
#include "drive/drive.h"
#include "serve/serve_internal.h"
#include <inttypes.h>

static const char *reason(int error)
{
    switch (error) {
    case -EAGAIN:
        return "what is stored just now needs it, or keys collide: try when less is written";
    case -ECANCELED:
        return "the server ends";
    case -ENOMEM:
        return "there is no memory to work with: raise --memory";
    default:
        return strerrordesc_np(-error);
    }
}

static void shrink_index(const struct serve_store *store, bool (*stops)(void *arg), void *arg)
{
    struct base_log *node_log = &store->serve->node->log;
    struct tarn_depot_stats before, after;
    uint64_t given_bytes, begin_ns = task_now();
    tarn_depot_stats(store->depot, &before);
    int error = depot_shrink_index(store->depot, stops, arg, &given_bytes);
    tarn_depot_stats(store->depot, &after);
    if (error == 0)
        base_info(node_log, "the index is as small as its records let it be",
                  "bytes_before=%" PRIu64 " bytes_after=%" PRIu64 " records=%" PRIu64 " ms=%" PRIu64,
                  before.index_bytes, after.index_bytes, after.records,
                  (task_now() - begin_ns) / BASE_NS_PER_MS);
    else
        base_warn(node_log, "the index was not made as small as it may be",
                  "bytes_before=%" PRIu64 " bytes_after=%" PRIu64 " why=\"%s\"", before.index_bytes,
                  after.index_bytes, reason(error));
}

void serve_fit(struct serve *serve, bool (*stops)(void *arg), void *arg)
{
    struct tarn_depot_growth growth;
    for (uint32_t i = 0; i < serve->store_count; i++) {
        struct serve_store *store = &serve->stores[i];
        if (store->depot == NULL)
            continue;
        base_info(&serve->node->log, "SIGHUP asks to fit the store to its drive", "store=%s path=%s",
                  store->options.name, drive_name(depot_drive(store->depot)));
        (void)!tarn_depot_extend(store->depot, &growth); /* a failure is in the log */
        shrink_index(store, stops, arg);
    }
}
