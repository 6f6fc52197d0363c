/* The functions of cluster.h: the checks that are the same for every back end, and the call of its own function. */
#include "cluster/cluster_internal.h"
#include "task/node.h"
#include <string.h>

static const struct cluster_provider providers[] = {{"solo:", cluster_solo_join},
                                                    {"zookeeper:", cluster_zookeeper_join}};

int cluster_refuse(struct tarn_node *node, const char *url, const char *reason)
{
    char quoted[BASE_LOG_ROOM_MIN];
    base_error(&node->log, "cannot join a cluster", "url=%s reason=\"%s\"",
               base_log_quote(quoted, sizeof(quoted), url, strlen(url)), reason);
    return -EINVAL;
}

/* ---- checks ------------------------------------------------------------------------------------- */

static bool is_dots(const char *text, size_t len)
{
    return (len == 1 && text[0] == '.') || (len == 2 && text[0] == '.' && text[1] == '.');
}

static bool is_name(const char *name)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:";
    const size_t len = name == NULL ? 0 : strlen(name);
    return len > 0 && len <= CLUSTER_NAME_MAX && strspn(name, good) == len && !is_dots(name, len);
}

bool cluster_is_path(const char *path)
{
    const size_t len = path == NULL ? 0 : strnlen(path, CLUSTER_PATH_MAX + 1);
    if (len == 0 || len > CLUSTER_PATH_MAX)
        return false;
    for (size_t at = 0; at < len;) {
        const char *component = path + at + 1;
        if (path[at] != '/')
            return false;
        const size_t bytes = strcspn(component, "/");
        for (size_t i = 0; i < bytes; i++) {
            if (component[i] < ' ' || component[i] > '~')
                return false;
        }
        if (bytes == 0 || is_dots(component, bytes))
            return false;
        at += 1 + bytes;
    }
    return true;
}

/* @return 0; -EINVAL; -E2BIG */
static int check_change(const struct cluster_change *change, uint64_t *inout_bytes)
{
    if (!cluster_is_path(change->path) || change->if_version < CLUSTER_ABSENT)
        return -EINVAL;
    if (change->data == NULL && change->if_version == CLUSTER_ABSENT)
        return -EINVAL;
    const uint32_t bytes = change->data == NULL ? 0 : change->bytes;
    *inout_bytes += CLUSTER_CHANGE_BYTES + strlen(change->path) + bytes;
    return bytes > CLUSTER_DATA_MAX || *inout_bytes > CLUSTER_MULTI_BYTES_MAX ? -E2BIG : 0;
}

static int check_changes(const struct cluster_change *changes, uint32_t count)
{
    uint64_t bytes = 0;
    int error = count > CLUSTER_MULTI_MAX ? -E2BIG : 0;
    for (uint32_t i = 0; error == 0 && i < count; i++) {
        error = check_change(&changes[i], &bytes);
        for (uint32_t other = 0; error == 0 && other < i; other++)
            error = strcmp(changes[i].path, changes[other].path) == 0 ? -EINVAL : 0;
    }
    return error;
}

/* ---- members and their leader ------------------------------------------------------------------- */

/* Whether a back end takes a URL. @param provider  NULL: no */
static bool does_take(const struct cluster_provider *provider, const char *url)
{
    const size_t len = provider == NULL ? 0 : strlen(provider->scheme);
    return len > 0 && strncmp(url, provider->scheme, len) == 0;
}

int cluster_join(struct tarn_node *node, const char *url, const struct cluster_options *options,
                 struct cluster **ret_cluster)
{
    if (!is_name(options->name))
        return cluster_refuse(node, url,
                              "a member's name has 1 to 63 letters, digits, '-', '_', '.' and ':'");
    if (options->data_bytes > CLUSTER_MEMBER_DATA_MAX)
        return cluster_refuse(node, url, "a member tells 256 bytes of itself at most");
    const struct cluster_provider *provider = node->options.cluster;
    for (size_t i = 0; i < base_array_count(providers) && !does_take(provider, url); i++)
        provider = &providers[i];
    if (does_take(provider, url) && url[strlen(provider->scheme)] != '\0')
        return provider->join(node, url + strlen(provider->scheme), options, ret_cluster);
    return cluster_refuse(node, url,
                          "a cluster is named as solo:PATH, or zookeeper:HOST:PORT,HOST:PORT/PATH");
}

void cluster_leave(struct cluster *cluster)
{
    cluster->operations->leave(cluster);
}

uint64_t cluster_held_until(const struct cluster *cluster)
{
    return cluster->operations->held_until(cluster);
}

int cluster_members(struct cluster *cluster, struct cluster_member *ret_members, uint32_t *ret_count)
{
    return cluster->operations->members(cluster, ret_members, ret_count);
}

int cluster_watch(struct cluster *cluster, uint64_t *seen, uint64_t deadline_ns)
{
    return cluster->operations->watch(cluster, seen, deadline_ns);
}

int cluster_lead(struct cluster *cluster, uint64_t deadline_ns, uint64_t *ret_epoch)
{
    return cluster->operations->lead(cluster, deadline_ns, ret_epoch);
}

/* ---- metadata ----------------------------------------------------------------------------------- */

int cluster_multi(struct cluster *cluster, uint64_t epoch, const struct cluster_change *changes,
                  uint32_t count)
{
    const int error = check_changes(changes, count);
    return error != 0 ? error : cluster->operations->multi(cluster, epoch, changes, count);
}

int cluster_put(struct cluster *cluster, uint64_t epoch, const char *path, const void *data, uint32_t bytes,
                int64_t if_version)
{
    const struct cluster_change change = {
        .path = path, .data = data == NULL ? "" : data, .bytes = bytes, .if_version = if_version};
    return data == NULL && bytes > 0 ? -EINVAL : cluster_multi(cluster, epoch, &change, 1);
}

int cluster_delete(struct cluster *cluster, uint64_t epoch, const char *path, int64_t if_version)
{
    return cluster_multi(cluster, epoch, &(struct cluster_change){.path = path, .if_version = if_version}, 1);
}

int cluster_get(struct cluster *cluster, const char *path, void *data, uint32_t room, uint32_t *ret_bytes,
                int64_t *ret_version)
{
    int64_t version;
    if (!cluster_is_path(path))
        return -EINVAL;
    const int error = cluster->operations->get(cluster, path, data, room, ret_bytes, &version);
    if (error == 0 && ret_version != NULL)
        *ret_version = version;
    return error;
}

int cluster_scan(struct cluster *cluster, const char *path, cluster_visit_function *visit, void *arg)
{
    return cluster_is_path(path) ? cluster->operations->scan(cluster, path, visit, arg) : -EINVAL;
}
