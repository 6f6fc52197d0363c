/* tarn sim: seeds of the simulator's campaigns. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "sim/campaigns/campaign.h"
#include <errno.h>
#include <unistd.h>

struct sim_options {
    const char *campaign;
    uint64_t seed;
    uint64_t seeds;
    const char *mutation;
    uint64_t jobs;
    bool fork;
    bool trace;
};

#define AT(field) .offset = offsetof(struct sim_options, field)

static const struct base_setting sim_settings[] = {
    {.name = "campaign",
     .type = BASE_SETTING_STRING,
     .metavar = "NAME",
     .help = "Only this campaign; else all, in turn.",
     AT(campaign)},
    {.name = "seed", .type = BASE_SETTING_UINT, .default_text = "1", .help = "The first seed.", AT(seed)},
    {.name = "seeds",
     .type = BASE_SETTING_UINT,
     .min = 1,
     .default_text = "1000",
     .unit = "seeds",
     .help = "How many, of each campaign.",
     AT(seeds)},
    {.name = "count", /* as the advice on a failed seed says it */
     .type = BASE_SETTING_UINT,
     .flags = BASE_SETTING_HIDDEN,
     .min = 1,
     .default_text = "1000",
     .help = "The same.",
     AT(seeds)},
    {.name = "mutation",
     .type = BASE_SETTING_STRING,
     .metavar = "NAME",
     .help = "Break a promise on purpose, to see that the campaign notices.",
     AT(mutation)},
    {.name = "jobs",
     .type = BASE_SETTING_UINT,
     .max = 64,
     .default_text = "0",
     .unit = "processes",
     .help = "Seeds that run at once; 0 is one for each processor.",
     AT(jobs)},
    {.name = "fork",
     .type = BASE_SETTING_BOOL,
     .default_text = "yes",
     .help = "Run seeds in processes of their own. --no-fork is for debuggers.",
     AT(fork)},
    {.name = "trace",
     .type = BASE_SETTING_BOOL,
     .help = "With --no-fork: print every decision to standard error.",
     AT(trace)},
};

static const struct cli_arguments arguments = {sim_settings, base_array_count(sim_settings)};

void cli_sim_help(FILE *file)
{
    cli_print_options(&arguments, file);
    (void)fputs("\nCampaigns:\n", file);
    for (size_t i = 0; sim_campaigns[i] != NULL; i++)
        (void)fprintf(file, "  %-10s %s\n", sim_campaigns[i]->name, sim_campaigns[i]->help);
}

static int run_campaign(const struct sim_options *options, const char *campaign)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const struct sim_run_options run_options = {
        .campaign = campaign,
        .seed = options->seed,
        .count = options->seeds,
        .mutation = options->mutation,
        .jobs = options->jobs != 0 ? (unsigned)options->jobs : (unsigned)base_max(processors, 1L),
        .no_fork = !options->fork,
        .trace = options->trace ? stderr : NULL,
        .out = stdout,
        .errors = stderr,
        .progress = stderr,
        .program = "tarn",
    };
    int outcome = sim_run(&run_options);
    if (outcome == 0 || outcome == 1)
        return outcome == 0 ? CLI_OK : CLI_FAILED;
    return outcome == -EINVAL ? CLI_USAGE : cli_failed("cannot run: %s", strerrordesc_np(-outcome));
}

static int run_sim(const void *parsed, const char *const *words, size_t count)
{
    const struct sim_options *options = parsed;
    (void)words;
    if (count > 0)
        return cli_usage("sim takes options only");
    if (options->campaign != NULL)
        return run_campaign(options, options->campaign);
    if (options->mutation != NULL)
        return cli_usage("a mutation belongs to a campaign: name it with --campaign");
    int status = CLI_OK;
    for (size_t i = 0; sim_campaigns[i] != NULL && status == CLI_OK; i++)
        status = run_campaign(options, sim_campaigns[i]->name);
    return status;
}

int cli_sim(int argc, char **argv)
{
    struct sim_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_sim);
}
