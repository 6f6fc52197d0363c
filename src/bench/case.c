/* A case: its subjects measured in turn, as often as the options say; its outcome, for programs and for people. */
#include "bench/case.h"

#include "bench/commit.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>
#include <tarn/tarn.h>

int bench_case_open(struct bench *bench, const char *name, const char *unit, struct bench_case **ret_case)
{
    struct bench_case *self = base_alloc(bench->account, sizeof(*self));
    if (self == NULL)
        return -ENOMEM;
    self->bench = bench;
    self->name = name;
    self->unit = unit;
    self->repeats = bench->options.repeats;
    *ret_case = self;
    return 0;
}

void bench_case_close(struct bench_case *self)
{
    base_free(self->bench->account, self, sizeof(*self));
}

static struct bench_parameter *add_parameter(struct bench_case *self, const char *name)
{
    base_assert(self->parameter_count < BENCH_PARAMETERS_MAX);
    struct bench_parameter *parameter = &self->parameters[self->parameter_count++];
    parameter->name = name;
    return parameter;
}

void bench_case_text(struct bench_case *self, const char *name, const char *text)
{
    add_parameter(self, name)->text = text;
}

void bench_case_number(struct bench_case *self, const char *name, uint64_t number)
{
    add_parameter(self, name)->number = number;
}

void bench_case_value(struct bench_case *self, const char *name)
{
    base_assert(self->value_count < BENCH_VALUES_MAX);
    self->value_names[self->value_count++] = name;
}

void bench_case_subject(struct bench_case *self, const char *name,
                        int (*measure)(void *arg, struct bench_sample *sample), void *arg)
{
    base_assert(self->subject_count < BENCH_SUBJECTS_MAX);
    struct bench_subject *subject = &self->subjects[self->subject_count++];
    subject->name = name;
    subject->measure = measure;
    subject->arg = arg;
    base_histogram_reset(&subject->latency);
}

void bench_case_skip(struct bench_case *self, const char *reason)
{
    self->subjects[self->subject_count - 1].skipped = reason;
}

/* ---- JSON -------------------------------------------------------------------------------------- */

/* @param samples  of which it is the summary, `count` of them; NULL: they are not written */
static void write_summary(struct base_json *json, const char *key, struct bench_summary summary,
                          const double *samples, size_t count)
{
    base_json_object_begin(json, key);
    base_json_double(json, "median", summary.median);
    base_json_double(json, "min", summary.min);
    base_json_double(json, "max", summary.max);
    if (samples != NULL) {
        base_json_array_begin(json, "samples");
        for (size_t i = 0; i < count; i++)
            base_json_double(json, NULL, samples[i]);
        base_json_array_end(json);
    }
    base_json_object_end(json);
}

static void write_subject(struct base_json *json, const struct bench_case *self,
                          const struct bench_subject *subject)
{
    base_json_object_begin(json, NULL);
    base_json_string(json, "name", subject->name);
    if (subject->skipped != NULL) {
        base_json_string(json, "skipped", subject->skipped);
        base_json_object_end(json);
        return;
    }
    const size_t count = self->repeats;
    struct bench_summary rate = bench_summarize(subject->rates, count);
    struct bench_summary ratio = bench_summarize_ratios(self->subjects[0].rates, subject->rates, count);
    if (rate.max > 0)
        write_summary(json, "rate", rate, subject->rates, count);
    if (subject != &self->subjects[0] && ratio.median > 0)
        write_summary(json, "ratio", ratio, NULL, 0);
    if (base_histogram_count(&subject->latency) > 0)
        base_histogram_write_json(&subject->latency, json, "latency_ns");
    if (self->value_count > 0) {
        base_json_object_begin(json, "values");
        for (size_t i = 0; i < self->value_count; i++)
            write_summary(json, self->value_names[i], bench_summarize(subject->values[i], count),
                          subject->values[i], count);
        base_json_object_end(json);
    }
    base_json_object_end(json);
}

void bench_case_write_parameters(const struct bench_case *self, struct base_json *json, const char *of)
{
    base_json_object_begin(json, "parameters");
    if (of != NULL)
        base_json_string(json, "of", of);
    for (size_t i = 0; i < self->parameter_count; i++) {
        const struct bench_parameter *parameter = &self->parameters[i];
        if (parameter->text != NULL)
            base_json_string(json, parameter->name, parameter->text);
        else
            base_json_u64(json, parameter->name, parameter->number);
    }
    base_json_object_end(json);
}

