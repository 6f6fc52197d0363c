/* Sizes, durations and numbers as text, in both directions. */
#include "base/units.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>

struct unit {
    const char *name;
    uint64_t factor;
};

#define KI                 UINT64_C(1024)
#define KB                 UINT64_C(1000)
#define BASE_NS_PER_MINUTE (60 * BASE_NS_PER_SECOND)
#define BASE_NS_PER_HOUR   (60 * BASE_NS_PER_MINUTE)
#define BASE_NS_PER_DAY    (24 * BASE_NS_PER_HOUR)

static const struct unit size_units[] = {
    {"", 1},
    {"B", 1},
    {"K", KI},
    {"M", KI *KI},
    {"G", KI *KI *KI},
    {"T", KI *KI *KI *KI},
    {"P", KI *KI *KI *KI *KI},
    {"KiB", KI},
    {"MiB", KI *KI},
    {"GiB", KI *KI *KI},
    {"TiB", KI *KI *KI *KI},
    {"PiB", KI *KI *KI *KI *KI},
    {"KB", KB},
    {"MB", KB *KB},
    {"GB", KB *KB *KB},
    {"TB", KB *KB *KB *KB},
    {"PB", KB *KB *KB *KB *KB},
};

static const struct unit duration_units[] = {
    {"ns", 1},
    {"us", BASE_NS_PER_US},
    {"ms", BASE_NS_PER_MS},
    {"s", BASE_NS_PER_SECOND},
    {"m", BASE_NS_PER_MINUTE},
    {"h", BASE_NS_PER_HOUR},
    {"d", BASE_NS_PER_DAY},
};

/* The digits at the start of a text: how many, and their value. */
static int parse_digits(const char *text, size_t len, size_t *ret_digits, uint64_t *ret_value)
{
    uint64_t value = 0;
    size_t i = 0;
    bool overflow = false;
    for (; i < len && text[i] >= '0' && text[i] <= '9'; i++) {
        overflow |= __builtin_mul_overflow(value, UINT64_C(10), &value);
        overflow |= __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value);
    }
    if (i == 0)
        return -EINVAL;
    *ret_digits = i;
    *ret_value = value;
    return overflow ? -ERANGE : 0;
}

int base_parse_u64_len(const char *text, size_t len, uint64_t *ret_value)
{
    size_t digits = 0;
    uint64_t value = 0;
    int error = parse_digits(text, len, &digits, &value);
    if (error == -EINVAL || digits != len)
        return -EINVAL;
    if (error == 0)
        *ret_value = value;
    return error;
}

int base_parse_u64(const char *text, uint64_t *ret_value)
{
    return base_parse_u64_len(text, strlen(text), ret_value);
}

static int parse_with_unit(const char *text, const struct unit *units, size_t units_count, bool any_case,
                           uint64_t *ret_value)
{
    size_t digits = 0;
    uint64_t number = 0;
    int error = parse_digits(text, strlen(text), &digits, &number);
    if (error == -EINVAL)
        return error;
    for (size_t i = 0; i < units_count; i++) {
        const char *name = units[i].name;
        if ((any_case ? strcasecmp(text + digits, name) : strcmp(text + digits, name)) != 0)
            continue;
        if (error != 0 || __builtin_mul_overflow(number, units[i].factor, &number))
            return -ERANGE;
        *ret_value = number;
        return 0;
    }
    return -EINVAL;
}

int base_parse_size(const char *text, uint64_t *ret_bytes)
{
    return parse_with_unit(text, size_units, base_array_count(size_units), true, ret_bytes);
}

int base_parse_duration(const char *text, uint64_t *ret_ns)
{
    if (strcmp(text, "0") == 0) {
        *ret_ns = 0;
        return 0;
    }
    return parse_with_unit(text, duration_units, base_array_count(duration_units), false, ret_ns);
}

/* Three significant digits at least: 1.50, 15.0, 150, 1500. */
static int decimals_of(double value)
{
    return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

const char *base_format_size(char *buffer, size_t room, uint64_t bytes)
{
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    if (bytes < KI) {
        snprintf(buffer, room, "%llu B", (unsigned long long)bytes);
        return buffer;
    }
    double value = (double)bytes / (double)KI;
    size_t unit = 0;
    /* 1023.5 would be printed as 1024 of the smaller unit. */
    for (; value >= 1023.5 && unit + 1 < base_array_count(names); unit++)
        value /= (double)KI;
    snprintf(buffer, room, "%.*f %s", decimals_of(value), value, names[unit]);
    return buffer;
}

const char *base_format_size_exact(char *buffer, size_t room, uint64_t bytes)
{
    static const char letters[] = "BKMGTP";
    size_t unit = 0;
    for (; bytes != 0 && bytes % KI == 0 && letters[unit + 1] != '\0'; unit++)
        bytes /= KI;
    snprintf(buffer, room, "%llu%c", (unsigned long long)bytes, letters[unit]);
    return buffer;
}

const char *base_format_duration(char *buffer, size_t room, uint64_t ns)
{
    unsigned long long count = ns / BASE_NS_PER_SECOND;
    if (ns < BASE_NS_PER_US) {
        snprintf(buffer, room, "%llu ns", (unsigned long long)ns);
    } else if (ns < BASE_NS_PER_MINUTE) {
        double value = (double)ns / 1e3;
        const char *name = "us";
        if (value >= 999.5) {
            value /= 1e3;
            name = "ms";
        }
        if (value >= 999.5) {
            value /= 1e3;
            name = "s";
        }
        snprintf(buffer, room, "%.*f %s", decimals_of(value), value, name);
    } else if (ns < BASE_NS_PER_HOUR) {
        snprintf(buffer, room, "%llum%02llus", count / 60, count % 60);
    } else if (ns < BASE_NS_PER_DAY) {
        snprintf(buffer, room, "%lluh%02llum", count / 3600, count / 60 % 60);
    } else {
        snprintf(buffer, room, "%llud%02lluh", count / 86400, count / 3600 % 24);
    }
    return buffer;
}

const char *base_format_duration_exact(char *buffer, size_t room, uint64_t ns)
{
    size_t unit = base_array_count(duration_units) - 1;
    while (ns % duration_units[unit].factor != 0)
        unit--;
    if (ns == 0)
        unit = 3;
    snprintf(buffer, room, "%llu%s", (unsigned long long)(ns / duration_units[unit].factor),
             duration_units[unit].name);
    return buffer;
}
