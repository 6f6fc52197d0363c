/* tarn put: a value from the command line or from standard input. */
#include "cli/cli.h"
#include "cli/file_url.h"
#include "task/node.h"
#include <errno.h>

struct put_options {
    uint64_t size_bytes;
};

static const struct base_setting put_settings[] = {
    {.name = "size",
     .type = BASE_SETTING_SIZE,
     .min = UINT64_C(1) << 20,
     .help = "Make the file with this size if there is none.",
     .offset = offsetof(struct put_options, size_bytes)},
};

static struct base_settings settings_of(struct put_options *options, struct base_settings_arena *arena)
{
    return (struct base_settings){
        .table = put_settings, .count = base_array_count(put_settings), .options = options, .arena = arena};
}

void cli_put_help(FILE *file)
{
    const struct base_settings settings = settings_of(NULL, NULL);
    (void)fputs(
        "Stores VALUE under KEY in the store in the file PATH, or what standard input holds if VALUE is\n"
        "missing or -. It is durable when the command ends. The store must not be open elsewhere.\n\n",
        file);
    base_settings_print_help(&settings, file);
}

static int put(struct cli_store *store, const char *key, const char *value, size_t value_len)
{
    int error = tarn_depot_put(store->depot, key, strlen(key), value, value_len, NULL, NULL);
    return error == 0 ? CLI_OK : cli_key_failed(key, error);
}

static int put_input(struct cli_store *store, const char *key)
{
    size_t room = tarn_depot_value_bytes_max(store->depot) + 1; /* one more tells that it is too long */
    char *value = base_alloc(&store->node->memory, room);
    if (value == NULL)
        return cli_failed("out of memory");
    size_t value_len = fread(value, 1, room, stdin);
    int status = ferror(stdin) ? cli_failed("cannot read standard input: %s", strerrordesc_np(errno))
                               : put(store, key, value, value_len);
    base_free(&store->node->memory, value, room);
    return status;
}

/* @param words  store, key and perhaps a value */
static int run(const char *const *words, size_t count, const struct put_options *options)
{
    const struct tarn_depot_options depot_options = {.create_bytes = options->size_bytes};
    struct cli_store store;
    if (count != 2 && count != 3)
        return cli_usage("put takes a store, a key and a value");
    int status = cli_check_key(words[1]);
    if (status == CLI_OK)
        status = cli_store_open(words[0], &depot_options, &store);
    if (status != CLI_OK)
        return status;
    const char *value = count == 3 ? words[2] : "-";
    status =
        strcmp(value, "-") == 0 ? put_input(&store, words[1]) : put(&store, words[1], value, strlen(value));
    return cli_store_close(&store, status);
}

int cli_put(int argc, char **argv)
{
    enum { WORDS_MAX = 8 };
    const char *words[WORDS_MAX];
    size_t count;
    char error[BASE_SETTINGS_ERROR_ROOM];
    struct put_options options;
    struct base_account account;
    struct base_settings_arena arena;
    if (argc > WORDS_MAX)
        return cli_usage("put takes a store, a key and a value");
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    base_settings_arena_init(&arena, &account);
    const struct base_settings settings = settings_of(&options, &arena);
    int failed = base_settings_set_defaults(&settings, error, sizeof(error));
    if (failed == 0)
        failed = base_settings_parse_arguments(&settings, argc, argv, words, &count, error, sizeof(error));
    int status = failed == 0 ? run(words, count, &options) : cli_usage("%s", error);
    base_settings_arena_deinit(&arena);
    base_account_deinit(&account);
    return status;
}
