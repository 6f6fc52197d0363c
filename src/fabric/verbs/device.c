/* The URL, and the card that it names: its port, its address, its limits. */
#include "fabric/verbs/verbs.h"
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define SEND_DEPTH  128
#define READS_MAX   16
#define GIDS_MAX    64 /* the most entries of a port's table that are read */
#define NAMES_BYTES 256

/* ---- the URL ------------------------------------------------------------------------------------ */

static int read_number(struct base_log *log, const char *option, const char *text, int64_t least,
                       int64_t *ret_number)
{
    uint64_t number;
    if (base_parse_u64(text, &number) != 0 || number > 255 || (int64_t)number < least)
        return fabric_url_complain(log, option, "it takes a number of 0 to 255; ports begin with 1");
    *ret_number = (int64_t)number;
    return 0;
}

static int read_option(struct base_log *log, const char *option, struct verbs_options *options)
{
    const char *text;
    if ((text = fabric_url_value(option, "port=")) != NULL)
        return read_number(log, option, text, 1, &options->port);
    if ((text = fabric_url_value(option, "gid=")) != NULL)
        return read_number(log, option, text, 0, &options->gid);
    if ((text = fabric_url_value(option, "traffic-class=")) != NULL)
        return read_number(log, option, text, 0, &options->traffic_class);
    if ((text = fabric_url_value(option, "heartbeat=")) != NULL)
        return fabric_url_heartbeat(log, option, text, &options->heartbeat_ns);
    if (strcmp(option, "whole-words") == 0) {
        options->whole_words = true;
        return 0;
    }
    return fabric_url_complain(
        log, option,
        "there are port=N, gid=N, traffic-class=N, heartbeat=DURATION and whole-words, "
        "with commas between");
}

int verbs_options_read(struct base_log *log, const char *text, struct verbs_options *ret_options)
{
    struct verbs_options options = {.gid = -1, .traffic_class = -1, .heartbeat_ns = FABRIC_HEARTBEAT_NS};
    char option[sizeof(options.device)];
    int error;
    for (bool first = true; (error = fabric_url_next(log, &text, option, sizeof(option))) == 0;
         first = false) {
        if (first && strchr(option, '=') == NULL)
            memcpy(options.device, option, sizeof(option));
        else if ((error = read_option(log, option, &options)) != 0)
            return error;
    }
    if (error != -ENOENT)
        return error;
    *ret_options = options;
    return 0;
}

/* ---- the device --------------------------------------------------------------------------------- */

static int log_failure(struct base_log *log, const char *device, const char *reason, int error)
{
    const char *text = strerrordesc_np(-error);
    base_error(log, "cannot use RDMA device", "device=\"%s\" reason=\"%s\" error=\"%s\"", device, reason,
               text == NULL ? "unknown error" : text);
    return error;
}

/* Find a port of a device that is up. @param wanted  its number; 0: any */
static bool find_port(struct ibv_context *context, int64_t wanted, uint8_t *ret_port)
{
    struct ibv_device_attr attr;
    if (ibv_query_device(context, &attr) != 0)
        return false;
    for (uint32_t port = 1; port <= attr.phys_port_cnt; port++) {
        struct ibv_port_attr port_attr;
        if ((wanted != 0 && port != wanted) || ibv_query_port(context, (uint8_t)port, &port_attr) != 0 ||
            (wanted == 0 && port_attr.state != IBV_PORT_ACTIVE))
            continue;
        *ret_port = (uint8_t)port;
        return true;
    }
    return false;
}

