/*
 * litmus: play the litmus tests of the fabric on some providers, compare what was seen with what they report and the
 * contract allows, and print one table. README.md beside this file tells the rest.
 *
 *     litmus [--json] [--tries=N] [--seeds=N] PROVIDER...
 *
 * PROVIDER is `shm:`, `tcp:` (on loopback), `sim:`, `sim:memory`, or OWNER_URL=PEER_URL=ADDRESS of any other. Exits with 1 if something
 * was seen that is forbidden, or was not tried; with 77 if this build has no such provider.
 */
#include "litmus.h"
#include "base/json.h"
#include "fabric/fabric.h"
#include "sim/net/net.h"
#include "task/node.h"
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PROVIDERS_MAX = 8, NAME_BYTES = 24, TEXT_BYTES = 256, NO_PROVIDER = 77, SIM_TRIES = 12 };

/* What was seen on one. */
struct column {
    char name[NAME_BYTES];
    struct tarn_fabric_info info;
    struct litmus_count counts[LITMUS_SIGHTS];
    bool shows_all; /* the simulator: what is allowed must be seen */
};

struct options {
    bool json;
    uint64_t tries;
    uint64_t seeds;
};

/* ---- what is allowed ---------------------------------------------------------------------------- */

static bool is_allowed(const struct column *column, enum litmus_sight sight)
{
    switch (litmus_behaviours[sight].rule) {
    case LITMUS_ALWAYS:
        return true;
    case LITMUS_IF_TORN:
        return !column->info.whole_words;
    case LITMUS_IF_DEVICE:
        return column->info.atomics == TARN_FABRIC_ATOMICS_DEVICE;
    case LITMUS_NEVER:
    case LITMUS_NEVER_WHOLE:
    case LITMUS_NEVER_OWNER:
        break;
    }
    return false;
}

/* Whether the provider has what it takes to try it. */
static bool can_be_tried(const struct column *column, enum litmus_sight sight)
{
    switch (litmus_behaviours[sight].rule) {
    case LITMUS_NEVER_WHOLE:
        return column->info.whole_reads;
    case LITMUS_NEVER_OWNER:
        return column->info.atomics == TARN_FABRIC_ATOMICS_MEMORY;
    default:
        return true;
    }
}

static bool is_wrong(const struct column *column, enum litmus_sight sight)
{
    const struct litmus_count *count = &column->counts[sight];
    bool seen = count->seen > 0;
    return (count->tries > 0) != can_be_tried(column, sight) || (seen && !is_allowed(column, sight)) ||
           (column->shows_all && !seen && is_allowed(column, sight));
}

static const char *rule_name(enum litmus_rule rule)
{
    static const char *const names[] = {[LITMUS_ALWAYS] = "allowed",
                                        [LITMUS_NEVER] = "never",
                                        [LITMUS_IF_TORN] = "unless words are whole",
                                        [LITMUS_IF_DEVICE] = "if atomics are the device's",
                                        [LITMUS_NEVER_WHOLE] = "never",
                                        [LITMUS_NEVER_OWNER] = "never"};
    return names[rule];
}

/* In which order a READ, or a WRITE, takes its words. */
static const char *order_name(const struct column *column, enum litmus_sight up, enum litmus_sight down)
{
    bool upward = column->counts[up].seen > 0, downward = column->counts[down].seen > 0;
    return upward && downward ? "neither" : upward ? "low to high" : downward ? "high to low" : "not seen";
}

/* ---- the table ---------------------------------------------------------------------------------- */

static void print_row(const char *what, const char *rule, const struct column *columns, unsigned count,
                      void (*cell)(const struct column *column, unsigned arg, char *text), unsigned arg)
{
    char text[TEXT_BYTES];
    (void)printf("| %-42s | %-27s |", what, rule);
    for (unsigned i = 0; i < count; i++) {
        cell(&columns[i], arg, text);
        (void)printf(" %-18s |", text);
    }
    (void)putchar('\n');
}

static void cell_name(const struct column *column, unsigned arg, char *text)
{
    (void)arg;
    (void)snprintf(text, TEXT_BYTES, "`%s`", column->name);
}

