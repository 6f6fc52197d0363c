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

/* What happens beside round trips. */
enum lab_fabric_beside { LAB_FABRIC_BESIDE_NOTHING, LAB_FABRIC_BESIDE_REGION, LAB_FABRIC_BESIDE_THREAD };

enum { LAB_FABRIC_MADE_MS }; /* bench_sample.values of those */

/* What is posted together, or one after the other. */
enum lab_fabric_way {
    LAB_FABRIC_WRITE_ALONE,
    LAB_FABRIC_FENCED, /* with a CAS that is fenced behind it */
    LAB_FABRIC_WRITE_THEN_CAS,
    LAB_FABRIC_READS_TOGETHER,
    LAB_FABRIC_READS_IN_TURN,
};

enum { LAB_FABRIC_PROCESSOR_US, LAB_FABRIC_ACCOUNT_BYTES, LAB_FABRIC_RESIDENT_BYTES }; /* of meetings */

enum {
    LAB_FABRIC_MAKING_BYTES = 64, /* a message that goes there and back while a region is made */
    LAB_FABRIC_BYTES_MIN = 8,     /* a word */
    LAB_FABRIC_BYTES_MAX = 1 << 20,
    LAB_FABRIC_DEPTH_MAX = 128,
    LAB_FABRIC_PEERS = 8,  /* connections that READs are spread over */
    LAB_FABRIC_READS = 64, /* READs at once */
};

/* What is measured: the argument of all subjects of a case. */
struct lab_fabric_job {
    struct bench *bench;
    struct lab_server *server; /* the process that owns the memory */
    uint64_t region_bytes;
    enum lab_fabric_op op;
    uint32_t bytes;
    uint32_t depth;        /* in flight at once */
    bool cold;             /* anywhere in the region; else the same bytes again and again */
    uint64_t making_bytes; /* size of the region that is made beside round trips */
    enum lab_fabric_beside beside;
};

/** Operations between two looks at the clock: where they take long, and on a busy machine longer still, one. */
uint32_t lab_fabric_batch(const struct lab_fabric_job *job);

/** Start the process that owns the memory, accepts, and sends messages back: job->server, with bench and url. @return 0;
 * negative errno: said in bench->err */
base_must_check int lab_fabric_owner_start(struct lab_fabric_job *job);

/**
 * Connect with that process, and measure.
 *
 * @param bytes           the longest message
 * @param ret_connection  the connection while `measure` runs
 * @return the error of connecting, or of `measure`
 */
base_must_check int lab_fabric_meet(const struct lab_fabric_job *job, struct tarn_fabric *fabric,
                                    uint32_t bytes, struct tarn_fabric_connection **ret_connection,
                                    int (*measure)(void *arg), void *arg);

/* Each measures once, as bench_subject.measure; `arg` is a struct lab_fabric_job. */

/** Tarn: from this process, on the first core. */
int lab_fabric_tarn(void *arg, struct bench_sample *sample);

/** memcpy(), or for CAS the processor's, called by the owner on the same memory, on the first core. */
int lab_fabric_memory(void *arg, struct bench_sample *sample);

/** Round trips of messages through Tarn, with nothing beside them. The owner roams, as with the next two. */
int lab_fabric_alone(void *arg, struct bench_sample *sample);
/** Round trips while a task of the same scheduler makes a region. */
int lab_fabric_beside_region(void *arg, struct bench_sample *sample);
/** Round trips while a plain thread maps as much memory. */
int lab_fabric_beside_thread(void *arg, struct bench_sample *sample);

/* The argument of the next. */
struct lab_fabric_together {
    const struct lab_fabric_job *job;
    enum lab_fabric_way way;
};

/** Operations of 64 bytes that are posted together, or the same one after the other; what is counted is WRITEs or READs. */
int lab_fabric_together(void *arg, struct bench_sample *sample);

/** Connections of Tarn, made and ended one after the other, by two tasks of a scheduler; and what idle ones take. */
int lab_fabric_meetings(void *arg, struct bench_sample *sample);
/** The same with sockets of TCP, by a thread. */
int lab_fabric_bare_meetings(void *arg, struct bench_sample *sample);

/** Two threads, each on its core, and one cache line between them. */
int lab_fabric_line(void *arg, struct bench_sample *sample);

/** Two processes and a TCP socket that both look at again and again. */
int lab_fabric_socket(void *arg, struct bench_sample *sample);

/** The same with the server of echo_epoll.c, a loop around epoll_wait(). LAB_FABRIC_MESSAGE alone. */
int lab_fabric_epoll(void *arg, struct bench_sample *sample);

/** ucx_perftest. */
int lab_fabric_ucx(void *arg, struct bench_sample *sample);
/** fi_pingpong, of libfabric. */
int lab_fabric_libfabric(void *arg, struct bench_sample *sample);
/** iperf3, by one stream. */
int lab_fabric_iperf3(void *arg, struct bench_sample *sample);
/** iperf3, by as many streams as operations are in flight. */
int lab_fabric_iperf3_streams(void *arg, struct bench_sample *sample);

/* What the programs print; ends with a zero byte. */

/** @return operations a second that `ucx_perftest -f -v` tells; 0: it tells none */
double lab_fabric_read_ucx(const char *text);

/** @return microseconds of half a round trip that fi_pingpong tells; 0: it tells none */
double lab_fabric_read_libfabric(const char *text);

/** Of `iperf3 -J`. @return 0; -EBADMSG */
base_must_check int lab_fabric_read_iperf3(const char *text, size_t len, double *ret_bytes,
                                           double *ret_seconds);

#endif