/* Open the device that the options name, or the first with a port that is up. */
static int open_device(struct base_log *log, const struct verbs_options *options, struct verbs_device *device)
{
    char names[NAMES_BYTES] = "none";
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    if (list == NULL)
        return log_failure(log, options->device,
                           "the kernel has no RDMA: load ib_uverbs and rdma_ucm, and the driver", -ENODEV);
    for (int i = 0, at = 0; i < count; i++) {
        const char *name = ibv_get_device_name(list[i]);
        if (at < NAMES_BYTES - 1)
            at += snprintf(names + at, (size_t)(NAMES_BYTES - at), "%s%s", i == 0 ? "" : ", ", name);
        if (device->context != NULL || (options->device[0] != '\0' && strcmp(name, options->device) != 0))
            continue;
        device->context = ibv_open_device(list[i]);
        if (device->context != NULL && !find_port(device->context, options->port, &device->port)) {
            (void)ibv_close_device(device->context);
            device->context = NULL;
        }
    }
    ibv_free_device_list(list);
    if (device->context != NULL)
        return 0;
    base_error(log, "no RDMA device", "device=\"%s\" port=%d there=\"%s\" reason=\"%s\"", options->device,
               (int)options->port, names, "it is not there, may not be opened, or no port of it is up");
    return -ENODEV;
}

/* Read the IP address that a GID stands for. @return false: it stands for none */
static bool read_gid(const struct ibv_gid_entry *entry, struct sockaddr_storage *ret_address)
{
    struct in6_addr six;
    memcpy(&six, &entry->gid, sizeof(six));
    memset(ret_address, 0, sizeof(*ret_address));
    if (entry->gid_type == IBV_GID_TYPE_IB)
        return false;
    if (IN6_IS_ADDR_V4MAPPED(&six)) {
        struct sockaddr_in *four = (struct sockaddr_in *)(void *)ret_address;
        four->sin_family = AF_INET;
        memcpy(&four->sin_addr, (const uint8_t *)&six + 12, sizeof(four->sin_addr));
        return true;
    }
    struct sockaddr_in6 *address = (struct sockaddr_in6 *)(void *)ret_address;
    address->sin6_family = AF_INET6;
    address->sin6_addr = six;
    address->sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(&six) ? entry->ndev_ifindex : 0;
    return true;
}

/* Rank a GID for the choice of one: IPv4 over UDP is best, then IPv6 over UDP, then any. */
static int rank_gid(const struct ibv_gid_entry *entry, const struct sockaddr_storage *address,
                    bool has_address)
{
    if (!has_address)
        return 1;
    bool routed = entry->gid_type == IBV_GID_TYPE_ROCE_V2;
    if (address->ss_family == AF_INET)
        return routed ? 5 : 4;
    return IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr) ? 2 : 3;
}

static int choose_gid(struct base_log *log, const struct verbs_options *options, struct verbs_device *device)
{
    const int64_t first = base_max(options->gid, INT64_C(0)), end = options->gid < 0 ? GIDS_MAX : first + 1;
    int best = 0;
    for (int64_t i = first; i < end; i++) {
        struct ibv_gid_entry entry;
        struct sockaddr_storage address;
        if (ibv_query_gid_ex(device->context, device->port, (uint32_t)i, &entry, 0) != 0)
            continue;
        bool has_address = read_gid(&entry, &address);
        int suits = rank_gid(&entry, &address, has_address);
        if (suits <= best)
            continue;
        best = suits;
        device->gid = (uint8_t)i;
        device->has_address = has_address;
        device->address = address;
    }
    return best > 0 ? 0
                    : log_failure(log, options->device,
                                  "there is no such GID: is the port's network interface up?", -ENODEV);
}

struct ibv_qp *verbs_queue_pair_make(const struct verbs_device *device, struct ibv_pd *pd, struct ibv_cq *cq,
                                     uint32_t receives, void *context, uint32_t *inline_bytes)
{
    struct ibv_qp_init_attr attr = {.qp_context = context,
                                    .send_cq = cq,
                                    .recv_cq = cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = device->send_depth,
                                            .max_recv_wr = receives,
                                            .max_send_sge = device->vectors,
                                            .max_recv_sge = 1,
                                            .max_inline_data = *inline_bytes}};
    struct ibv_qp *qp = ibv_create_qp(pd, &attr);
    if (qp != NULL)
        *inline_bytes = base_min(attr.cap.max_inline_data, (uint32_t)VERBS_INLINE_MAX);
    return qp;
}

