/*
 * The answers of NVMe devices to identify, and the meaning of their statuses. Every field is checked: a device may
 * be broken, or a program that plays one. Sources: NVM Express Base Specification 2.0 (identify controller,
 * status values) and NVM Command Set Specification 1.0 (identify namespace, limits of the commands); their
 * names of fields are in capitals.
 */
#include "drive/nvme/nvme.h"
#include <errno.h>
#include <string.h>

/* Offsets in the data structures of identify. */
enum {
    /* of a controller */
    AT_FIRMWARE = 64,
    AT_MODEL = 24,
    AT_TRANSFER_MAX = 77, /* MDTS: a power of two of the smallest page, 0: no limit */
    AT_COMMANDS = 520,    /* ONCS, 16 bits */
    AT_WRITE_CACHE = 525, /* VWC */
    /* of its limits */
    AT_DISCARD_RANGE_MAX = 4, /* DMRSL, 32 bits: blocks, 0: no limit */
    AT_DISCARD_TOTAL_MAX = 8, /* DMSL, 64 bits: blocks of all ranges together, 0: no limit */
    /* of a namespace */
    AT_BLOCKS = 0,       /* NSZE, 64 bits */
    AT_FEATURES = 24,    /* NSFEAT */
    AT_FORMATS = 25,     /* NLBAF: number of formats, less one */
    AT_FORMAT = 26,      /* FLBAS */
    AT_PROTECTION = 29,  /* DPS */
    AT_WRITE_GRAIN = 64, /* NPWG, 16 bits: blocks, less one */
    AT_FORMAT_TABLE = 128,
    FORMAT_BYTES =
        4, /* size of a format's entry: metadata bytes (16 bits), exponent of the block, performance */
};

#define COMMANDS_DATASET      (1U << 2) /* dataset management */
#define WRITE_CACHE_PRESENT   (1U << 0)
#define FEATURES_WRITE_GRAIN  (1U << 4) /* AT_WRITE_GRAIN is valid */
#define PROTECTION_TYPE       7U
#define FORMATS_MAX           64
#define FORMATS_IN_FOUR_BITS  16
#define BLOCK_SHIFT_MIN       9
#define BLOCK_SHIFT_MAX       16
#define TRANSFER_EXPONENT_MAX 20 /* 4 GiB: a larger limit is as good as none */
#define DISCARD_BLOCKS_MAX    UINT32_MAX

/* Copy a device's text, cut at a NUL and without spaces at its end. */
static void take_text(char *ret_text, const uint8_t *from, size_t bytes)
{
    size_t length = strnlen((const char *)from, bytes);
    while (length > 0 && from[length - 1] == ' ')
        length--;
    memcpy(ret_text, from, length);
    ret_text[length] = '\0';
}

void nvme_parse_controller(struct nvme_namespace *ns, const uint8_t data[NVME_IDENTIFY_BYTES])
{
    uint8_t exponent = data[AT_TRANSFER_MAX];
    /* This structure does not say the smallest page of the controller; it is 4 KiB or more. */
    ns->transfer_bytes_max = exponent == 0 || exponent > TRANSFER_EXPONENT_MAX
                                 ? UINT64_MAX
                                 : (uint64_t)BASE_PAGE_BYTES << exponent;
    bool dataset = (base_load_le16(data + AT_COMMANDS) & COMMANDS_DATASET) != 0;
    ns->discard_blocks_max = dataset ? DISCARD_BLOCKS_MAX : 0;
    ns->write_cache = (data[AT_WRITE_CACHE] & WRITE_CACHE_PRESENT) != 0;
    take_text(ns->model, data + AT_MODEL, NVME_MODEL_BYTES);
    take_text(ns->firmware, data + AT_FIRMWARE, NVME_FIRMWARE_BYTES);
}

void nvme_parse_limits(struct nvme_namespace *ns, const uint8_t data[NVME_IDENTIFY_BYTES])
{
    uint64_t range = base_load_le32(data + AT_DISCARD_RANGE_MAX);
    uint64_t total = base_load_le64(data + AT_DISCARD_TOTAL_MAX);
    if (range > 0)
        ns->discard_blocks_max = base_min(ns->discard_blocks_max, range);
    if (total > 0)
        ns->discard_blocks_max = base_min(ns->discard_blocks_max, total);
}

