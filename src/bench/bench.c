/* What verbs of measuring share: from arguments to an exit status, and small questions about options. */
#include "bench/bench.h"
#include "base/prose.h"
#include "bench/case.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <sys/random.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static const struct bench_verb *const verbs[] = {&bench_verb_kv, &bench_verb_memcache};

const struct bench_program bench_program = {
    .name = "tarn bench", .verbs = verbs, .verb_count = base_array_count(verbs)};

int bench_fail(struct bench *bench, int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fprintf(bench->err, "%s %s: ", bench->program->name, bench->verb);
    (void)vfprintf(bench->err, format, args);
    (void)fprintf(bench->err, error == 0 ? "\n" : ": %s\n", strerror(-error));
    va_end(args);
    return error == 0 ? -EINVAL : error;
}

static uint64_t progress_clock(void *arg)
{
    (void)arg;
    return task_now();
}

void bench_progress_init(const struct bench *bench, struct base_progress *progress, const char *label,
                         const char *unit, uint64_t total)
{
    base_progress_init(progress, bench->err, label, unit, total, progress_clock, NULL);
}

bool bench_is_wanted(const struct base_setting_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], name) == 0)
            return true;
    }
    return list->count == 0;
}

int bench_check_words(struct bench *bench, const char *setting, const struct base_setting_list *list,
                      const char *const *known)
{
    for (size_t i = 0; i < list->count; i++) {
        size_t k = 0;
        while (known[k] != NULL && strcmp(known[k], list->items[i]) != 0)
            k++;
        if (known[k] != NULL)
            continue;
        (void)fprintf(bench->err, "%s %s: --%s has no '%s'; there are:", bench->program->name, bench->verb,
                      setting, list->items[i]);
        for (k = 0; known[k] != NULL; k++)
            (void)fprintf(bench->err, " %s", known[k]);
        (void)fputc('\n', bench->err);
        return -EINVAL;
    }
    return 0;
}

unsigned bench_word_index(const char *word, const char *const *known)
{
    unsigned i = 0;
    while (known[i] != NULL && strcmp(word, known[i]) != 0)
        i++;
    base_assert(known[i] != NULL);
    return i;
}

static int read_number(const char *text, uint64_t min, uint64_t max, uint64_t multiple, uint64_t *ret_number)
{
    uint64_t number;
    if (base_parse_size(text, &number) != 0 || number < min || number > max)
        return -EINVAL;
    if (multiple == 0 ? !base_is_power_of_two(number) : number % multiple != 0)
        return -EINVAL;
    *ret_number = number;
    return 0;
}

int bench_check_numbers(struct bench *bench, const char *setting, const struct base_setting_list *list,
                        uint64_t min, uint64_t max, uint64_t multiple)
{
    uint64_t number;
    char kind[64] = "number";
    if (multiple == 0)
        (void)snprintf(kind, sizeof(kind), "power of two");
    else if (multiple > 1)
        (void)snprintf(kind, sizeof(kind), "multiple of %" PRIu64, multiple);
    for (size_t i = 0; i < list->count; i++) {
        if (read_number(list->items[i], min, max, multiple, &number) != 0)
            return bench_fail(bench, 0, "--%s: '%s' is no %s from %" PRIu64 " to %" PRIu64, setting,
                              list->items[i], kind, min, max);
    }
    return 0;
}

uint32_t bench_number(const char *text)
{
    uint64_t number = 0;
    int error = read_number(text, 0, UINT32_MAX, 1, &number);
    base_assert(error == 0); /* it was checked */
    return (uint32_t)number;
}

static int check_lists(struct bench *bench, const struct bench_verb *verb, const void *options)
{
    int error = 0;
    for (const struct bench_list *one = verb->lists; one != NULL && one->setting != NULL && error == 0;
         one++) {
        const void *list = (const uint8_t *)options + one->offset;
        error = one->words != NULL
                    ? bench_check_words(bench, one->setting, list, one->words)
                    : bench_check_numbers(bench, one->setting, list, one->min, one->max, one->multiple);
    }
    return error;
}

void bench_print_verbs(const struct bench_program *program, FILE *file)
{
    char row[256];
    for (size_t i = 0; i < program->verb_count; i++) {
        (void)snprintf(row, sizeof(row), "  %-13s  %s", program->verbs[i]->name, program->verbs[i]->summary);
        base_prose_print(row, file);
    }
}

