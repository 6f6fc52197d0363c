/* Stores of a server, over `tcp`. */
#include "fabric/tcp_testing.h"
#include "kv/hostile_testing.h"

int main(void)
{
    return testing_run_remote("tarn://", tcp_testing_setup);
}