const char *nvme_parse_namespace(struct nvme_namespace *ns, const uint8_t data[NVME_IDENTIFY_BYTES])
{
    uint64_t blocks = base_load_le64(data + AT_BLOCKS);
    if (blocks == 0)
        return "the namespace is empty or not attached to this controller (nvme attach-ns)";
    uint32_t formats = base_min(data[AT_FORMATS] + 1U, (uint32_t)FORMATS_MAX);
    uint32_t format = data[AT_FORMAT] & 15U;
    if (formats > FORMATS_IN_FOUR_BITS)
        format |= (data[AT_FORMAT] >> 5 & 3U) << 4;
    if (format >= formats)
        return "the device contradicts itself: the format in use is none that it has";
    const uint8_t *entry = data + AT_FORMAT_TABLE + (size_t)format * FORMAT_BYTES;
    if (base_load_le16(entry) != 0 || (data[AT_PROTECTION] & PROTECTION_TYPE) != 0)
        return "its format has metadata beside each block, which is not supported: format it without (nvme "
               "format --lbaf), or name the block device";
    uint32_t shift = entry[2];
    if (shift < BLOCK_SHIFT_MIN || shift > BLOCK_SHIFT_MAX)
        return "its blocks are not powers of two from 512 to 64 KiB: format it otherwise (nvme format "
               "--lbaf)";
    if (blocks > (uint64_t)INT64_MAX >> shift)
        return "the device says that it is larger than any can be";
    ns->block_bytes = 1U << shift;
    ns->block_count = blocks;
    uint32_t grain = (base_load_le16(data + AT_WRITE_GRAIN) + 1U) * ns->block_bytes;
    bool told = (data[AT_FEATURES] & FEATURES_WRITE_GRAIN) != 0;
    ns->write_bytes =
        told && base_is_power_of_two(grain) && grain <= 1U << BLOCK_SHIFT_MAX ? grain : ns->block_bytes;
    return NULL;
}

/* ---- statuses ------------------------------------------------------------------------------------ */

#define STATUS(type, code)      ((type) << 8 | (code))
#define STATUS_OF(outcome)      ((unsigned)(outcome)&0x7ff)
#define STATUS_COMMAND_UNKNOWN  STATUS(0U, 0x01U)
#define STATUS_INTERRUPTED      STATUS(0U, 0x21U)
#define STATUS_WRITE_PROTECTED  STATUS(0U, 0x20U)
#define STATUS_OUT_OF_RANGE     STATUS(0U, 0x80U)
#define STATUS_FULL             STATUS(0U, 0x81U)
#define STATUS_NOT_READY        STATUS(0U, 0x82U)
#define STATUS_WRITE_FAULT      STATUS(2U, 0x80U)
#define STATUS_UNRECOVERED_READ STATUS(2U, 0x81U)
#define STATUS_ACCESS_DENIED    STATUS(2U, 0x86U)
#define STATUS_DEALLOCATED      STATUS(2U, 0x87U)
#define STATUS_TYPE_PATH        3U
#define STATUS_TYPE_VENDOR      7U

int32_t nvme_error(int outcome)
{
    if (outcome == 0)
        return 0;
    if (outcome < 0)
        return -EIO;
    switch (STATUS_OF(outcome)) {
    case STATUS_FULL:
        return -ENOSPC;
    case STATUS_COMMAND_UNKNOWN:
        return -EOPNOTSUPP;
    case STATUS_WRITE_PROTECTED:
    case STATUS_ACCESS_DENIED:
        return -EACCES;
    default:
        return -EIO;
    }
}

const char *nvme_outcome_text(int outcome)
{
    if (outcome == -EINTR)
        return "the controller was reset while it had the command";
    if (outcome < 0) {
        const char *text = strerrordesc_np(-outcome);
        return text == NULL ? "the kernel refused the command" : text;
    }
    switch (STATUS_OF(outcome)) {
    case 0:
        return "success";
    case STATUS_COMMAND_UNKNOWN:
        return "the device does not know the command";
    case STATUS_INTERRUPTED:
        return "the command was interrupted";
    case STATUS_WRITE_PROTECTED:
        return "the namespace is write protected";
    case STATUS_OUT_OF_RANGE:
        return "beyond the end of the namespace";
    case STATUS_FULL:
        return "the namespace's capacity is exceeded";
    case STATUS_NOT_READY:
        return "the namespace is not ready";
    case STATUS_WRITE_FAULT:
        return "write fault";
    case STATUS_UNRECOVERED_READ:
        return "unrecovered read error";
    case STATUS_ACCESS_DENIED:
        return "access denied: the namespace is locked";
    case STATUS_DEALLOCATED:
        return "the block is deallocated or was never written";
    default:
        break;
    }
    switch (NVME_STATUS_TYPE(outcome)) {
    case STATUS_TYPE_PATH:
        return "the path to the namespace failed";
    case STATUS_TYPE_VENDOR:
        return "the vendor's own status";
    default:
        return "the device failed the command";
    }
}
