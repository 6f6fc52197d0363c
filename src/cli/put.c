/* tarn put: a value from the command line or from standard input. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/store.h"
#include "depot/depot.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_BYTES (UINT64_C(1) << 20) /* read at once */

struct put_options {
    uint64_t size_bytes;
    uint64_t expire_ns;
    uint64_t over_provisioning_percent;
    unsigned condition; /* of conditions */
    unsigned mode;      /* enum tarn_mode */
};

static const char *const conditions[] = {"any", "absent", "present", NULL};
static const enum tarn_put_condition condition_of[] = {TARN_PUT_ANY, TARN_PUT_IF_ABSENT, TARN_PUT_IF_PRESENT};

#define AT(field) .offset = offsetof(struct put_options, field)

static const struct base_setting put_settings[] = {
    {.name = "size",
     .type = BASE_SETTING_SIZE,
     .min = UINT64_C(1) << 20,
     .help = "Make the file with this size if there is none.",
     AT(size_bytes)},
    {.name = "if",
     .type = BASE_SETTING_ENUM,
     .choices = conditions,
     .help = "Store only if the key is absent, or only if it is present.",
     AT(condition)},
    {.name = "expire",
     .type = BASE_SETTING_DURATION,
     .default_text = "0",
     .help = "Have the record end so much later; 0 is never.",
     AT(expire_ns)},
    {.name = "mode",
     .type = BASE_SETTING_ENUM,
     .choices = depot_mode_names,
     .help = "When the value counts as stored: power: it survives a power cut. device: the device has it. "
             "async: it is in memory. Whatever the mode, it survives a power cut when the command has ended "
             "well.",
     AT(mode)},
    {DEPOT_OVER_PROVISIONING_SETTING,
     .help =
         "Part of the drive that records may not take: a new key is refused where the others take all else.",
     AT(over_provisioning_percent)},
};
static const struct cli_arguments arguments = {put_settings, base_array_count(put_settings)};

void cli_put_help(FILE *file)
{
    (void)fputs(
        "Stores VALUE under KEY in the store URL, or what standard input holds if VALUE is missing or -: up\n"
        "to 4 GiB, in constant memory, in a store in a file; elsewhere as much as the store takes, which is\n"
        "in memory meanwhile. It is durable when the command ends, if the store is durable. A store in a\n"
        "file must not be open elsewhere; --size, --mode and --over-provisioning are for such a store "
        "alone.\n"
        "Exit status 1: the condition of --if does not hold, or the value could not be stored.\n\n",
        file);
    cli_print_options(&arguments, file);
}

static struct tarn_put_options options_of(struct cli_store *store, const struct put_options *options)
{
    uint64_t now_ns = task_wall(store->node);
    return (struct tarn_put_options){
        .condition = condition_of[options->condition],
        .expiry_ns = options->expire_ns == 0 ? 0 : now_ns + base_min(options->expire_ns, UINT64_MAX - now_ns),
    };
}

static int put_value(struct cli_store *store, const char *key, const char *value,
                     const struct tarn_put_options *options)
{
    int error = tarn_kv_put(store->kv, key, strlen(key), value, strlen(value), options, NULL);
    return error == 0 ? CLI_OK : cli_key_failed(key, error);
}

/* How much a file still has; TARN_LENGTH_UNKNOWN: it is none, or its system cannot tell. */
static uint64_t input_bytes(void)
{
    struct stat input;
    off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);
    if (fstat(STDIN_FILENO, &input) != 0 || !S_ISREG(input.st_mode) || at < 0 || input.st_size <= at)
        return TARN_LENGTH_UNKNOWN;
    return (uint64_t)(input.st_size - at);
}

/* @return CLI_OK: all of it was written; CLI_FAILED: said */
static int copy_input(struct tarn_kv_writer *writer, const char *key, char *buffer,
                      struct base_progress *progress, uint64_t *done)
{
    ssize_t bytes;
    while ((bytes = read(STDIN_FILENO, buffer, INPUT_BYTES)) != 0) {
        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes < 0)
            return cli_failed("cannot read standard input: %s", strerrordesc_np(errno));
        int error = tarn_kv_writer_write(writer, buffer, (size_t)bytes);
        if (error != 0)
            return cli_key_failed(key, error);
        *done += (uint64_t)bytes;
        base_progress_update(progress, *done);
    }
    return CLI_OK;
}

static int write_input(struct tarn_kv_writer *writer, const char *key, uint64_t total, char *buffer)
{
    struct base_progress progress;
    uint64_t done = 0;
    cli_progress_begin(&progress, "put", NULL, total == TARN_LENGTH_UNKNOWN ? 0 : total);
    int status = copy_input(writer, key, buffer, &progress, &done);
    if (status != CLI_OK) {
        tarn_kv_writer_abort(writer);
    } else {
        int error = tarn_kv_writer_commit(writer, NULL);
        status = error == 0 ? CLI_OK : cli_key_failed(key, error);
    }
    base_progress_end(&progress);
    return status;
}

/* A value of any length, through a buffer. */
static int put_input(struct cli_store *store, const char *key, const struct tarn_put_options *options)
{
    struct tarn_kv_writer *writer;
    uint64_t total = input_bytes();
    char *buffer = base_alloc(&store->node->memory, INPUT_BYTES);
    if (buffer == NULL)
        return cli_failed("out of memory");
    int error = tarn_kv_writer_open(store->kv, key, strlen(key), options, total, &writer);
    int status = error == 0 ? write_input(writer, key, total, buffer) : cli_key_failed(key, error);
    base_free(&store->node->memory, buffer, INPUT_BYTES);
    return status;
}

/* Whether something was said that only the opening of a depot can obey. */
static bool is_for_files(const struct put_options *options)
{
    return options->size_bytes != 0 || options->mode != TARN_MODE_POWER ||
           options->over_provisioning_percent != TARN_OVER_PROVISIONING_DEFAULT;
}

/* @param words  store, key and perhaps a value */
static int run_put(const void *parsed, const char *const *words, size_t count)
{
    const struct put_options *options = parsed;
    const struct tarn_depot_options depot_options = {.create_bytes = options->size_bytes,
                                                     .mode = (enum tarn_mode)options->mode,
                                                     .over_provisioning_percent =
                                                         (uint32_t)options->over_provisioning_percent};
    struct cli_store store;
    if (count != 2 && count != 3)
        return cli_usage("put takes a store, a key and a value");
    int status = cli_check_key(words[1]);
    if (status == CLI_OK)
        status = cli_store_open(words[0], &depot_options, &store);
    if (status != CLI_OK)
        return status;
    if (!store.has_file && is_for_files(options))
        return cli_store_close(
            &store, cli_usage("--size, --mode and --over-provisioning are for file:PATH and tree:path=PATH"));
    const char *value = count == 3 ? words[2] : "-";
    const struct tarn_put_options put_options = options_of(&store, options);
    status = strcmp(value, "-") == 0 ? put_input(&store, words[1], &put_options)
                                     : put_value(&store, words[1], value, &put_options);
    return cli_store_close(&store, status);
}

int cli_put(int argc, char **argv)
{
    struct put_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_put);
}