static int write_json(const struct bench_case *self)
{
    const struct bench *bench = self->bench;
    struct base_json json;
    base_json_init_file(&json, bench->out);
    base_json_object_begin(&json, NULL);
    base_json_string(&json, "bench", bench->verb);
    base_json_string(&json, "name", self->name);
    bench_case_write_parameters(self, &json, NULL);
    base_json_string(&json, "version", tarn_version());
    base_json_string(&json, "commit", BENCH_COMMIT);
    base_json_object_begin(&json, "machine");
    base_json_string(&json, "processor", bench->machine.processor);
    base_json_u64(&json, "processors", bench->machine.processors);
    base_json_string(&json, "kernel", bench->machine.kernel);
    base_json_u64(&json, "memory_bytes", bench->machine.memory_bytes);
    base_json_string(&json, "disk", bench->machine.disk);
    base_json_object_end(&json);
    base_json_u64(&json, "seed", bench->options.seed);
    base_json_u64(&json, "duration_ns", bench->options.duration_ns);
    base_json_u64(&json, "repeats", self->repeats);
    base_json_string(&json, "unit", self->unit);
    base_json_array_begin(&json, "subjects");
    for (size_t i = 0; i < self->subject_count; i++)
        write_subject(&json, self, &self->subjects[i]);
    base_json_array_end(&json);
    base_json_object_end(&json);
    (void)fputc('\n', bench->out);
    return base_json_finish(&json, NULL);
}

/* ---- tables ------------------------------------------------------------------------------------ */

static const char *format_rate(char *buffer, size_t room, double rate)
{
    if (rate >= 1e6)
        (void)snprintf(buffer, room, "%.2f M", rate / 1e6);
    else if (rate >= 1e3)
        (void)snprintf(buffer, room, "%.2f k", rate / 1e3);
    else
        (void)snprintf(buffer, room, "%.2f  ", rate);
    return buffer;
}

/* Nanoseconds with fractions where they matter. */
static const char *format_each(char *buffer, size_t room, double rate)
{
    double ns = 1e9 / rate;
    if (ns >= 1000)
        return base_format_duration(buffer, room, (uint64_t)ns);
    (void)snprintf(buffer, room, "%.2f ns", ns);
    return buffer;
}

static void print_rate(FILE *out, const struct bench_case *self, const struct bench_subject *subject)
{
    char rate[BASE_UNITS_ROOM];
    char each[BASE_UNITS_ROOM];
    char compared[64] = "";
    double median = bench_summarize(subject->rates, self->repeats).median;
    if (median <= 0) /* this is not about a rate, or nothing was done in the time */
        return;
    struct bench_summary ratio =
        bench_summarize_ratios(self->subjects[0].rates, subject->rates, self->repeats);
    if (subject != &self->subjects[0] && ratio.median > 0)
        (void)snprintf(compared, sizeof(compared), "%.3f (%.3f - %.3f)", ratio.median, ratio.min, ratio.max);
    (void)fprintf(out, " %10s %11s  %-24s", format_rate(rate, sizeof(rate), median),
                  format_each(each, sizeof(each), median), compared);
}

static void print_latency(FILE *out, const struct base_histogram *latency)
{
    static const double percents[] = {50, 99, 99.9, 100};
    if (base_histogram_count(latency) == 0)
        return;
    for (size_t i = 0; i < base_array_count(percents); i++) {
        char text[BASE_UNITS_ROOM];
        uint64_t ns = base_histogram_percentile(latency, percents[i]);
        (void)fprintf(out, " %9s", base_format_duration(text, sizeof(text), ns));
    }
}

static void print_subject(const struct bench_case *self, const struct bench_subject *subject)
{
    FILE *out = self->bench->out;
    (void)fprintf(out, "  %-16s", subject->name);
    if (subject->skipped != NULL) {
        (void)fprintf(out, " skipped: %s\n", subject->skipped);
        return;
    }
    print_rate(out, self, subject);
    print_latency(out, &subject->latency);
    for (size_t i = 0; i < self->value_count; i++)
        (void)fprintf(out, "  %s=%.6g", self->value_names[i],
                      bench_summarize(subject->values[i], self->repeats).median);
    (void)fputc('\n', out);
}

static void print_table(const struct bench_case *self)
{
    FILE *out = self->bench->out;
    (void)fprintf(out, "%s", self->name);
    for (size_t i = 0; i < self->parameter_count; i++) {
        const struct bench_parameter *parameter = &self->parameters[i];
        if (parameter->text != NULL)
            (void)fprintf(out, " %s=%s", parameter->name, parameter->text);
        else
            (void)fprintf(out, " %s=%" PRIu64, parameter->name, parameter->number);
    }
    (void)fprintf(out, ": %s\n", self->unit);
    for (size_t i = 0; i < self->subject_count; i++)
        print_subject(self, &self->subjects[i]);
}

