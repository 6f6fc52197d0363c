/* What every provider must do with single words: CAS and FAA, the owner's and the peers', and words that are whole. */
#ifndef FABRIC_WORDS_TESTING_H
#define FABRIC_WORDS_TESTING_H

#include "fabric/testing.h"

/* fabric_words: all of it. */
extern const struct testing_suite fabric_words;

#endif
