/* For the tests of `shm`: it as a subject, with a socket for each listener. */
#include "fabric/shm_testing.h"

static void shm_testing_address(char *ret_address, size_t room)
{
    static unsigned count;
    int length = snprintf(ret_address, room, "/tmp/fabric-test-%d-%u.socket", (int)getpid(), count++);
    assert_true(length > 0 && length < (int)room);
}

int shm_testing_setup(void **state)
{
    static const struct testing_subject subject = {.url = "shm:", .address = shm_testing_address};
    *state = (void *)(uintptr_t)&subject;
    return 0;
}
