/* tarn check: whether a store is sound; and making it so. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/store.h"
#include "cli/text.h"
#include "depot/depot.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>

struct check_options {
    uint64_t limit;
    bool repair;
    bool json;
};

#define AT(field) .offset = offsetof(struct check_options, field)

static const struct base_setting check_settings[] = {
    {.name = "limit",
     .type = BASE_SETTING_UINT,
     .default_text = "100",
     .unit = "faults",
     .help = "Tell no more than this many; all are counted.",
     AT(limit)},
    {.name = "repair",
     .type = BASE_SETTING_BOOL,
     .help = "If there are faults: give up what cannot be read, keep all else, and check again.",
     AT(repair)},
    {.name = "json", .type = BASE_SETTING_BOOL, .help = "Print one JSON object.", AT(json)},
};
static const struct cli_arguments arguments = {check_settings, base_array_count(check_settings)};

/* Exit status: it is sound now, and records are lost. */
#define CHECK_LOST 3

struct check {
    struct tarn_node *node;
    const char *path;
    const struct check_options *options;
    struct base_json json;
    struct cli_text text;
    struct base_progress progress;
    uint64_t told;
    uint64_t done_bytes;
};

void cli_check_help(FILE *file)
{
    (void)fputs(
        "Reads all of the store in the file PATH and proves that it is sound, without writing anything.\n"
        "Each fault is a line, with the number of the invariant that does not hold. The store must not be\n"
        "open elsewhere to be written. Exit status 0: it is sound; 1: it is not, or cannot be read.\n\n"
        "With --repair what is damaged is given up then, if there are faults; without any, nothing is\n"
        "written. All that can be read stays. A key whose record cannot be read is gone: each is a line,\n"
        "\"lost: KEY\", or the hash of a key that cannot be told. No older value of it comes back. Where\n"
        "records are missing and not even hashes tell their keys, the check says so (invariant 16); such\n"
        "a key is then missing, or has the value before. The store must not be open elsewhere; a repair\n"
        "that was cut off is made again. Exit status 0: it is sound, and nothing was lost; 3: it is sound\n"
        "now, and records are lost; 1: it is not sound, or cannot be repaired.\n\n",
        file);
    cli_print_options(&arguments, file);
}

static void begin_progress(struct check *check, const char *label)
{
    check->told = check->done_bytes = 0;
    cli_progress_begin(&check->progress, label, NULL, 0);
}

static void show_progress(void *arg, uint64_t done, uint64_t all)
{
    struct check *check = arg;
    check->progress.total = all;
    check->done_bytes = done;
    base_progress_update(&check->progress, done);
}

/* ---- checking ------------------------------------------------------------------------------------- */

static void tell_fault(void *arg, unsigned invariant, const char *sentence)
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

/* @param error  0: it was read to the end */
static void tell_json(struct check *check, int error, const struct depot_check_report *report)
{
    struct base_json *json = &check->json;
    base_json_array_end(json);
    base_json_bool(json, "sound", error == 0 && report->faults == 0);
    base_json_u64(json, "faults", error == 0 ? report->faults : check->told);
    if (error != 0) {
        base_json_string(json, "error", strerrordesc_np(-error));
        return;
    }
    base_json_u64(json, "records", report->records);
    base_json_u64(json, "tombstones", report->tombstones);
    base_json_u64(json, "superseded", report->superseded);
    base_json_u64(json, "pieces", report->pieces);
    base_json_u64(json, "orphans", report->orphans);
    base_json_u64(json, "bytes_read", report->bytes_read);
    base_json_u64(json, "segments", report->segments);
    base_json_u64(json, "segments_free", report->segments_free);
    base_json_u64(json, "segments_unsealed", report->segments_unsealed);
    base_json_u64(json, "segments_unsure", report->segments_unsure);
}

