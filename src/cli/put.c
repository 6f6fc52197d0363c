/* tarn put: a value from the command line or from standard input. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/file_url.h"
#include "depot/depot.h"
#include "task/node.h"
#include <errno.h>

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
        "Stores VALUE under KEY in the store in the file PATH, or what standard input holds if VALUE is\n"
        "missing or -. It is durable when the command ends. The store must not be open elsewhere. Exit\n"
        "status 1: the condition of --if does not hold, or the value could not be stored.\n\n",
        file);
    cli_print_options(&arguments, file);
}

static int put(struct cli_store *store, const char *key, const char *value, size_t value_len,
               const struct put_options *options)
{
    uint64_t now_ns = task_wall(store->node);
    const struct tarn_put_options put_options = {
        .condition = condition_of[options->condition],
        .expiry_ns = options->expire_ns == 0 ? 0 : now_ns + base_min(options->expire_ns, UINT64_MAX - now_ns),
    };
    int error = tarn_depot_put(store->depot, key, strlen(key), value, value_len, &put_options, NULL);
    return error == 0 ? CLI_OK : cli_key_failed(key, error);
}

static int put_input(struct cli_store *store, const char *key, const struct put_options *options)
{
    size_t room = tarn_depot_value_bytes_max(store->depot) + 1; /* one more tells that it is too long */
    char *value = base_alloc(&store->node->memory, room);
    if (value == NULL)
        return cli_failed("out of memory");
    size_t value_len = fread(value, 1, room, stdin);
    int status = ferror(stdin) ? cli_failed("cannot read standard input: %s", strerrordesc_np(errno))
                               : put(store, key, value, value_len, options);
    base_free(&store->node->memory, value, room);
    return status;
}

/* @param words  store, key and perhaps a value */
static int run(const void *parsed, const char *const *words, size_t count)
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
    const char *value = count == 3 ? words[2] : "-";
    status = strcmp(value, "-") == 0 ? put_input(&store, words[1], options)
                                     : put(&store, words[1], value, strlen(value), options);
    return cli_store_close(&store, status);
}

int cli_put(int argc, char **argv)
{
    struct put_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run);
}
