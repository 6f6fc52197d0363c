/* Many seeds of a campaign in child processes: the first that fails, and how to see it again. */
#include "base/base.h"
#include "sim/campaigns/campaign.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    JOBS_MAX = 64,
    BATCH_SEEDS = 50, /* run by one child, so that forking costs little */
    TEXT_BYTES = 1024,
    PATIENCE = 20, /* as many times longer a child that gets no processor time is waited for */
};

#define HANG_NS UINT64_C(20000000000)

/* What a child tells of a seed, in one write. */
struct report {
    uint64_t seed;
    uint64_t hash;
    uint64_t failed;
    char text[TEXT_BYTES];
};
_Static_assert(sizeof(struct report) <= 4096, "written to a pipe at once");

struct child {
    pid_t pid; /* 0: none */
    int pipe;
    uint64_t seed; /* the one that it runs now */
    uint64_t end;
    uint64_t deadline_ns;
};

struct run {
    const struct sim_run_options *options;
    const struct sim_campaign *campaign;
    uint64_t next; /* seed to be handed out */
    uint64_t end;
    uint64_t passed;
    uint64_t hash; /* of all that passed, in any order */
    bool failed;
    struct report first; /* failure, of the lowest seed */
    unsigned jobs;
    struct child children[JOBS_MAX];
};

/* ---- one seed -------------------------------------------------------------------------------- */

static void run_seed(const struct run *run, uint64_t seed, bool twice, struct report *report)
{
    const struct sim_run_options *options = run->options;
    *report = (struct report){.seed = seed};
    report->failed = (uint64_t)sim_run_seed(run->campaign, seed, options->mutation, options->trace,
                                            &report->hash, report->text, sizeof(report->text));
    if (!twice || report->failed != 0)
        return;
    uint64_t hash = 0;
    char text[TEXT_BYTES] = "";
    int failed = sim_run_seed(run->campaign, seed, options->mutation, NULL, &hash, text, sizeof(text));
    if (failed != 0 || hash != report->hash) {
        report->failed = 1;
        (void)snprintf(report->text, sizeof(report->text),
                       "two runs of one seed differ: trace %016" PRIx64 ", then %016" PRIx64 " %s",
                       report->hash, hash, text);
    }
}

static void note_report(struct run *run, const struct report *report)
{
    if (report->failed == 0) {
        run->passed++;
        run->hash += base_hash64(&report->hash, sizeof(report->hash), report->seed);
    } else if (!run->failed || report->seed < run->first.seed) {
        run->failed = true;
        run->first = *report;
    }
}

/* ---- children -------------------------------------------------------------------------------- */

static uint64_t hang_ns(const struct run *run)
{
    return run->options->hang_ns == 0 ? HANG_NS : run->options->hang_ns;
}

/* Have this process end by SIGPROF when it has had so much processor time from now on. */
static void limit_time(uint64_t ns)
{
    const struct itimerval timer = {.it_value = {.tv_sec = (time_t)(ns / BASE_NS_PER_SECOND),
                                                 .tv_usec = (suseconds_t)(ns % BASE_NS_PER_SECOND / 1000)}};
    (void)setitimer(ITIMER_PROF, &timer, NULL);
}

_Noreturn static void be_child(const struct run *run, uint64_t begin, uint64_t end, int out, bool quiet)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    if (null >= 0)
        (void)dup2(null, STDERR_FILENO);
    for (uint64_t seed = begin; seed < end; seed++) {
        struct report report;
        limit_time(hang_ns(run));
        run_seed(run, seed, seed == begin, &report);
        if (write(out, &report, sizeof(report)) != sizeof(report) || report.failed != 0)
            break;
    }
    _exit(0);
}

static int start_child(const struct run *run, struct child *child, uint64_t begin, uint64_t end, bool quiet)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    (void)fflush(NULL); /* or the child's copy of what is buffered would come out as well */
    pid_t pid = fork();
    if (pid == 0)
        be_child(run, begin, end, ends[1], quiet);
    int error = pid < 0 ? -errno : 0;
    (void)close(ends[1]);
    if (error != 0) {
        (void)close(ends[0]);
        return error;
    }
    *child = (struct child){
        .pid = pid,
        .pipe = ends[0],
        .seed = begin,
        .end = end,
        .deadline_ns = task_now() + PATIENCE * hang_ns(run),
    };
    return 0;
}

