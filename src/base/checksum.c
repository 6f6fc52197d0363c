#include "base/checksum.h"

#include <isa-l/crc.h>
#include <isa-l/crc64.h>

#include "base/define.h"

/* crc32_iscsi takes its length as an int. */
#define PIECE_BYTES ((size_t)1 << 30)

#if defined(__x86_64__)
#define SHORT_BYTES 256 /* up to here the processor's instruction, word by word, beats ISA-L */

static bool has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2") != 0;
}

/* Inverted neither in nor out. */
static __attribute__((target("sse4.2"))) uint32_t crc32c_short(uint32_t crc, const uint8_t *data, size_t len)
{
    uint64_t words = crc;
    size_t i = 0;
    for (; i + 8 <= len; i += 8)
        words = __builtin_ia32_crc32di(words, base_load_le64(data + i));
    crc = (uint32_t)words;
    for (; i + 4 <= len; i += 4)
        crc = __builtin_ia32_crc32si(crc, base_load_le32(data + i));
    for (; i < len; i++)
        crc = __builtin_ia32_crc32qi(crc, data[i]);
    return crc;
}
#else
#define SHORT_BYTES 0

static bool has_instruction(void)
{
    return false;
}

static uint32_t crc32c_short(uint32_t crc, const uint8_t *data, size_t len)
{
    (void)data;
    (void)len;
    return crc;
}
#endif

uint32_t base_crc32c(uint32_t crc, const void *data, size_t len)
{
    if (len <= SHORT_BYTES && has_instruction())
        return ~crc32c_short(~crc, data, len);
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
