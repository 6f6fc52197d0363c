/* For the tests of `verbs`: two devices as what is tested, each the other's peer. */
#ifndef FABRIC_VERBS_TESTING_H
#define FABRIC_VERBS_TESTING_H

#include "fabric/testing.h"

/*
 * TARN_VERBS_TEST says which: "rxe0,10.77.0.1,rxe1" is the device that listens, its address, and the one that
 * connects. tests/vm/verbs sets it.
 */
struct verbs_testing {
    char server[32], host[48], client[32];
    char server_url[64], client_url[64];
    struct testing_subject subject;
};

/** @return whether there are devices; else why not was printed */
bool verbs_testing_prepare(void);

/** Silence is not what is tested, and an emulated machine is slow where others work on it, too. */
void verbs_testing_be_patient(void);

int verbs_testing_setup(void **state);

#endif