/* Take leave of a child that has closed its pipe or was killed. */
static int bury(struct child *child)
{
    int status = 0;
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
    }
    (void)close(child->pipe);
    child->pid = 0;
    return status;
}

static void note_death(struct run *run, const struct child *child, const char *how, int number)
{
    struct report report = {.seed = child->seed, .failed = 1};
    (void)snprintf(report.text, sizeof(report.text), "%s %d", how, number);
    note_report(run, &report);
}

/* Read what a child has to tell. */
static void hear_child(struct run *run, struct child *child)
{
    struct report report;
    ssize_t bytes = read(child->pipe, &report, sizeof(report));
    if (bytes == (ssize_t)sizeof(report)) {
        note_report(run, &report);
        child->seed++;
        if (report.failed != 0)
            child->seed = child->end; /* it stops there */
        child->deadline_ns = task_now() + PATIENCE * hang_ns(run);
        return;
    }
    if (bytes < 0 && errno == EINTR)
        return;
    int status = bury(child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
        note_death(run, child,
                   "no end after seconds of processor time:", (int)(hang_ns(run) / BASE_NS_PER_SECOND));
    else if (WIFSIGNALED(status))
        note_death(run, child, "the process died of signal", WTERMSIG(status));
    else if (child->seed < child->end)
        note_death(run, child, "the process ended with status", WEXITSTATUS(status));
}

static void kill_hanging(struct run *run, struct child *child)
{
    (void)kill(child->pid, SIGKILL);
    (void)bury(child);
    note_death(run, child,
               "no end after seconds of real time:", (int)(PATIENCE * hang_ns(run) / BASE_NS_PER_SECOND));
}

/* Wait until some child has something to tell, or hangs. */
static void wait_for_children(struct run *run)
{
    struct pollfd polls[JOBS_MAX];
    struct child *polled[JOBS_MAX];
    nfds_t count = 0;
    uint64_t now_ns = task_now();
    uint64_t sleep_ns = PATIENCE * hang_ns(run);
    for (unsigned i = 0; i < run->jobs; i++) {
        struct child *child = &run->children[i];
        if (child->pid == 0)
            continue;
        polls[count] = (struct pollfd){.fd = child->pipe, .events = POLLIN};
        polled[count++] = child;
        sleep_ns = base_min(sleep_ns, child->deadline_ns > now_ns ? child->deadline_ns - now_ns : 0);
    }
    if (poll(polls, count, (int)(sleep_ns / 1000000 + 1)) < 0)
        return;
    for (nfds_t i = 0; i < count; i++) {
        if (polls[i].revents != 0)
            hear_child(run, polled[i]);
        else if (task_now() >= polled[i]->deadline_ns)
            kill_hanging(run, polled[i]);
    }
}

static bool child_runs(const struct run *run)
{
    for (unsigned i = 0; i < run->jobs; i++) {
        if (run->children[i].pid != 0)
            return true;
    }
    return false;
}

/* Hand out seeds until there are none; after a failure only those before it are of interest. */
static int run_forked(struct run *run, struct base_progress *progress)
{
    int error = 0;
    for (;;) {
        for (unsigned i = 0; i < run->jobs && error == 0 && !run->failed && run->next < run->end; i++) {
            if (run->children[i].pid != 0)
                continue;
            uint64_t seeds = base_min(run->end - run->next, (uint64_t)BATCH_SEEDS);
            error = start_child(run, &run->children[i], run->next, run->next + seeds, true);
            run->next += seeds;
        }
        if (!child_runs(run))
            return error;
        wait_for_children(run);
        if (progress != NULL)
            base_progress_update(progress, run->passed);
    }
}

static void run_here(struct run *run)
{
    for (; run->next < run->end && !run->failed; run->next++) {
        struct report report;
        run_seed(run, run->next, run->options->trace == NULL, &report);
        note_report(run, &report);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Run the failed seed alone and let it be heard: its own words, an assertion's, a sanitizer's. */
static int repeat_alone(struct run *run)
{
    const struct report before = run->first;
    run->failed = false;
    struct child *child = &run->children[0];
    int error = start_child(run, child, before.seed, before.seed + 1, false);
    while (child->pid != 0)
        wait_for_children(run);
    if (error == 0 && !run->failed) {
        run->first = before;
        (void)fprintf(run->options->errors, "%s: seed %" PRIu64 " failed among others and passes alone\n",
                      run->campaign->name, before.seed);
    }
    run->failed = true;
    return error;
}

static void tell_failure(const struct run *run)
{
    const struct sim_run_options *options = run->options;
    FILE *out = options->errors;
    const char *program = options->program == NULL ? "tarn" : options->program;
    char command[256];
    (void)snprintf(command, sizeof(command), "%s sim --campaign=%s --seed=%" PRIu64 " --count=1%s%s", program,
                   run->campaign->name, run->first.seed, options->mutation == NULL ? "" : " --mutation=",
                   options->mutation == NULL ? "" : options->mutation);
    (void)fprintf(out, "%s: seed %" PRIu64 " failed: %s\n", run->campaign->name, run->first.seed,
                  run->first.text);
    (void)fprintf(out, "  again:    %s\n", command);
    (void)fprintf(out, "  trace:    %s --no-fork --trace\n", command);
    (void)fprintf(out, "  debugger: gdb --args %s --no-fork\n", command);
}

static const struct sim_campaign *find_campaign(const struct sim_run_options *options)
{
    const struct sim_campaign *const *campaigns =
        options->campaigns == NULL ? sim_campaigns : options->campaigns;
    for (size_t i = 0; campaigns[i] != NULL; i++) {
        if (strcmp(campaigns[i]->name, options->campaign) == 0)
            return campaigns[i];
    }
    (void)fprintf(options->errors, "there is no campaign '%s'; there are:", options->campaign);
    for (size_t i = 0; campaigns[i] != NULL; i++)
        (void)fprintf(options->errors, " %s", campaigns[i]->name);
    (void)fprintf(options->errors, "\n");
    return NULL;
}

static bool has_mutation(const struct sim_run_options *options, const struct sim_campaign *campaign)
{
    if (options->mutation == NULL)
        return true;
    for (size_t i = 0; campaign->mutations[i] != NULL; i++) {
        if (strcmp(campaign->mutations[i], options->mutation) == 0)
            return true;
    }
    (void)fprintf(options->errors, "campaign '%s' has no mutation '%s'; it has:", campaign->name,
                  options->mutation);
    for (size_t i = 0; campaign->mutations[i] != NULL; i++)
        (void)fprintf(options->errors, " %s", campaign->mutations[i]);
    (void)fprintf(options->errors, "\n");
    return false;
}

static uint64_t clock_now(void *arg)
{
    (void)arg;
    return task_now();
}

int sim_run(const struct sim_run_options *options)
{
    int error = 0;
    const struct sim_campaign *campaign = find_campaign(options);
    if (campaign == NULL || !has_mutation(options, campaign))
        return -EINVAL;
    struct run run = {
        .options = options,
        .campaign = campaign,
        .next = options->seed,
        .end = options->seed + options->count,
        .jobs = base_min(base_max(options->jobs, 1u), (unsigned)JOBS_MAX),
    };
    struct base_progress progress;
    if (options->progress != NULL)
        base_progress_init(&progress, options->progress, campaign->name, "seeds", options->count, clock_now,
                           NULL);
    uint64_t begin_ns = task_now();
    if (options->no_fork)
        run_here(&run);
    else
        error = run_forked(&run, options->progress == NULL ? NULL : &progress);
    uint64_t took_ns = task_now() - begin_ns;
    if (options->progress != NULL)
        base_progress_end(&progress);
    if (error == 0 && run.failed && !options->no_fork)
        error = repeat_alone(&run);
    if (error != 0)
        return error;
    if (run.failed)
        tell_failure(&run);
    (void)fprintf(options->out, "%s: %" PRIu64 " seeds passed, %s, %.1f ms a seed, trace %016" PRIx64 "\n",
                  campaign->name, run.passed, run.failed ? "1 FAILED" : "none failed",
                  (double)took_ns / 1e6 / (double)base_max(run.passed + run.failed, (uint64_t)1), run.hash);
    return run.failed ? 1 : 0;
}
