/* tarn fabric info: what providers there are, and what each reports here. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/fabric.h"
#include "cli/store.h"
#include "fabric/fabric.h"
#include "task/node.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>

struct info_options {
    bool json;
};

static const struct base_setting info_settings[] = {{.name = "json",
                                                     .type = BASE_SETTING_BOOL,
                                                     .help = "Print one JSON object.",
                                                     .offset = offsetof(struct info_options, json)}};
static const struct cli_arguments arguments = {info_settings, base_array_count(info_settings)};

void cli_fabric_info_help(FILE *file)
{
    (void)fputs(
        "Opens the provider that the URL names, or each that this build has, and tells what it reports.\n\n",
        file);
    cli_print_options(&arguments, file);
}

/* Where it is printed: lines, or JSON. */
struct output {
    struct base_json json;
    bool is_json;
};

static const struct {
    const char *name;
    uint64_t limit;
} limits[] = {
    {"operation_bytes", TARN_FABRIC_BYTES_MAX},       {"operation_vectors", TARN_FABRIC_IOV_MAX},
    {"message_bytes", TARN_FABRIC_RECEIVE_BYTES_MAX}, {"messages_waiting", TARN_FABRIC_RECEIVE_COUNT_MAX},
    {"private_bytes", TARN_FABRIC_PRIVATE_BYTES_MAX}, {"regions_of_a_domain", TARN_FABRIC_REGIONS_MAX},
};

/* ---- addresses and devices ------------------------------------------------------------------------------- */

static void tell_place(struct output *output, const char *place)
{
    if (output->is_json)
        base_json_string(&output->json, NULL, place);
    else
        (void)printf("        %s\n", place);
}

static void tell_addresses(struct output *output)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        char text[INET6_ADDRSTRLEN], place[INET6_ADDRSTRLEN + IF_NAMESIZE + 8];
        int family =
            one->ifa_addr == NULL || (one->ifa_flags & IFF_UP) == 0 ? AF_UNSPEC : one->ifa_addr->sa_family;
        if (family == AF_INET) {
            const struct sockaddr_in *address = (const void *)one->ifa_addr;
            (void)inet_ntop(family, &address->sin_addr, text, sizeof(text));
        } else if (family == AF_INET6) {
            const struct sockaddr_in6 *address = (const void *)one->ifa_addr;
            (void)inet_ntop(family, &address->sin6_addr, text, sizeof(text));
        } else {
            continue;
        }
        (void)snprintf(place, sizeof(place), family == AF_INET ? "%s (%s)" : "[%s] (%s)", text,
                       one->ifa_name);
        tell_place(output, place);
    }
    freeifaddrs(all);
}

static void tell_device(void *arg, const struct cli_rdma_device *device)
{
    char place[512];
    for (uint32_t i = 0; i < device->port_count; i++) {
        const struct cli_rdma_port *port = &device->ports[i];
        (void)snprintf(place, sizeof(place), "%s port %" PRIu32 " (%s, %s, %s)", device->name, port->number,
                       port->state, port->link_layer, port->rate);
        tell_place(arg, place);
    }
}

static void tell_places(struct output *output, const char *provider)
{
    if (output->is_json)
        base_json_array_begin(&output->json, "places");
    if (strcmp(provider, "tcp") == 0)
        tell_addresses(output);
    else if (strcmp(provider, "shm") == 0)
        tell_place(output, "the path of a socket, on this host");
    else
        (void)cli_rdma_visit("", tell_device, output);
    if (output->is_json)
        base_json_array_end(&output->json);
}

/* ---- providers ------------------------------------------------------------------------------------------- */

static void tell_unusable(struct output *output, const char *name, int error)
{
    const char *why = strerrordesc_np(-error);
    if (!output->is_json) {
        (void)printf("%-7s cannot be used here: %s\n", name, why);
        return;
    }
    base_json_string(&output->json, "provider", name);
    base_json_bool(&output->json, "usable", false);
    base_json_string(&output->json, "error", why);
}