static void print_usage(const struct bench_program *program, FILE *file)
{
    (void)fprintf(file, "usage: %s VERB [OPTION...]\n\n", program->name);
    bench_print_verbs(program, file);
    (void)fprintf(file, "\n`%s VERB --help` lists the options of one.\n", program->name);
}

static void print_verb_usage(const struct bench *bench)
{
    const char *name = bench->program->name;
    (void)fprintf(bench->err, "usage: %s %s [OPTION...]; `%s %s --help` lists the options\n", name,
                  bench->verb, name, bench->verb);
}

/* Run a verb whose options were read. */
static int run_verb(const struct bench_verb *verb, struct bench *bench, struct bench_options *options)
{
    if (options->seed == 0 && getrandom(&options->seed, sizeof(options->seed), 0) != sizeof(options->seed))
        return bench_fail(bench, -errno, "random seed");
    bench->options = *options;
    bench_machine_read(&bench->machine);
    if (!verb->simulated)
        bench_case_write_header(bench);
    return verb->run(bench, options);
}

static int parse_and_run(const struct bench_verb *verb, struct bench *bench, struct bench_options *options,
                         struct base_settings_arena *arena, int argc, char *const *argv)
{
    const struct base_settings settings = {
        .table = verb->table, .count = verb->table_count, .options = options, .arena = arena};
    char error[BASE_SETTINGS_ERROR_ROOM];
    const char *positional[BASE_SETTING_LIST_MAX];
    size_t count = 0;
    int result = argc > BASE_SETTING_LIST_MAX ? -E2BIG : 0;
    (void)snprintf(error, sizeof(error), "too many arguments");
    if (result == 0)
        result = base_settings_set_defaults(&settings, error, sizeof(error));
    if (result == 0)
        result =
            base_settings_parse_arguments(&settings, argc, argv, positional, &count, error, sizeof(error));
    if (result == 0 && count > 0) {
        (void)snprintf(error, sizeof(error), "unexpected argument: %s", positional[0]);
        result = -EINVAL;
    }
    if (result != 0) {
        (void)fprintf(bench->err, "%s %s: %s\n", bench->program->name, verb->name, error);
        print_verb_usage(bench);
        return EXIT_USAGE;
    }
    if (options->man) {
        base_settings_print_man(&settings, bench->out);
        return EXIT_DONE;
    }
    if (options->help) {
        (void)fprintf(bench->out, "usage: %s %s [OPTION...]\n\n", bench->program->name, verb->name);
        base_prose_print(verb->summary, bench->out);
        (void)fputc('\n', bench->out);
        base_settings_print_help(&settings, bench->out);
        return EXIT_DONE;
    }
    if (check_lists(bench, verb, options) != 0 || (verb->check != NULL && verb->check(bench, options) != 0)) {
        print_verb_usage(bench);
        return EXIT_USAGE;
    }
    return run_verb(verb, bench, options) == 0 ? EXIT_DONE : EXIT_FAILED;
}

int bench_main(const struct bench_program *program, int argc, char *const *argv, FILE *out, FILE *err)
{
    if (argc == 0) {
        print_usage(program, err);
        return EXIT_USAGE;
    }
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
        print_usage(program, out);
        return EXIT_DONE;
    }
    const struct bench_verb *verb = NULL;
    for (size_t i = 0; i < program->verb_count; i++) {
        if (strcmp(argv[0], program->verbs[i]->name) == 0)
            verb = program->verbs[i];
    }
    if (verb == NULL) {
        (void)fprintf(err, "%s: no verb '%s'\n", program->name, argv[0]);
        print_usage(program, err);
        return EXIT_USAGE;
    }
    struct base_account account;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    struct bench bench = {
        .program = program, .out = out, .err = err, .account = &account, .verb = verb->name};
    struct base_settings_arena arena;
    base_settings_arena_init(&arena, &account);
    struct bench_options *options = base_alloc(&account, verb->options_bytes);
    int status = EXIT_FAILED;
    if (options != NULL)
        status = parse_and_run(verb, &bench, options, &arena, argc - 1, argv + 1);
    base_free(&account, options, verb->options_bytes);
    base_settings_arena_deinit(&arena);
    base_account_deinit(&account);
    return status;
}
