/* tarn check: whether a store is sound. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/file_url.h"
#include "depot/depot.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>

struct check_options {
    uint64_t limit;
    bool json;
};

#define AT(field) .offset = offsetof(struct check_options, field)

static const struct base_setting check_settings[] = {
    {.name = "limit",
     .type = BASE_SETTING_UINT,
     .default_text = "100",
     .unit = "faults",
     .help = "Tell no more than so many; all are counted.",
     AT(limit)},
    {.name = "json", .type = BASE_SETTING_BOOL, .help = "Print one JSON object.", AT(json)},
};
static const struct cli_arguments arguments = {check_settings, base_array_count(check_settings)};

struct check {
    const struct check_options *options;
    struct base_json json;
    struct base_progress progress;
    uint64_t told;
    uint64_t done_bytes;
};

void cli_check_help(FILE *file)
{
    (void)fputs(
        "Reads all of the store in the file PATH and proves that it is sound, without writing anything.\n"
        "Each fault is a line, with the number of the invariant that does not hold. The store must not be\n"
        "open elsewhere to be written. Exit status 0: it is sound; 1: it is not, or cannot be read.\n\n",
        file);
    cli_print_options(&arguments, file);
}

static uint64_t now(void *arg)
{
    (void)arg;
    return task_now();
}

static void tell(void *arg, unsigned invariant, const char *sentence)
{
    struct check *check = arg;
    if (check->told++ >= check->options->limit)
        return;
    if (!check->options->json) {
        (void)printf("invariant %u: %s\n", invariant, sentence);
        return;
    }
    base_json_object_begin(&check->json, NULL);
    base_json_u64(&check->json, "invariant", invariant);
    base_json_string(&check->json, "fault", sentence);
    base_json_object_end(&check->json);
}

static void show_progress(void *arg, uint64_t done, uint64_t all)
{
    struct check *check = arg;
    check->progress.total = all;
    check->done_bytes = done;
    base_progress_update(&check->progress, done);
}

/* @param error  0: it was read to the end */
static int finish_json(struct check *check, int error, const struct depot_check_report *report)
{
    struct base_json *json = &check->json;
    base_json_array_end(json);
    base_json_bool(json, "sound", error == 0 && report->faults == 0);
    base_json_u64(json, "faults", error == 0 ? report->faults : check->told);
    if (error == 0) {
        base_json_u64(json, "records", report->records);
        base_json_u64(json, "tombstones", report->tombstones);
        base_json_u64(json, "superseded", report->superseded);
        base_json_u64(json, "pieces", report->pieces);
        base_json_u64(json, "orphans", report->orphans);
        base_json_u64(json, "bytes_read", report->bytes_read);
        base_json_u64(json, "segments", report->segments);
        base_json_u64(json, "segments_free", report->segments_free);
        base_json_u64(json, "segments_unsealed", report->segments_unsealed);
    } else {
        base_json_string(json, "error", strerrordesc_np(-error));
    }
    base_json_object_end(json);
    bool written = base_json_finish(json, NULL) == 0 && putchar('\n') != EOF && fflush(stdout) == 0;
    return written ? CLI_OK : cli_output_failed();
}

static int finish_text(struct check *check, const char *path, int error,
                       const struct depot_check_report *report)
{
    char size[BASE_UNITS_ROOM];
    if (check->told > check->options->limit)
        (void)printf("and %" PRIu64 " more\n", check->told - check->options->limit);
    if (error == 0) {
        (void)printf("%s: %" PRIu64 " records, %" PRIu64 " tombstones, %" PRIu64 " superseded, in %" PRIu32
                     " segments (%" PRIu32 " free, %" PRIu32 " without a summary); %s read; ",
                     path, report->records, report->tombstones, report->superseded, report->segments,
                     report->segments_free, report->segments_unsealed,
                     base_format_size(size, sizeof(size), report->bytes_read));
        if (report->pieces + report->orphans > 0)
            (void)printf("%" PRIu64 " pieces of long values, %" PRIu64 " of none any more; ", report->pieces,
                         report->orphans);
        if (report->faults == 0)
            (void)puts("sound");
        else
            (void)printf("%" PRIu64 " fault%s\n", report->faults, report->faults == 1 ? "" : "s");
    }
    return ferror(stdout) || fflush(stdout) != 0 ? cli_output_failed() : CLI_OK;
}

static int check_store(struct tarn_node *node, const char *path, const struct check_options *options)
{
    struct check check = {.options = options};
    struct depot_check_report report = {0};
    base_progress_init(&check.progress, stderr, "check", NULL, 0, now, NULL);
    if (options->json) {
        base_json_init_file(&check.json, stdout);
        base_json_object_begin(&check.json, NULL);
        base_json_string(&check.json, "store", path);
        base_json_array_begin(&check.json, "told");
    }
    int error = depot_check(node, path, false, tell, show_progress, &check, &report);
    base_progress_done(&check.progress, check.done_bytes);
    int status =
        options->json ? finish_json(&check, error, &report) : finish_text(&check, path, error, &report);
    if (error != 0)
        return cli_failed("cannot check %s: %s", path, strerrordesc_np(-error));
    return status == CLI_OK && report.faults > 0 ? CLI_FAILED : status;
}

static int run(const void *options, const char *const *words, size_t count)
{
    struct tarn_node *node;
    const char *path;
    if (count != 1)
        return cli_usage("check takes a store");
    int status = cli_store_path(words[0], &path);
    if (status == CLI_OK)
        status = cli_node_open(&node);
    if (status != CLI_OK)
        return status;
    status = check_store(node, path, options);
    tarn_node_close(node);
    return status;
}

int cli_check(int argc, char **argv)
{
    struct check_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run);
}
