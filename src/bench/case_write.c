/* The outcome of a case, for programs and for people. */
#include "bench/case.h"
#include "bench/commit.h"
#include <tarn/tarn.h>

#include <errno.h>
#include <inttypes.h>

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

int bench_case_write(const struct bench_case *self)
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
