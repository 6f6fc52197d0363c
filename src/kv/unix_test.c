/* Stores of a server, over `shm`. */
#include "fabric/shm_testing.h"
#include "kv/hostile_testing.h"

int main(void)
{
    return testing_run_remote("unix:", shm_testing_setup);
}