/* Make a queue pair to learn its limits (inline bytes, vectors) and the device's promises of order. */
static int ask_queue_pair(struct verbs_device *device)
{
    struct ibv_pd *pd = ibv_alloc_pd(device->context);
    struct ibv_cq *cq = ibv_create_cq(device->context, 16, NULL, NULL, 0);
    struct ibv_qp *qp = NULL;
    device->inline_bytes = VERBS_INLINE_MAX;
    while (pd != NULL && cq != NULL && qp == NULL) {
        qp = verbs_queue_pair_make(device, pd, cq, 1, NULL, &device->inline_bytes);
        if (qp != NULL || (device->inline_bytes == 0 && device->vectors == 1))
            break;
        if (device->vectors > 1)
            device->vectors /= 2;
        else
            device->inline_bytes /= 2;
    }
    device->read_vectors = base_min(device->read_vectors, device->vectors);
    int error = qp == NULL ? -errno : 0;
#ifdef FABRIC_VERBS_IN_ORDER
    if (qp != NULL)
        device->in_order = ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) == 1 &&
                           ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_READ, 0) == 1;
#endif
    if (qp != NULL)
        (void)ibv_destroy_qp(qp);
    if (cq != NULL)
        (void)ibv_destroy_cq(cq);
    if (pd != NULL)
        (void)ibv_dealloc_pd(pd);
    return error;
}

static uint32_t vectors_of(int said)
{
    return said < 1 ? 1 : base_min((uint32_t)said, (uint32_t)TARN_FABRIC_IOV_MAX);
}

static int ask_device(struct base_log *log, const struct verbs_options *options, struct verbs_device *device)
{
    struct ibv_device_attr attr;
    struct ibv_port_attr port;
    if (ibv_query_device(device->context, &attr) != 0 ||
        ibv_query_port(device->context, device->port, &port) != 0)
        return log_failure(log, options->device, "it does not say what it can", -EIO);
    const int reads =
        attr.max_qp_rd_atom < attr.max_qp_init_rd_atom ? attr.max_qp_rd_atom : attr.max_qp_init_rd_atom;
    const uint32_t requests = base_min((uint32_t)attr.max_qp_wr, (uint32_t)attr.max_cqe / 2);
    device->atomics = attr.atomic_cap;
    device->max_reads = (uint8_t)(reads < 1 ? 1 : reads > READS_MAX ? READS_MAX : reads);
    device->send_depth = base_min((uint32_t)SEND_DEPTH, requests);
    device->receive_depth_max = requests;
    device->vectors = vectors_of(attr.max_sge);
    device->read_vectors = vectors_of(attr.max_sge_rd);
    device->piece_bytes = base_min(port.max_msg_sz, (uint32_t)VERBS_DIRECT_BYTES);
    if (requests <= 2 * VERBS_CONTROL_SLOTS)
        return log_failure(log, options->device, "its queues are too short", -ENODEV);
    int error = choose_gid(log, options, device);
    if (error == 0 && (error = ask_queue_pair(device)) != 0)
        error = log_failure(log, options->device, "it makes no queue pair", error);
    return error;
}

int verbs_device_open(struct base_log *log, const struct verbs_options *options,
                      struct verbs_device *ret_device)
{
    struct verbs_device device = {.context = NULL};
    int error = open_device(log, options, &device);
    if (error != 0)
        return error;
    error = ask_device(log, options, &device);
    if (error != 0) {
        (void)ibv_close_device(device.context);
        return error;
    }
    base_info(log, "RDMA device", "device=%s port=%u gid=%u atomics=%d reads=%u inline_bytes=%u in_order=%s",
              ibv_get_device_name(device.context->device), device.port, device.gid, (int)device.atomics,
              device.max_reads, device.inline_bytes, device.in_order ? "yes" : "no");
    *ret_device = device;
    return 0;
}
