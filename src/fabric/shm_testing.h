/* For the tests of `shm`: it as a subject, with a socket for each listener. */
#ifndef FABRIC_SHM_TESTING_H
#define FABRIC_SHM_TESTING_H

#include "fabric/testing.h"

int shm_testing_setup(void **state);

#endif
