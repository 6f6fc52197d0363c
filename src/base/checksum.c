/* Checksums by ISA-L: CRC-64, and CRC-32C where the data is long; checksum.h has the short one. */
#include "base/checksum.h"

#include <isa-l/crc.h>
#include <isa-l/crc64.h>

#include "base/define.h"

/* crc32_iscsi takes its length as an int. */
#define PIECE_BYTES ((size_t)1 << 30)

uint32_t base_crc32c_long(uint32_t crc, const void *data, size_t len)
{
    /* ISA-L only reads, but its parameter lacks the const. */
    unsigned char *bytes = (unsigned char *)(uintptr_t)data;
    crc = ~crc;
    while (len > 0) {
        size_t piece = base_min(len, PIECE_BYTES);
        crc = crc32_iscsi(bytes, (int)piece, crc);
        bytes += piece;
        len -= piece;
    }
    return ~crc;
}

uint64_t base_crc64(uint64_t crc, const void *data, size_t len)
{
    return len == 0 ? crc : crc64_ecma_refl(crc, data, len);
}
