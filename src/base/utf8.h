/* Which bytes are UTF-8. Shared by what writes text for others: log and json. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/define.h"

/**
 * Length of the character at the start of some bytes. Overlong forms, surrogates and what is above U+10FFFF
 * are no characters.
 *
 * @param text, len  len is at least 1
 * @return 1 to 4; 0 if the bytes begin with no whole character
 */
size_t base_utf8_char_bytes(const uint8_t *text, size_t len);

#endif
