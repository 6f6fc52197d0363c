/* fio, the usual measure of drives, run beside Tarn's with the same job. */
#ifndef LAB_FIO_H
#define LAB_FIO_H

#include "base/json_read.h"
#include "lab/drive_load.h"

/**
 * Measure fio once: as bench_subject.measure; `arg` is the struct lab_drive_job that Tarn was just measured
 * with. It runs as a child on the same core, with its engine of the same kind. Skipped if it is not
 * installed, or Tarn could not open the file.
 */
int lab_fio_measure(void *arg, struct bench_sample *sample);

/** Check that measurements are long enough for fio, which counts milliseconds. @return 0; -EINVAL: said in bench->err */
base_must_check int lab_fio_check(struct bench *bench, bool is_wanted, uint64_t duration_ns);

/** Its engine for a provider: "io_uring", "libaio" or "psync". */
const char *lab_fio_engine(enum drive_provider_choice provider);

/**
 * Take rate, latencies and, as the first value, the job's processor time for a request, ns, from what fio
 * prints with --output-format=json+.
 *
 * @param text, len  all of its output; lines before the JSON are passed over
 * @param writes     whether the job wrote
 * @return 0; -EBADMSG (no such output, or the job failed)
 */
base_must_check int lab_fio_read(const char *text, size_t len, bool writes, struct bench_sample *sample);

#endif
