/* tarn get: values to standard output. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/store.h"
#include "cli/text.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <tarn/depot.h>
#include <unistd.h>

#define BATCH_KEYS 16 /* fetched at once: each has room for the longest value that is not in pieces */
#define PART_BYTES (UINT64_C(8) << 20)

static const struct cli_arguments arguments = {NULL, 0};

/* Room for values, equal for each. */
struct values {
    char *memory;
    size_t value_room;
    size_t bytes;
};

void cli_get_help(FILE *file)
{
    (void)fputs(
        "Prints the value of KEY in the store URL, byte for byte; on a terminal a line end follows. Of\n"
        "several keys each has a line: the key, a tab, the value, both in double quotes and with escapes\n"
        "unless they are printable. A store in a file must not be open elsewhere to be written. Exit status\n"
        "1: there is no such key; the other keys are printed.\n",
        file);
}

/* Part after part; the first tells how many bytes there are. */
static int print_parts(struct cli_store *store, const char *key, char *buffer)
{
    struct tarn_record_info info = {.version = 0};
    struct base_progress progress;
    uint64_t done = 0;
    do {
        size_t bytes;
        int error =
            tarn_kv_read(store->kv, key, strlen(key), info.version, done, buffer, PART_BYTES, &bytes, &info);
        if (error != 0)
            return cli_key_failed(key, error);
        if (done == 0) {
            cli_progress_begin(&progress, "get", NULL, info.value_bytes);
            progress.silent |= isatty(STDOUT_FILENO) == 1 || info.value_bytes <= PART_BYTES;
        }
        if (fwrite(buffer, 1, bytes, stdout) != bytes)
            return cli_output_failed();
        done += bytes;
        base_progress_update(&progress, done);
    } while (done < info.value_bytes);
    base_progress_end(&progress);
    return CLI_OK;
}

static int print_value(struct cli_store *store, const char *key)
{
    char *buffer = base_alloc(&store->node->memory, PART_BYTES);
    if (buffer == NULL)
        return cli_failed("out of memory");
    int status = print_parts(store, key, buffer);
    base_free(&store->node->memory, buffer, PART_BYTES);
    if (status == CLI_OK && ((isatty(STDOUT_FILENO) && putchar('\n') == EOF) || fflush(stdout) != 0))
        return cli_output_failed();
    return status;
}

static int print_batch(struct cli_store *store, const char *const *keys, size_t count,
                       const struct values *values, const struct cli_text *text)
{
    struct tarn_get gets[BATCH_KEYS] = {0};
    int status = CLI_OK;
    for (size_t i = 0; i < count; i++) {
        gets[i].key = keys[i];
        gets[i].key_len = strlen(keys[i]);
        gets[i].value = values->memory + i * values->value_room;
        gets[i].value_room = values->value_room;
    }
    tarn_kv_get_many(store->kv, gets, count);
    for (size_t i = 0; i < count; i++) {
        if (gets[i].error == -ENOBUFS)
            status = cli_failed("the value of %s is too long to stand in a line: get it alone", keys[i]);
        else if (gets[i].error != 0)
            status = cli_key_failed(keys[i], gets[i].error);
        else if (cli_text_print_record(text, keys[i], gets[i].key_len, gets[i].value,
                                       gets[i].info.value_bytes, stdout) != 0)
            return cli_output_failed();
    }
    return status;
}

static int print_values(struct cli_store *store, const char *const *keys, size_t count,
                        const struct values *values)
{
    struct cli_text text;
    int status = cli_text_init(&text, &store->node->memory, values->value_room + TARN_KEY_BYTES_MAX);
    if (status != CLI_OK)
        return status;
    for (size_t done = 0; done < count; done += BATCH_KEYS) {
        int outcome =
            print_batch(store, keys + done, base_min(count - done, (size_t)BATCH_KEYS), values, &text);
        if (outcome != CLI_OK)
            status = outcome;
        if (ferror(stdout))
            break;
    }
    cli_text_deinit(&text);
    return fflush(stdout) == 0 ? status : cli_output_failed();
}

static int print_lines(struct cli_store *store, const char *const *keys, size_t count)
{
    struct values values = {.value_room = store->info.whole_bytes_max};
    values.bytes = values.value_room * base_min(count, (size_t)BATCH_KEYS);
    values.memory = base_alloc(&store->node->memory, values.bytes);
    if (values.memory == NULL)
        return cli_failed("out of memory");
    int status = print_values(store, keys, count, &values);
    base_free(&store->node->memory, values.memory, values.bytes);
    return status;
}

static int run_get(const void *unused, const char *const *words, size_t count)
{
    (void)unused;
    const struct tarn_depot_options options = {.read_only = true};
    struct cli_store store;
    int status = count < 2 ? cli_usage("get takes a store and a key, or several") : CLI_OK;
    for (size_t i = 1; i < count && status == CLI_OK; i++)
        status = cli_check_key(words[i]);
    if (status == CLI_OK)
        status = cli_store_open(words[0], &options, &store);
    if (status != CLI_OK)
        return status;
    return cli_store_close(&store, count == 2 ? print_value(&store, words[1])
                                              : print_lines(&store, words + 1, count - 1));
}

int cli_get(int argc, char **argv)
{
    return cli_run_arguments(&arguments, NULL, argc, argv, run_get);
}
