/*
 * Files that engines know by number. A file's number names its slot in every engine's table; the slot is
 * filled when an engine first uses the file. Closing sends a message from scheduler to scheduler, each of
 * which empties its slot, and the last of which closes the descriptor and frees the number.
 */
#include "task/engine.h"
#include "task/sched_internal.h"
#include <errno.h>
#include <unistd.h>

_Static_assert(TASK_FILES_MAX == 64, "node->files_used has a bit for each");

static void run_drop(struct task_message *message);

int task_file_open(struct tarn_node *node, int fd, struct task_file **ret_file)
{
    struct task_file *file = base_alloc(&node->memory, sizeof(*file));
    if (file == NULL)
        return -ENOMEM;
    base_spin_lock(&node->lock);
    bool full = node->files_used == UINT64_MAX;
    if (!full) {
        file->number = (uint32_t)__builtin_ctzll(~node->files_used);
        node->files_used |= UINT64_C(1) << file->number;
        file->generation = ++node->files_opened;
    }
    base_spin_unlock(&node->lock);
    if (full) {
        base_free(&node->memory, file, sizeof(*file));
        return -ENFILE;
    }
    file->fd = fd;
    file->node = node;
    file->drop.run = run_drop;
    *ret_file = file;
    return 0;
}

/* Send the file to the next scheduler that lives. @return false: all have forgotten it */
static bool pass_on(struct task_file *file)
{
    struct tarn_node *node = file->node;
    bool passed = false;
    base_spin_lock(&node->lock); /* a scheduler leaves the table before it is freed */
    while (!passed && file->drop_next < TASK_SCHEDS_MAX) {
        struct task_sched *sched = node->scheds[file->drop_next++];
        passed = sched != NULL && task_sched_post(sched, &file->drop);
    }
    base_spin_unlock(&node->lock);
    return passed;
}

static void drop_everywhere(struct task_file *file)
{
    struct tarn_node *node = file->node;
    if (pass_on(file))
        return;
    (void)close(file->fd);
    base_spin_lock(&node->lock);
    node->files_used &= ~(UINT64_C(1) << file->number);
    base_spin_unlock(&node->lock);
    base_free(&node->memory, file, sizeof(*file));
}

static void run_drop(struct task_message *message)
{
    struct task_file *file = base_container_of(message, struct task_file, drop);
    struct task_sched *sched = task_thread_sched();
    sched->engine_ops->drop_file(sched->engine, file->number);
    drop_everywhere(file);
}

void task_file_close(struct task_file *file)
{
    drop_everywhere(file);
}
