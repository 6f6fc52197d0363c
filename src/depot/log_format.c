/* Writing and reading the format: whatever comes from the drive is checked before it is believed. */
#include "depot/log_format.h"
#include <errno.h>

/* "TarnStor", "TarnGrp0" */
#define SUPERBLOCK_MAGIC UINT64_C(0x726f74536e726154)
#define GROUP_MAGIC      UINT64_C(0x307072476e726154)

static uint32_t superblock_check(const struct depot_superblock_format *superblock)
{
    struct depot_superblock_format copy = *superblock;
    copy.check = 0;
    return base_crc32c(0, &copy, sizeof(copy));
}

void depot_superblock_seal(struct depot_superblock_format *superblock)
{
    superblock->magic = SUPERBLOCK_MAGIC;
    superblock->version = DEPOT_FORMAT_VERSION;
    superblock->check = superblock_check(superblock);
}

static bool geometry_makes_sense(const struct depot_superblock_format *superblock)
{
    uint64_t block_bytes = superblock->block_bytes;
    return base_is_power_of_two(block_bytes) && block_bytes >= DEPOT_BLOCK_BYTES_MIN &&
           block_bytes <= DEPOT_BLOCK_BYTES_MAX && superblock->group_bytes >= DEPOT_GROUP_BYTES_MIN &&
           superblock->group_bytes <= DEPOT_GROUP_BYTES_MAX &&
           base_is_aligned(superblock->group_bytes, block_bytes) &&
           superblock->store_bytes >= DEPOT_STORE_BYTES_MIN && superblock->store_bytes <= INT64_MAX &&
           base_is_aligned(superblock->store_bytes, block_bytes) &&
           superblock->log_offset >= DEPOT_SUPERBLOCK_COPIES * DEPOT_SUPERBLOCK_BYTES &&
           superblock->log_offset <= DEPOT_BLOCK_BYTES_MAX &&
           base_is_aligned(superblock->log_offset, block_bytes);
}

int depot_superblock_parse(const void *bytes, struct depot_superblock_format *ret_superblock,
                           const char **ret_wrong)
{
    struct depot_superblock_format superblock;
    memcpy(&superblock, bytes, sizeof(superblock));
    const char *wrong = NULL;
    if (superblock.magic != SUPERBLOCK_MAGIC)
        wrong = "it is not a Tarn store";
    else if (superblock.check != superblock_check(&superblock))
        wrong = "its superblock is damaged";
    else if (superblock.version != DEPOT_FORMAT_VERSION || superblock.incompatible != 0 ||
             superblock.read_only_compatible != 0)
        wrong = "another version of Tarn made it, in a format that this one does not know";
    else if (!geometry_makes_sense(&superblock))
        wrong = "its superblock contradicts itself";
    if (wrong != NULL) {
        *ret_wrong = wrong;
        return -EUCLEAN;
    }
    *ret_superblock = superblock;
    return 0;
}

/* What the check of a record covers lies behind it. */
static uint64_t record_check(const void *record, const struct depot_record_format *header,
                             uint64_t check_seed)
{
    size_t bytes = sizeof(*header) + header->key_bytes + (size_t)header->value_bytes;
    return base_hash64((const uint8_t *)record + sizeof(header->check), bytes - sizeof(header->check),
                       check_seed);
}

void depot_record_seal(void *record, uint64_t check_seed)
{
    struct depot_record_format *header = record;
    header->check = record_check(record, header, check_seed);
}

static bool kind_makes_sense(const struct depot_record_format *header)
{
    switch (header->kind) {
    case DEPOT_PUT:
        return header->key_bytes > 0 && header->version == header->stamp && header->stamp > 0;
    case DEPOT_DELETE:
    case DEPOT_TOUCH:
        return header->key_bytes > 0 && header->value_bytes == 0;
    case DEPOT_FLUSH_ALL:
        return header->key_bytes == 0 && header->value_bytes == 0;
    default:
        return false;
    }
}

int depot_record_verify(const void *bytes, uint64_t room, uint64_t check_seed,
                        struct depot_record_format *ret_record)
{
    struct depot_record_format header;
    if (room < sizeof(header))
        return -EBADMSG;
    memcpy(&header, bytes, sizeof(header));
    if (header.value_bytes > DEPOT_GROUP_BYTES_MAX ||
        depot_record_bytes(header.key_bytes, header.value_bytes) > room || !kind_makes_sense(&header) ||
        header.check != record_check(bytes, &header, check_seed))
        return -EBADMSG;
    *ret_record = header;
    return 0;
}

static uint64_t add_record_check(uint64_t records_check, uint64_t check)
{
    return base_hash64(&check, sizeof(check), records_check);
}

static uint64_t group_check(const struct depot_group_format *header, uint64_t check_seed)
{
    return base_hash64((const uint8_t *)header + sizeof(header->check),
                       sizeof(*header) - sizeof(header->check), check_seed);
}

void depot_group_seal(void *group, struct depot_group_format *header, uint64_t check_seed)
{
    uint8_t *bytes = group;
    uint32_t offset = sizeof(*header);
    header->records_check = check_seed;
    for (uint32_t i = 0; i < header->records; i++) {
        const struct depot_record_format *record = (const void *)(bytes + offset);
        header->records_check = add_record_check(header->records_check, record->check);
        offset += depot_record_bytes(record->key_bytes, record->value_bytes);
    }
    base_assert(offset == header->bytes);
    header->magic = GROUP_MAGIC;
    header->check = group_check(header, check_seed);
    memcpy(group, header, sizeof(*header));
}

int depot_group_parse(const void *bytes, uint64_t check_seed, uint32_t group_bytes,
                      struct depot_group_format *ret_header)
{
    struct depot_group_format header;
    memcpy(&header, bytes, sizeof(header));
    if (header.magic != GROUP_MAGIC || header.check != group_check(&header, check_seed) ||
        header.bytes < sizeof(header) || header.bytes > group_bytes || header.flushed >= header.number)
        return -EBADMSG;
    *ret_header = header;
    return 0;
}

int depot_group_verify(const void *group, const struct depot_group_format *header, uint64_t check_seed)
{
    const uint8_t *bytes = group;
    uint64_t records_check = check_seed;
    uint32_t offset = sizeof(*header);
    for (uint32_t i = 0; i < header->records; i++) {
        struct depot_record_format record;
        int error = depot_record_verify(bytes + offset, header->bytes - offset, check_seed, &record);
        if (error != 0)
            return error;
        records_check = add_record_check(records_check, record.check);
        offset += depot_record_bytes(record.key_bytes, record.value_bytes);
    }
    return offset == header->bytes && records_check == header->records_check ? 0 : -EBADMSG;
}
