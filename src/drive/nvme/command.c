/*
 * Requests cut into commands. A command moves at most as much as the device and the kernel take at once: whole
 * vectors as long as they fit, else a part of one, given by address and length. So no command needs vectors of
 * its own, and the commands of a request do not depend on each other.
 */
#include "drive/nvme/nvme.h"

enum { OPCODE_FLUSH = 0x00, OPCODE_WRITE = 0x01, OPCODE_READ = 0x02, OPCODE_DATASET = 0x09 };

#define FORCE_UNIT_ACCESS  (1U << 30) /* in word 12 */
#define DATASET_DEALLOCATE (1U << 2)  /* in word 11 */
#define BLOCKS_MAX         65536      /* the most blocks of one transfer: the field has 16 bits */

void nvme_cut_begin(struct drive_request *request)
{
    request->cut = (struct drive_cut){
        .iov = request->iov,
        .iov_count = request->iov_count,
        .offset = request->offset,
        .left_bytes = request->op == DRIVE_FLUSH ? 1 : request->expected_bytes, /* a flush is one command */
    };
}

bool nvme_cut_left(const struct drive_request *request)
{
    return request->cut.left_bytes > 0;
}

/* Take whole vectors from the front. @return their number, at least one */
static uint32_t take_vectors(struct drive_cut *cut, uint64_t bytes_max, uint64_t *ret_bytes)
{
    uint64_t bytes = cut->iov->iov_len;
    uint32_t count = 1;
    while (count < cut->iov_count && cut->iov[count].iov_len > 0 &&
           cut->iov[count].iov_len <= bytes_max - bytes) {
        bytes += cut->iov[count].iov_len;
        count++;
    }
    cut->iov += count;
    cut->iov_count -= count;
    *ret_bytes = bytes;
    return count;
}

/* Set the memory of the next command. @return its bytes */
static uint64_t take_memory(struct drive_cut *cut, uint64_t bytes_max, struct nvme_command *command)
{
    struct nvme_passthru_cmd64 *words = &command->words;
    while (cut->iov->iov_len == 0) { /* another vector follows, because bytes are left */
        cut->iov++;
        cut->iov_count--;
    }
    const struct iovec *first = cut->iov;
    uint64_t bytes;
    words->addr = (uintptr_t)first->iov_base + cut->taken_bytes;
    if (cut->taken_bytes == 0 && first->iov_len <= bytes_max) {
        uint32_t count = take_vectors(cut, bytes_max, &bytes);
        command->vectored = count > 1;
        if (command->vectored) {
            words->addr = (uintptr_t)first;
            words->vec_cnt = count;
            return bytes;
        }
    } else {
        bytes = base_min((uint64_t)first->iov_len - cut->taken_bytes, bytes_max);
        cut->taken_bytes += bytes;
        if (cut->taken_bytes == first->iov_len) {
            cut->taken_bytes = 0;
            cut->iov++;
            cut->iov_count--;
        }
    }
    words->data_len = (uint32_t)bytes;
    return bytes;
}

static uint64_t cut_transfer(const struct nvme_namespace *ns, struct drive_request *request,
                             struct nvme_command *command)
{
    struct nvme_passthru_cmd64 *words = &command->words;
    uint64_t bytes_max = base_min(ns->transfer_bytes_max, (uint64_t)BLOCKS_MAX * ns->block_bytes);
    uint64_t bytes = take_memory(&request->cut, base_min(bytes_max, request->cut.left_bytes), command);
    uint64_t block = request->cut.offset / ns->block_bytes;
    words->opcode = request->op == DRIVE_READ ? OPCODE_READ : OPCODE_WRITE;
    words->cdw10 = (uint32_t)block;
    words->cdw11 = (uint32_t)(block >> 32);
    words->cdw12 = (uint32_t)(bytes / ns->block_bytes - 1);
    if (request->op == DRIVE_WRITE && request->durable)
        words->cdw12 |= FORCE_UNIT_ACCESS;
    return bytes;
}

static uint64_t cut_discard(const struct nvme_namespace *ns, struct drive_request *request,
                            struct nvme_command *command)
{
    struct nvme_passthru_cmd64 *words = &command->words;
    struct drive_cut *cut = &request->cut;
    uint64_t blocks = base_min(cut->left_bytes / ns->block_bytes, ns->discard_blocks_max);
    /* the range: 4 bytes of attributes, 4 of a count of blocks, 8 of the first */
    base_store_le32(cut->range, 0);
    base_store_le32(cut->range + 4, (uint32_t)blocks);
    base_store_le64(cut->range + 8, cut->offset / ns->block_bytes);
    words->opcode = OPCODE_DATASET;
    words->addr = (uintptr_t)cut->range;
    words->data_len = sizeof(cut->range);
    words->cdw10 = 0; /* one range */
    words->cdw11 = DATASET_DEALLOCATE;
    return blocks * ns->block_bytes;
}

void nvme_cut_next(const struct nvme_namespace *ns, struct drive_request *request,
                   struct nvme_command *ret_command)
{
    struct drive_cut *cut = &request->cut;
    base_assert(cut->left_bytes > 0);
    *ret_command = (struct nvme_command){.words = {.nsid = ns->nsid}};
    uint64_t bytes;
    if (request->op == DRIVE_FLUSH) {
        ret_command->words.opcode = OPCODE_FLUSH;
        bytes = cut->left_bytes;
    } else if (request->op == DRIVE_DISCARD) {
        bytes = cut_discard(ns, request, ret_command);
    } else {
        bytes = cut_transfer(ns, request, ret_command);
    }
    cut->offset += bytes;
    cut->left_bytes -= bytes;
}
