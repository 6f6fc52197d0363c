/* The output: gathered answers, the pieces that they lie in, and sending. Their texts are answer.c's. */
#include "kv/kv.h"
#include "memcache/memcache_internal.h"

void memcache_output_init(struct memcache_output *output,
                          int (*send)(void *arg, struct iovec *pieces, uint32_t piece_count), void *arg)
{
    output->send = send;
    output->arg = arg;
    output->error = 0;
    output->piece_count = 0;
    output->used = 0;
    output->values = NULL;
    output->lease_count = 0;
    output->leased_bytes = 0;
}

static void free_values(struct memcache_server *server, struct memcache_output *output)
{
    while (output->lease_count > 0)
        kv_lease_end(&output->leases[--output->lease_count]);
    output->leased_bytes = 0;
    while (output->values != NULL) {
        struct memcache_value *value = output->values;
        output->values = value->next;
        memcache_value_free(server, value);
    }
}

int memcache_output_flush(struct memcache_server *server, struct memcache_output *output)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < output->piece_count; i++)
        bytes += output->pieces[i].iov_len;
    if (output->error == 0 && bytes > 0) {
        output->error = output->send(output->arg, output->pieces, output->piece_count);
        memcache_count(&server->counters.bytes_written, bytes);
    }
    free_values(server, output);
    output->piece_count = 0;
    output->used = 0;
    return output->error;
}

void memcache_output_queue(struct memcache_output *output, const void *data, size_t len)
{
    struct iovec *last = output->piece_count == 0 ? NULL : &output->pieces[output->piece_count - 1];
    if (len == 0)
        return;
    if (last != NULL && (char *)last->iov_base + last->iov_len == (const char *)data) {
        last->iov_len += len;
        return;
    }
    base_assert(output->piece_count < MEMCACHE_PIECES_MAX);
    output->pieces[output->piece_count++] =
        (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = len};
}

void memcache_output_add(struct memcache_server *server, struct memcache_output *output, const void *data,
                         size_t len)
{
    base_assert(len <= MEMCACHE_OUTPUT_BYTES);
    bool full = len > MEMCACHE_OUTPUT_BYTES - output->used || output->piece_count == MEMCACHE_PIECES_MAX;
    if (full && memcache_output_flush(server, output) != 0)
        return;
    memcpy(output->data + output->used, data, len);
    memcache_output_queue(output, output->data + output->used, len);
    output->used += len;
}

void memcache_output_text(struct memcache_server *server, struct memcache_output *output, const char *text)
{
    memcache_output_add(server, output, text, strlen(text));
}
