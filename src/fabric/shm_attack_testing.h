/* For the tests of `shm`: peers made by hand, each part of which can be made wrong, and what the server answers them. */
#ifndef FABRIC_SHM_ATTACK_TESTING_H
#define FABRIC_SHM_ATTACK_TESTING_H

#include "fabric/shm/shm.h"
#include "fabric/shm_testing.h"

enum { SLOTS = 4, PAYLOAD = 100, TABLE_SLOTS = 8, FILE_BYTES = 8192 };

/* A process's worth of what a peer has, each part to be made wrong. */
struct attacker {
    int socket;
    struct shm_file files[SHM_HELLO_FDS];
    int fds[SHM_HELLO_FDS]; /* what is sent */
    struct shm_hello hello;
    struct shm_greeting greeting; /* the server's */
    struct shm_ring out;          /* to the server */
};

/** An attacker that is as a good client would be. */
void prepare(struct attacker *attacker);

/** Connect its socket. */
void reach(struct attacker *attacker, const char *path);

/** What the server has answered. @return as shm_hello_receive() */
int answer(struct attacker *attacker);

void dismiss(struct attacker *attacker);

/** The other client of the server works on. */
void expect_alive(struct testing_pair *pair);

/** Meet as a good client would, and hold what it is given. */
struct tarn_fabric_connection *get_in(struct testing_pair *pair, struct attacker *attacker);

/** A memory file with these seals. */
int memory_file(uint64_t bytes, int seals);

/** Change what is shared. */
void poke32(const struct shm_file *file, unsigned at, uint32_t value);
void poke64(const struct shm_file *file, unsigned at, uint64_t value);

/** Ask for a region as a good peer would. @return its file; -1: there is none */
int ask(struct attacker *attacker, uint64_t key, struct shm_note *ret_note);

#endif
