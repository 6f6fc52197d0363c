/* For the tests of `shm`: it as a subject, with a socket for each listener. */
#ifndef FABRIC_SHM_TESTING_H
#define FABRIC_SHM_TESTING_H

#include "fabric/testing.h"

int shm_testing_setup(void **state);

/** A TCP socket that lingers for an hour when it is closed, because of bytes that its other end does not take. */
int shm_testing_linger(int *ret_other);

/** It has lingered long enough: the bytes are thrown away. */
void shm_testing_linger_end(int other);

#endif
