#include "base/stages.h"

#include <errno.h>

#include "base/json.h"

int base_stages_init(struct base_stages *stages, struct base_account *account, const char *const *names,
                     size_t count, bool enabled)
{
    struct base_histogram *histograms = NULL;
    if (enabled) {
        histograms = base_alloc(account, count * sizeof(*histograms));
        if (histograms == NULL)
            return -ENOMEM;
        for (size_t i = 0; i < count; i++)
            base_histogram_reset(&histograms[i]);
    }
    *stages = (struct base_stages){account, names, count, histograms};
    return 0;
}

void base_stages_deinit(struct base_stages *stages)
{
    base_free(stages->account, stages->histograms, stages->count * sizeof(*stages->histograms));
    stages->histograms = NULL;
}

void base_stages_merge(struct base_stages *into, const struct base_stages *from)
{
    base_assert(into->count == from->count);
    if (into->histograms == NULL || from->histograms == NULL)
        return;
    for (size_t i = 0; i < into->count; i++)
        base_histogram_merge(&into->histograms[i], &from->histograms[i]);
}

void base_stages_write_json(const struct base_stages *stages, struct base_json *json, const char *key)
{
    base_json_object_begin(json, key);
    for (size_t i = 0; stages->histograms != NULL && i < stages->count; i++)
        base_histogram_write_json(&stages->histograms[i], json, stages->names[i]);
    base_json_object_end(json);
}
