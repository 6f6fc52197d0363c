/*
 * A contest: servers that speak memcached's or redis' protocol are filled and loaded in turn, by every pattern and
 * distribution that the options ask for, in a closed loop and then in an open one.
 *
 * Threading: as bench.h.
 */
#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H

#include "bench/case.h"
#include "bench/load.h"

enum { BENCH_CONTESTANTS_MAX = 3 };

/* How servers are loaded: a member `load` of a verb's options. */
struct bench_contest_options {
    uint64_t connections;
    struct base_setting_list pipelines;
    struct base_setting_list sizes; /* of values */
    const char *read_share;
    uint64_t keys;
    struct base_setting_list distributions;
    const char *zipf_exponent;
    bool open_loop;
    uint64_t
        rate; /* of the open loop, requests a second; 0: half of what the slowest did in the closed one */
};

extern const char *const bench_protocols[]; /* as enum bench_protocol */

/* The settings of these options; `options_type` has a member `load`. */
#define BENCH_CONTEST_SETTINGS(options_type)                                                                 \
    BENCH_SETTING(options_type, UINT, "connections", load.connections, "Connections to a server.", .min = 1, \
                  .max = BENCH_LOAD_CONNECTIONS_MAX, .default_text = "50"),                                  \
        BENCH_SETTING(options_type, LIST, "pipeline", load.pipelines,                                        \
                      "Most requests in flight on each connection; with xM each get asks for M keys "        \
                      "(multi-get).",                                                                        \
                      .metavar = "N[xM][,...]", .min = 1, .default_text = "1,16,1x50"),                      \
        BENCH_SETTING(options_type, LIST, "sizes", load.sizes, "Lengths of values.",                         \
                      .metavar = "SIZE[,...]", .min = 1, .default_text = "1K"),                              \
        BENCH_SETTING(options_type, STRING, "read-share", load.read_share,                                   \
                      "Share of gets in the requests; the others are sets.", .metavar = "0...1",             \
                      .default_text = "0.9"),                                                                \
        BENCH_SETTING(options_type, UINT, "keys", load.keys, "Different keys. All are stored first.",        \
                      .min = 1, .max = UINT64_C(1) << 32, .default_text = "1000000"),                        \
        BENCH_SETTING(options_type, LIST, "distribution", load.distributions,                                \
                      "How keys are drawn: uniform, zipf.", .metavar = "NAME[,...]", .min = 1,               \
                      .default_text = "uniform"),                                                            \
        BENCH_SETTING(                                                                                       \
            options_type, STRING, "zipf-exponent", load.zipf_exponent,                                       \
            "Of zipf: the key of rank k is drawn with a probability like 1 / k^exponent. Below 1.",          \
            .metavar = "0...1", .default_text = "0.99"),                                                     \
        BENCH_SETTING(options_type, BOOL, "open-loop", load.open_loop,                                       \
                      "Measure an open loop after each closed one, for latencies at an equal rate.",         \
                      .default_text = "yes"),                                                                \
        BENCH_SETTING(                                                                                       \
            options_type, UINT, "rate", load.rate,                                                           \
            "Rate of the open loop, without a closed one before it; 0: half of the slowest in that.",        \
            .unit = "requests a second", .default_text = "0")

/** Check what is no matter of a setting's type alone. @return 0; -EINVAL: said in bench->err */
base_must_check int bench_contest_check(struct bench *bench, const struct bench_contest_options *options);

/** Check a share. @param below_one  it is above 0 and below 1 @return 0; -EINVAL: said in bench->err */
base_must_check int bench_contest_check_share(struct bench *bench, const char *setting, const char *text,
                                              bool below_one);

/** Check that every word of --read-share is a share. @return 0; -EINVAL: said in bench->err */
base_must_check int bench_contest_check_shares(struct bench *bench, const struct base_setting_list *shares);

/* How requests are sent: an item of --pipeline. */
struct bench_contest_pattern {
    uint32_t pipeline;
    uint32_t keys_per_get;
};

/** Read "16" or "1x50". @return 0; -EINVAL */
base_must_check int bench_contest_read_pattern(const char *text, struct bench_contest_pattern *ret_pattern);

/** Check that every word of --pipeline is one. @param pipeline_max, keys_max  the most @return 0; -EINVAL: said in bench->err */
base_must_check int bench_contest_check_patterns(struct bench *bench,
                                                 const struct base_setting_list *patterns,
                                                 uint32_t pipeline_max, uint32_t keys_max);

/** Read a number from 0 to 1, as "0.9". @return 0; -EINVAL */
base_must_check int bench_contest_read_share(const char *text, double *ret_share);

/* What all contestants have in common. */
struct bench_contest {
    struct bench *bench;
    const struct bench_contest_options *options;
    const char *read_share;                    /* options->read_share, or another one */
    const char *value_names[BENCH_VALUES_MAX]; /* of samples; NULL behind the last */

    /** Add the first parameters of a case: where it is measured. */
    void (*add_parameters)(const struct bench_contest *contest, struct bench_case *self);

    /** Get ready for a pattern; NULL: nothing to do. @return 0; negative errno: said */
    int (*prepare)(struct bench_contest *contest);

    struct {
        const char *name;
        bool serves; /* else it is measured in the closed loop alone */
        int (*measure)(void *arg, struct bench_sample *sample); /* as bench_subject.measure */
        void *arg;
    } contestants[BENCH_CONTESTANTS_MAX];
    size_t count;
    struct bench_values values;

    /* the case under way */
    struct bench_keys keys;
    struct bench_contest_pattern pattern;
    double share;      /* of gets */
    uint64_t rate;     /* 0: closed loop */
    uint64_t measured; /* times so far, so that each has other random numbers */
};

/**
 * Begin with values of one length, and with the pattern that asks for most keys at once.
 *
 * @param contest  bench, options and read_share are set, the rest is 0
 * @return 0; -ENOMEM: said. bench_contest_deinit()
 */
base_must_check int bench_contest_init(struct bench_contest *contest, const char *size);

/** Free the values. */
void bench_contest_deinit(struct bench_contest *contest);

/** The load of the case under way, without a server: the caller adds name, address and protocol. */
struct bench_load bench_contest_load(struct bench_contest *contest);

/** Store all keys in the server of a load. @return 0; negative errno: said */
base_must_check int bench_contest_fill(struct bench_contest *contest, struct bench_load load);

/** Measure and write all cases. @return 0; negative errno: said */
base_must_check int bench_contest_run(struct bench_contest *contest);

#endif