static void cell_line(const struct column *column, unsigned arg, char *text)
{
    (void)column;
    (void)arg;
    (void)snprintf(text, TEXT_BYTES, "---");
}

static void cell_reports(const struct column *column, unsigned arg, char *text)
{
    (void)snprintf(text, TEXT_BYTES, "%s",
                   arg == 0   ? (column->info.whole_words ? "yes" : "no")
                   : arg == 1 ? (column->info.whole_reads ? "yes" : "no")
                              : fabric_atomics_name(column->info.atomics));
}

static void cell_count(const struct column *column, unsigned arg, char *text)
{
    const struct litmus_count *count = &column->counts[arg];
    const char *mark = is_wrong(column, arg) ? " WRONG" : "";
    if (count->tries == 0 && !can_be_tried(column, arg))
        (void)snprintf(text, TEXT_BYTES, "refused");
    else
        (void)snprintf(text, TEXT_BYTES, "%" PRIu64 " / %" PRIu64 "%s", count->seen, count->tries, mark);
}

static void cell_order(const struct column *column, unsigned arg, char *text)
{
    (void)snprintf(text, TEXT_BYTES, "%s", order_name(column, arg, arg + 1));
}

static void print_table(const struct column *columns, unsigned count)
{
    print_row("seen / tried", "contract", columns, count, cell_name, 0);
    print_row("---", "---", columns, count, cell_line, 0);
    print_row("it reports whole words", "", columns, count, cell_reports, 0);
    print_row("it reports whole READs", "", columns, count, cell_reports, 1);
    print_row("it reports atomics", "", columns, count, cell_reports, 2);
    for (unsigned i = 0; i < LITMUS_SIGHTS; i++)
        print_row(litmus_behaviours[i].name, rule_name(litmus_behaviours[i].rule), columns, count, cell_count,
                  i);
    print_row("order of READ", "none", columns, count, cell_order, LITMUS_READ_UPWARD);
    print_row("order of WRITE", "none", columns, count, cell_order, LITMUS_WRITE_UPWARD);
}

static void print_json(const struct column *column)
{
    for (unsigned i = 0; i < LITMUS_SIGHTS; i++) {
        struct base_json json;
        base_json_init_file(&json, stdout);
        base_json_object_begin(&json, NULL);
        base_json_string(&json, "provider", column->name);
        base_json_bool(&json, "whole_words", column->info.whole_words);
        base_json_bool(&json, "whole_reads", column->info.whole_reads);
        base_json_string(&json, "atomics", fabric_atomics_name(column->info.atomics));
        base_json_string(&json, "behaviour", litmus_behaviours[i].name);
        base_json_string(&json, "contract", rule_name(litmus_behaviours[i].rule));
        base_json_bool(&json, "allowed", is_allowed(column, i));
        base_json_u64(&json, "tries", column->counts[i].tries);
        base_json_u64(&json, "seen", column->counts[i].seen);
        if (column->shows_all)
            base_json_u64(&json, "seeds_needed", column->counts[i].seeds);
        base_json_bool(&json, "wrong", is_wrong(column, i));
        base_json_object_end(&json);
        base_assert(base_json_finish(&json, NULL) == 0);
        (void)putchar('\n');
    }
}

/* ---- providers ---------------------------------------------------------------------------------- */

/* A port of this machine that nobody listens on, of an address that only this process uses. */
static void free_port(char *address, size_t room)
{
    const uint32_t own = UINT32_C(0x7f000000) | ((uint32_t)getpid() & 0xffffff);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(own)};
    char host[INET_ADDRSTRLEN];
    socklen_t bytes = sizeof(name);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    base_assert(fd >= 0 && bind(fd, (const struct sockaddr *)&name, bytes) == 0 &&
                getsockname(fd, (struct sockaddr *)&name, &bytes) == 0 && close(fd) == 0);
    base_assert(inet_ntop(AF_INET, &name.sin_addr, host, sizeof(host)) != NULL);
    (void)snprintf(address, room, "%s:%u", host, ntohs(name.sin_port));
}

