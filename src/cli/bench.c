/* tarn bench: load on stores and servers. */
#include "bench/bench.h"
#include "cli/cli.h"

void cli_bench_help(FILE *file)
{
    bench_print_verbs(&bench_program, file);
}

int cli_bench(int argc, char **argv)
{
    return bench_main(&bench_program, argc, argv, stdout, stderr);
}