static void tell_info(struct output *output, const struct tarn_fabric_info *info)
{
    if (output->is_json) {
        base_json_string(&output->json, "provider", info->provider);
        base_json_bool(&output->json, "usable", true);
        base_json_bool(&output->json, "whole_words", info->whole_words);
        base_json_bool(&output->json, "whole_reads", info->whole_reads);
        base_json_string(&output->json, "atomics", fabric_atomics_name(info->atomics));
        base_json_string(&output->json, "served_by", fabric_served_by_name(info->served_by));
    } else {
        (void)printf("%-7s whole words: %s; whole reads: %s; atomics: %s; served by: %s\n", info->provider,
                     info->whole_words ? "yes" : "no", info->whole_reads ? "yes" : "no",
                     fabric_atomics_name(info->atomics), fabric_served_by_name(info->served_by));
    }
    tell_places(output, info->provider);
}

/* @return 0; what opening it came to */
static int tell_provider(struct output *output, struct tarn_node *node, const char *url)
{
    struct tarn_fabric *fabric;
    char name[32];
    int error = tarn_fabric_open(node, url, &fabric);
    if (output->is_json)
        base_json_object_begin(&output->json, NULL);
    if (error == 0) {
        tell_info(output, tarn_fabric_info(fabric));
        tarn_fabric_close(fabric);
    } else {
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(url, ":"), url);
        tell_unusable(output, name, error);
    }
    if (output->is_json)
        base_json_object_end(&output->json);
    return error;
}

/* One that cannot be used here was not asked for. */
static void tell_all(struct output *output, struct tarn_node *node)
{
    const char *name;
    char url[32];
    for (uint32_t place = 0; (name = tarn_fabric_provider_name(place)) != NULL; place++) {
        (void)snprintf(url, sizeof(url), "%s:", name);
        (void)tell_provider(output, node, url);
    }
}

static void tell_limits(struct output *output)
{
    if (output->is_json)
        base_json_object_begin(&output->json, "limits");
    else
        (void)puts("limits");
    for (size_t i = 0; i < base_array_count(limits); i++) {
        if (output->is_json)
            base_json_u64(&output->json, limits[i].name, limits[i].limit);
        else
            (void)printf("        %s: %" PRIu64 "\n", limits[i].name, limits[i].limit);
    }
    if (output->is_json)
        base_json_object_end(&output->json);
}

/* ---- the verb -------------------------------------------------------------------------------------------- */

static int tell_facts(struct output *output, struct tarn_node *node, const char *url)
{
    if (output->is_json) {
        base_json_init_file(&output->json, stdout);
        base_json_object_begin(&output->json, NULL);
        base_json_array_begin(&output->json, "providers");
    }
    int error = 0;
    if (url == NULL)
        tell_all(output, node);
    else
        error = tell_provider(output, node, url);
    if (output->is_json)
        base_json_array_end(&output->json);
    tell_limits(output);
    if (output->is_json) {
        base_json_object_end(&output->json);
        if (base_json_finish(&output->json, NULL) != 0 || putchar('\n') == EOF)
            return cli_output_failed();
    }
    if (ferror(stdout) || fflush(stdout) != 0)
        return cli_output_failed();
    return error == 0 ? CLI_OK : cli_failed("it cannot be used here; `tarn fabric doctor` tells more");
}

static void drop_line(void *arg, enum base_log_level level, const char *line, size_t len)
{
    (void)arg;
    (void)level;
    (void)line;
    (void)len;
}

static int run_info(const void *parsed, const char *const *words, size_t count)
{
    const struct info_options *options = parsed;
    const struct task_node_options node_options = {.log_level = BASE_LOG_ERROR,
                                                   .log_sink = count == 0 ? drop_line : NULL};
    struct output output = {.is_json = options->json};
    struct tarn_node *node;
    if (count > 1)
        return cli_usage("info takes one URL at most");
    int error = task_node_open(&node_options, &node);
    if (error != 0)
        return cli_failed("cannot begin: %s", strerrordesc_np(-error));
    int status = tell_facts(&output, node, count == 0 ? NULL : words[0]);
    task_node_close(node);
    return status;
}

int cli_fabric_info(int argc, char **argv)
{
    struct info_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_info);
}
