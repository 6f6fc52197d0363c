/* tarn bench: benchmarks. */
#include "bench/bench.h"
#include "cli/cli.h"

void cli_bench_help(FILE *file)
{
    bench_print_verbs(file);
}

int cli_bench(int argc, char **argv)
{
    return bench_main(argc, argv, stdout, stderr);
}
