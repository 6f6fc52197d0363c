/*
 * base: what every layer stands on. Includes all parts of the layer.
 *
 * Rules of the layer:
 *  - Nothing here yields, sleeps or reads a clock; time is passed in, by value or as a clock function.
 *  - There is no global state. Every function works on an object that the caller passes.
 *  - A function is safe for one owner at a time of its object, unless its comment says "Any thread".
 *  - All memory comes through a struct base_account. Objects whose `init` takes an account own what they
 *    took until `deinit`.
 *  - Errors are negative errno values; outputs stay untouched on failure. Misuse that only a bug can cause
 *    ends in base_assert.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include "base/account.h"
#include "base/buffer.h"
#include "base/checksum.h"
#include "base/counter.h"
#include "base/define.h"
#include "base/folder.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/histogram.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/list.h"
#include "base/log.h"
#include "base/name.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/settings.h"
#include "base/spin.h"
#include "base/stages.h"
#include "base/units.h"

#endif
