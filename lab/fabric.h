/* `tarn-lab fabric`: what its subjects share. */
#ifndef LAB_FABRIC_H
#define LAB_FABRIC_H

#include "bench/case.h"
#include "lab/server.h"

enum lab_fabric_op {
    LAB_FABRIC_READ,
    LAB_FABRIC_WRITE,
    LAB_FABRIC_CAS,
    LAB_FABRIC_MESSAGE, /* a message there, and one back */
};

/** A word of 8 bytes at least, 1 MiB at most. */
#define LAB_FABRIC_BYTES_MIN 8
#define LAB_FABRIC_BYTES_MAX (1U << 20)

#define LAB_FABRIC_DEPTH_MAX 128

/* The process that owns the memory: it accepts, and sends messages back. */
struct lab_fabric_owner {
    struct lab_server server;
    uint64_t region_bytes;
};

/* What is measured: the argument of all subjects of a case. */
struct lab_fabric_job {
    struct bench *bench;
    struct lab_fabric_owner *owner;
    enum lab_fabric_op op;
    uint32_t bytes;
    uint32_t depth; /* in flight at once */
    bool cold;      /* anywhere in the region; else the same bytes again and again */
};

/* Where operation after operation goes; the same for all who are compared. */
struct lab_fabric_places {
    uint64_t state;
    uint64_t count; /* of places; 1: always the first */
    uint64_t stride_bytes;
};

/** Begin with the first place, which the seed draws. */
static inline void lab_fabric_places_init(struct lab_fabric_places *places, const struct lab_fabric_job *job)
{
    places->state = job->bench->options.seed;
    places->stride_bytes = base_align_up((uint64_t)job->bytes, (uint64_t)BASE_CACHE_LINE_BYTES);
    places->count = job->cold ? job->owner->region_bytes / places->stride_bytes : 1;
}

/** The next place. @return its offset in the region */
static inline uint64_t lab_fabric_places_next(struct lab_fabric_places *places)
{
    places->state = places->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((places->state >> 32) * places->count >> 32) * places->stride_bytes;
}

/** Operations between two looks at the clock: where they take long, and on a busy machine longer still, one. */
static inline uint32_t lab_fabric_batch(const struct lab_fabric_job *job)
{
    if (job->bytes >= 65536 || strncmp(job->owner->server.url, "shm", 3) != 0)
        return 1;
    return job->op == LAB_FABRIC_MESSAGE ? 8 : 64;
}

/** Start the owner of a provider's memory. @return 0; negative errno: said in bench->err */
base_must_check int lab_fabric_owner_start(struct lab_fabric_owner *owner, struct bench *bench,
                                           const char *url, uint64_t region_bytes);

/** End it. @return 0; -ECHILD */
int lab_fabric_owner_stop(struct lab_fabric_owner *owner);

/* Each measures once, as bench_subject.measure; `arg` is a struct lab_fabric_job. */

/** Tarn: from this process, on the first core. */
int lab_fabric_tarn(void *arg, struct bench_sample *sample);

/** memcpy(), or for CAS the processor's, called by the owner on the same memory, on the first core. */
int lab_fabric_memory(void *arg, struct bench_sample *sample);

/** Two threads, each on its core, and one cache line between them. */
int lab_fabric_line(void *arg, struct bench_sample *sample);

/** Two processes and a TCP socket that both look at again and again. */
int lab_fabric_socket(void *arg, struct bench_sample *sample);

/** ucx_perftest. */
int lab_fabric_ucx(void *arg, struct bench_sample *sample);

/** fi_pingpong, of libfabric. */
int lab_fabric_libfabric(void *arg, struct bench_sample *sample);

/** iperf3. */
int lab_fabric_iperf3(void *arg, struct bench_sample *sample);

/* What the programs print; ends with a zero byte. */

/** @return operations a second that `ucx_perftest -f -v` tells; 0: it tells none */
double lab_fabric_read_ucx(const char *text);

/** @return microseconds of half a round trip that fi_pingpong tells; 0: it tells none */
double lab_fabric_read_libfabric(const char *text);

/** Of `iperf3 -J`. @return 0; -EBADMSG */
base_must_check int lab_fabric_read_iperf3(const char *text, size_t len, double *ret_bytes,
                                           double *ret_seconds);

#endif