void bench_case_write_header(struct bench *bench)
{
    if (bench->options.json)
        return;
    (void)fprintf(
        bench->out,
        "tarn %s (%s), %s, %" PRIu32 " processors, %" PRIu64 " MiB, disk %s, %s, seed %" PRIu64 "\n\n",
        tarn_version(), BENCH_COMMIT, bench->machine.processor, bench->machine.processors,
        bench->machine.memory_bytes >> 20, bench->machine.disk, bench->machine.kernel, bench->options.seed);
    (void)fprintf(bench->out, "  %-16s %10s %11s  %-24s %9s %9s %9s %9s\n", "", "a second", "each",
                  "first / this (spread)", "p50", "p99", "p99.9", "max");
}

/* @return 0; -EIO: said in bench->err */
static int write_case(const struct bench_case *self)
{
    int error = 0;
    if (self->bench->options.json)
        error = write_json(self);
    else
        print_table(self);
    if (error == 0 && (fflush(self->bench->out) != 0 || ferror(self->bench->out) != 0))
        error = -EIO;
    return error == 0 ? 0 : bench_fail(self->bench, error, "output");
}

/* ---- measuring --------------------------------------------------------------------------------- */

static int measure_case(struct bench_case *self, struct bench_subject *subject, size_t repeat)
{
    struct bench_sample sample = {.latency = &self->latency};
    base_histogram_reset(&self->latency);
    int error = subject->measure(subject->arg, &sample);
    if (error != 0)
        return error;
    base_histogram_merge(&subject->latency, &self->latency);
    subject->skipped = sample.skipped;
    if (sample.operations > 0 && sample.elapsed_ns > 0)
        subject->rates[repeat] = (double)sample.operations * 1e9 / (double)sample.elapsed_ns;
    for (size_t i = 0; i < self->value_count; i++)
        subject->values[i][repeat] = sample.values[i];
    return 0;
}

/* Measure each subject once: in order, or every other time from last to first. @return 0 or negative errno:
 * said */
static int measure_all(struct bench_case *self, size_t repeat, struct base_progress *progress)
{
    for (size_t i = 0; i < self->subject_count; i++) {
        size_t turn = repeat % 2 == 0 ? i : self->subject_count - 1 - i;
        struct bench_subject *subject = &self->subjects[turn];
        int error = subject->skipped == NULL ? measure_case(self, subject, repeat) : 0;
        if (error != 0)
            return bench_fail(self->bench, error, "%s: %s", self->name, subject->name);
        base_progress_update(progress, repeat * self->subject_count + i + 1);
    }
    return 0;
}

int bench_case_run(struct bench_case *self)
{
    struct base_progress progress;
    int error = 0;
    size_t repeat = 0;
    bench_progress_init(self->bench, &progress, self->name, "measurements",
                        self->repeats * self->subject_count);
    for (; repeat < self->repeats && error == 0; repeat++)
        error = measure_all(self, repeat, &progress);
    base_progress_end(&progress);
    return error != 0 ? error : write_case(self);
}

int bench_case_finish(struct bench_case *self)
{
    int error = bench_case_run(self);
    bench_case_close(self);
    return error;
}

int bench_case_write_times(struct bench_case *self, size_t value, const char *name, const char *unit)
{
    self->name = name;
    self->unit = unit;
    self->value_count = 0;
    for (size_t i = 0; i < self->subject_count; i++) {
        struct bench_subject *subject = &self->subjects[i];
        base_histogram_reset(&subject->latency);
        for (size_t repeat = 0; repeat < self->repeats; repeat++) {
            double ns = subject->values[value][repeat];
            subject->rates[repeat] = ns > 0 ? 1e9 / ns : 0;
        }
    }
    return write_case(self);
}

double bench_case_slowest(const struct bench_case *self, uint32_t subjects)
{
    double slowest = 0;
    for (size_t i = 0; i < self->subject_count; i++) {
        const struct bench_subject *subject = &self->subjects[i];
        if (subject->skipped != NULL || (subjects >> i & 1) == 0)
            continue;
        double rate = bench_summarize(subject->rates, self->repeats).median;
        if (rate > 0 && (slowest <= 0 || rate < slowest))
            slowest = rate;
    }
    return slowest;
}
