/* A case: its subjects measured in turn, as often as the options say. */
#include "bench/case.h"

#include "task/task.h"
#include <errno.h>

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

static int measure_case(struct bench_case *self, struct bench_subject *subject, size_t repeat)
{
    struct bench_sample sample = {.latency = &subject->latency};
    int error = subject->measure(subject->arg, &sample);
    if (error != 0)
        return error;
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
    return error != 0 ? error : bench_case_write(self);
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
    return bench_case_write(self);
}
