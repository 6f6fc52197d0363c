/* tarn-lab: the laboratory's command. */
#include "lab/lab.h"

int main(int argc, char **argv)
{
    return bench_main(&lab_program, argc > 0 ? argc - 1 : 0, argv + 1, stdout, stderr);
}