/* @return an error: this build has no such provider, or it cannot be had here */
static int probe(const char *url)
{
    const struct task_node_options quiet = {.log_level = BASE_LOG_ERROR};
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    base_assert(task_node_open(&quiet, &node) == 0);
    int error = tarn_fabric_open(node, url, &fabric);
    if (error == 0)
        tarn_fabric_close(fabric);
    task_node_close(node);
    return error;
}

/* One that is not known here. Does not return if there is none. */
static void play_other(const char *url, const char *peer_url, const char *address,
                       const struct options *options, struct column *column)
{
    int error = probe(url);
    if (error != 0) {
        (void)fprintf(stderr, "litmus: %s cannot be opened: %s\n", url, strerrordesc_np(-error));
        exit(error == -EINVAL ? NO_PROVIDER : 1);
    }
    litmus_run_threads(url, peer_url, address, options->tries, &column->info, column->counts);
}

/* @return false: that is none */
static bool play(char *provider, const struct options *options, struct column *column)
{
    char address[TEXT_BYTES];
    char *peer = strchr(provider, '='), *where = peer == NULL ? NULL : strchr(peer + 1, '=');
    const bool as_memory = strcmp(provider, "sim:memory") == 0; /* what it reports is the best */
    column->shows_all = as_memory || strcmp(provider, "sim:") == 0;
    if (column->shows_all) {
        litmus_run_worlds(
            SIM_NET_ALL_TROUBLES &
                (as_memory ? ~(uint32_t)(SIM_NET_TORN_WORD | SIM_NET_SLIPPED_SWAP) : UINT32_MAX),
            options->seeds, SIM_TRIES, &column->info, column->counts);
    } else if (where != NULL) {
        *peer++ = *where++ = '\0';
        play_other(provider, peer, where, options, column);
    } else if (strcmp(provider, "shm:") == 0) {
        (void)snprintf(address, sizeof(address), "/tmp/litmus-%d.socket", (int)getpid());
        litmus_run_threads(provider, provider, address, options->tries, &column->info, column->counts);
    } else if (strcmp(provider, "tcp:") == 0) {
        free_port(address, sizeof(address));
        litmus_run_threads(provider, provider, address, options->tries, &column->info, column->counts);
    } else {
        return false;
    }
    (void)snprintf(column->name, sizeof(column->name), "%s", provider);
    return true;
}

static bool parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {{"json", no_argument, NULL, 'j'},
                                          {"tries", required_argument, NULL, 't'},
                                          {"seeds", required_argument, NULL, 's'},
                                          {0}};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'j')
            options->json = true;
        else if (option == 't')
            options->tries = strtoull(optarg, NULL, 10);
        else if (option == 's')
            options->seeds = strtoull(optarg, NULL, 10);
        else
            return false;
    }
    return optind < argc && argc - optind <= PROVIDERS_MAX && options->tries > 0 && options->seeds > 0;
}

int main(int argc, char **argv)
{
    static struct column columns[PROVIDERS_MAX];
    struct options options = {.tries = 20000, .seeds = 200};
    unsigned count = 0, wrong = 0;
    if (!parse(argc, argv, &options)) {
        (void)fputs("usage: litmus [--json] [--tries=N] [--seeds=N] PROVIDER...\n", stderr);
        return 2;
    }
    for (; optind < argc; optind++, count++) {
        if (!play(argv[optind], &options, &columns[count])) {
            (void)fprintf(stderr,
                          "litmus: %s is no provider: shm: tcp: sim: sim:memory OWNER_URL=PEER_URL=ADDRESS\n",
                          argv[optind]);
            return 2;
        }
        for (unsigned i = 0; i < LITMUS_SIGHTS; i++)
            wrong += is_wrong(&columns[count], i);
        if (options.json)
            print_json(&columns[count]);
    }
    if (!options.json)
        print_table(columns, count);
    for (unsigned i = 0; i < count && !options.json; i++)
        (void)printf("%s - litmus of %s\n", wrong == 0 ? "ok" : "not ok", columns[i].name);
    return wrong == 0 ? 0 : 1;
}
