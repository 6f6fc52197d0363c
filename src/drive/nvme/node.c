/*
 * Paths of NVMe namespaces. A namespace has two nodes: the character node (ng0n1), which takes commands and which
 * several processes may open at the same time, and the block device (nvme0n1), which can be held exclusively.
 */
#include "drive/nvme/nvme.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define SYSTEM_PATH_BYTES 192
#define CLASS_OF_NODES    "nvme-generic"
#define NODE_PREFIX       "ng"

/* Read the last part of the path to which a symbolic link of /sys about a character device leads. @return whether there
 * is one
 */
static bool link_name(dev_t device, const char *symlink_path, char ret_name[NVME_NAME_BYTES])
{
    char path[SYSTEM_PATH_BYTES], target[SYSTEM_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "/sys/dev/char/%u:%u%s", major(device), minor(device), symlink_path);
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    if (length <= 0 || length == sizeof(target) - 1)
        return false;
    target[length] = '\0';
    const char *slash = strrchr(target, '/');
    const char *name = slash == NULL ? target : slash + 1;
    if (strlen(name) >= NVME_NAME_BYTES)
        return false;
    (void)snprintf(ret_name, NVME_NAME_BYTES, "%s", name);
    return true;
}

static bool is_node(const struct stat *status)
{
    char class[NVME_NAME_BYTES];
    return S_ISCHR(status->st_mode) && link_name(status->st_rdev, "/subsystem", class) &&
           strcmp(class, CLASS_OF_NODES) == 0;
}

bool nvme_is_node(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && is_node(&status);
}

/* Find the block device's name and number in /sys, beside the node. @return whether they are there */
static bool find_block(dev_t node, char ret_name[NVME_NAME_BYTES], struct drive_queue *ret_queue)
{
    char name[NVME_NAME_BYTES], path[SYSTEM_PATH_BYTES], text[NVME_NAME_BYTES];
    if (!link_name(node, "", name) || strncmp(name, NODE_PREFIX, strlen(NODE_PREFIX)) != 0 ||
        snprintf(ret_name, NVME_NAME_BYTES, "nvme%s", name + strlen(NODE_PREFIX)) >=
            NVME_NAME_BYTES - (int)strlen("/dev/"))
        return false;
    (void)snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/device/%s/dev", major(node), minor(node),
                   ret_name);
    return drive_read_text(path, text, sizeof(text)) > 0 &&
           sscanf(text, "%u:%u", &ret_queue->device_major, &ret_queue->device_minor) == 2;
}

dev_t nvme_block_number(const struct stat *status)
{
    char name[NVME_NAME_BYTES];
    struct drive_queue queue;
    return is_node(status) && find_block(status->st_rdev, name, &queue)
               ? makedev(queue.device_major, queue.device_minor)
               : 0;
}

int nvme_find_sibling(struct tarn_node *node, const char *path, struct nvme_sibling *ret_sibling)
{
    struct stat status, block;
    char block_name[NVME_NAME_BYTES];
    if (stat(path, &status) != 0)
        return drive_refuse(node, path, -errno, "the kernel refuses to describe it");
    if (!is_node(&status))
        return drive_refuse(node, path, -ENOTSUP,
                            "nvme was asked for, and it is not the character node of an NVMe namespace: "
                            "name that (as /dev/ng0n1), or leave the choice open");
    if (!find_block(status.st_rdev, block_name, &ret_sibling->queue))
        return drive_refuse(node, path, -ENOTSUP,
                            "the namespace has no block device (nvme0n1 beside ng0n1), so that it cannot be "
                            "locked: its command set or format is not supported");
    (void)snprintf(ret_sibling->path, sizeof(ret_sibling->path), "/dev/%.*s",
                   NVME_NAME_BYTES - (int)sizeof("/dev/"), block_name);
    dev_t expected = makedev(ret_sibling->queue.device_major, ret_sibling->queue.device_minor);
    if (stat(ret_sibling->path, &block) != 0 || !S_ISBLK(block.st_mode) || block.st_rdev != expected)
        return drive_refuse(node, path, -ENOTSUP,
                            "the block device of the namespace is not in /dev, so that it cannot be locked: "
                            "make it available here (/dev/nvme0n1 beside /dev/ng0n1)");
    return 0;
}
