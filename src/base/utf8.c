/* The length of one UTF-8 character. */
#include "base/utf8.h"

size_t base_utf8_char_bytes(const uint8_t *text, size_t len)
{
    uint8_t first = text[0];
    if (first < 0x80)
        return 1;
    size_t bytes = first >= 0xc2 && first < 0xe0   ? 2
                   : first >= 0xe0 && first < 0xf0 ? 3
                   : first < 0xf5                  ? 4
                                                   : 0;
    if (first < 0xc2 || bytes == 0 || bytes > len)
        return 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    uint8_t second = text[1];
    bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
    bool surrogate = first == 0xed && second >= 0xa0;
    bool too_large = first == 0xf4 && second >= 0x90;
    return overlong || surrogate || too_large ? 0 : bytes;
}