static void tell_text(struct check *check, int error, const struct depot_check_report *report)
{
    char size[BASE_UNITS_ROOM];
    if (check->told > check->options->limit)
        (void)printf("and %" PRIu64 " more\n", check->told - check->options->limit);
    if (error != 0)
        return;
    if (report->segments_unsure > 0)
        (void)printf("%s: in %" PRIu32 " place%s with damage records may be missing: what is not "
                     "found there any more is gone, or has an older value\n",
                     check->path, report->segments_unsure, report->segments_unsure == 1 ? "" : "s");
    (void)printf("%s: %" PRIu64 " records, %" PRIu64 " tombstones, %" PRIu64 " superseded, in %" PRIu32
                 " segments (%" PRIu32 " free, %" PRIu32 " without a summary); %s read; ",
                 check->path, report->records, report->tombstones, report->superseded, report->segments,
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

/* @return as depot_check() */
static int check_store(struct check *check, struct depot_check_report *ret_report)
{
    const bool json = check->options->json;
    begin_progress(check, "check");
    if (json)
        base_json_array_begin(&check->json, "told");
    int error = depot_check(check->node, check->path, false, tell_fault, show_progress, check, ret_report);
    base_progress_end(&check->progress);
    if (json)
        tell_json(check, error, ret_report);
    else
        tell_text(check, error, ret_report);
    return error;
}

/* ---- repairing ------------------------------------------------------------------------------------ */

/* It is lost when this has returned: what a cut leaves of the output is true. */
static void tell_lost(void *arg, const struct depot_lost *lost)
{
    struct check *check = arg;
    char hash[2 * sizeof(lost->hash) + 1];
    (void)snprintf(hash, sizeof(hash), "%016" PRIx64 "%016" PRIx64, lost->hash[1], lost->hash[0]);
    if (check->options->json) {
        base_json_object_begin(&check->json, NULL);
        if (lost->key != NULL)
            cli_text_write_json(&check->text, &check->json, "key", lost->key, lost->key_bytes, false);
        base_json_string(&check->json, "hash", hash);
        base_json_object_end(&check->json);
    } else if (lost->key != NULL) {
        (void)fputs("lost: ", stdout);
        (void)!cli_text_print_record(&check->text, lost->key, lost->key_bytes, NULL, 0, stdout);
    } else {
        (void)printf("lost: a key that cannot be told, of hash %s\n", hash);
    }
    (void)fflush(stdout);
}

static void tell_repair_json(struct check *check, int error, const struct depot_repair_report *report)
{
    struct base_json *json = &check->json;
    base_json_array_end(json);
    base_json_u64(json, "records_lost", report->lost);
    base_json_u64(json, "keys_unknown", report->unnamed);
    base_json_u64(json, "tombstones", report->tombstones);
    base_json_u64(json, "segments", report->segments);
    if (error != 0)
        base_json_string(json, "error", strerrordesc_np(-error));
    base_json_object_end(json);
}

static void tell_repair_text(const struct check *check, const struct depot_repair_report *report)
{
    if (report->lost == 0)
        (void)printf("%s: nothing was lost; ", check->path);
    else
        (void)printf("%s: lost: %" PRIu64 " records, %" PRIu64 " of them of keys that cannot be told; their "
                     "older values are not brought back; ",
                     check->path, report->lost, report->unnamed);
    (void)printf("%" PRIu64 " tombstones written again, %" PRIu32 " segments emptied\n", report->tombstones,
                 report->segments);
}

/* @return as depot_repair() */
static int repair_store(struct check *check, struct depot_repair_report *ret_report)
{
    const bool json = check->options->json;
    if (json) {
        base_json_object_begin(&check->json, "repair");
        base_json_array_begin(&check->json, "lost");
    } else {
        (void)printf("%s: repairing: what is damaged is given up, all else stays\n", check->path);
    }
    (void)fflush(stdout);
    begin_progress(check, "repair");
    int error = depot_repair(check->node, check->path, false, tell_lost, show_progress, check, ret_report);
    base_progress_end(&check->progress);
    if (json)
        tell_repair_json(check, error, ret_report);
    else
        tell_repair_text(check, ret_report);
    return error;
}

/* It has faults. @return the exit status */
static int mend(struct check *check, const struct depot_check_report *before)
{
    struct depot_repair_report repair = {.lost = 0};
    struct depot_check_report after = {.faults = 0};
    int error = repair_store(check, &repair);
    if (error == -ENOSPC)
        return cli_failed(
            "cannot repair %s to the end: it has no free segment left to write to; dump it, and "
            "load what is left into a new store",
            check->path);
    if (error != 0)
        return cli_failed("cannot repair %s to the end: %s", check->path, cli_file_reason(error));
    if (check->options->json)
        base_json_object_begin(&check->json, "after");
    error = check_store(check, &after);
    if (check->options->json)
        base_json_object_end(&check->json);
    if (error != 0)
        return cli_failed("cannot check %s: %s", check->path, cli_file_reason(error));
    if (after.faults > 0)
        return cli_failed("%s is still not sound: dump it, and load what is left into a new store",
                          check->path);
    return repair.lost > 0 || before->segments_unsure > 0 ? CHECK_LOST : CLI_OK;
}

/* ---- all of it ------------------------------------------------------------------------------------ */

/* @return the exit status */
static int look_and_mend(struct check *check)
{
    struct depot_check_report report = {.faults = 0};
    int error = check_store(check, &report);
    if (error != 0)
        return cli_failed("cannot check %s: %s", check->path, cli_file_reason(error));
    if (report.faults > 0)
        return check->options->repair ? mend(check, &report) : CLI_FAILED;
    if (check->options->repair && !check->options->json)
        (void)printf("%s: there is nothing to repair, nothing was written\n", check->path);
    return CLI_OK;
}

static int run_check(const void *options, const char *const *words, size_t count)
{
    struct check check = {.options = options};
    if (count != 1)
        return cli_usage("check takes a store");
    int status = cli_node_open(words[0], &check.node, &check.path);
    if (status != CLI_OK)
        return status;
    status = cli_text_init(&check.text, &check.node->memory, TARN_KEY_BYTES_MAX);
    if (status == CLI_OK) {
        base_json_init_file(&check.json, stdout);
        if (check.options->json) {
            base_json_object_begin(&check.json, NULL);
            base_json_string(&check.json, "store", check.path);
        }
        status = look_and_mend(&check);
        cli_text_deinit(&check.text);
    }
    if (check.options->json) {
        base_json_object_end(&check.json);
        if (base_json_finish(&check.json, NULL) != 0 || putchar('\n') == EOF)
            status = cli_output_failed();
    }
    if (ferror(stdout) || fflush(stdout) != 0)
        status = cli_output_failed();
    tarn_node_close(check.node);
    return status;
}

int cli_check(int argc, char **argv)
{
    struct check_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_check);
}
