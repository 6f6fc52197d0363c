/* The insides of campaign `space`, for its files. */
#ifndef SIM_CAMPAIGN_SPACE_H
#define SIM_CAMPAIGN_SPACE_H

#include "base/base.h"
#include "sim/arena.h"
#include "space/space.h"

enum {
    MASTERS_MAX = 2, /* the most */
    SERVERS_MAX = 3,
    CLIENTS_MAX = 4,
    USERS_MAX = 3, /* of a client, the most */
    NAMES = 2,     /* namespaces at once */
    CHUNKS_MAX = 3,
    HELD_MAX = 4,
    CHUNK_BYTES = 4096,
    SLOTS = CLIENTS_MAX * USERS_MAX, /* of a chunk; one user writes to each */
    SLOT_BYTES = 32,
    SLOT_STEP = 256,    /* from one to the next */
    RECORDS_MAX = 2048, /* regions of a run */
    FATES_MAX = 255,    /* namespaces of a run */
    VERSIONED_MAX = 2,  /* copy-on-write regions that a user holds */
    LINEAGES_MAX = 512, /* copy-on-write regions of a run */
    VERSIONS_MAX = 8192,
};

#define MASTERS     "master0,master1" /* addresses, of which the second may be none's */
#define PATIENCE_NS (5 * BASE_NS_PER_SECOND)

struct play;
struct life;

/* A slot of a region's chunk, as its user knows it. */
struct slot {
    uint32_t begun, acknowledged; /* WRITEs; if they differ, one is under way, or its user has died in it */
    bool is_uncertain;            /* a WRITE has failed: its bytes may be anything, also later */
};

/* A namespace that a client was told of. */
struct fate {
    uint32_t number;
    uint32_t name;
    uint32_t deletes;    /* that were begun */
    bool is_deleted;     /* a client was told so */
    uint64_t deleted_ns; /* when */
};

/* A region that a client was told of. */
struct record {
    const struct play *play;
    uint32_t number;
    struct fate *fate; /* of its namespace */
    uint32_t holders;  /* nodes of clients that hold it, bits */
    uint64_t address;
    uint32_t chunks;
    uint32_t label;    /* in its name; 0: it has none */
    bool is_published; /* its maker has written to all slots; others may hold it */
    uint32_t frees;    /* that were begun */
    bool is_free;      /* a client was told so */
    struct slot slots[CHUNKS_MAX][SLOTS];
};

/* A user's hold of a region. */
struct held {
    struct tarn_space_region *region; /* NULL: none */
    struct record *record;
};

/* A copy-on-write region that a client was told of. */
struct lineage {
    struct fate *fate; /* of its namespace */
    uint64_t address;
    uint32_t chunks;
    uint32_t copies; /* of each chunk */
    uint32_t newest; /* the last version of which a client was told that it is published */
    uint32_t frees;  /* that were begun */
};

/* A version of one, or a draft. */
struct version {
    struct lineage *of;
    uint32_t number;
    uint32_t base; /* the version whose place it was to take */
    uint32_t
        stamps[CHUNKS_MAX]; /* what its chunks show: the number of the draft that filled them; 0: anything */
    bool may_be_published;
    bool is_published; /* its writer was told so */
    bool
        is_unread; /* the master has made it of another one: it shows what one of those before shows, and which is not known yet */
};

/* A user's hold of a version. */
struct versioned {
    struct tarn_space_region *region; /* NULL: none */
    struct lineage *of;
    struct version *version;
};

/* A task or thread that uses a space. */
struct user {
    struct life *life;
    uint32_t slot;                          /* in all chunks */
    struct tarn_space_namespace *of[NAMES]; /* NULL: it has not joined */
    struct held held[HELD_MAX];
    struct versioned versioned[VERSIONED_MAX];
    const struct record *written; /* the region that a WRITE of this user is under way to; NULL: none is */
    uint32_t arrivals;            /* the play's count when this user last looked at all of its regions */
    uint8_t bytes[CHUNKS_MAX * CHUNK_BYTES];
};

/* One life of a node. */
struct life {
    struct life *next;
    struct play *play;
    struct sim_node *node;
    uint32_t number; /* of the node */
    struct base_random random;
    struct tarn_fabric *fabric;
    struct space_master *master; /* NULL: it is not open */
    struct space_server *server; /* likewise */
    struct tarn_space *space;
    struct user *users; /* USERS_MAX */
    uint32_t running;   /* users */
    bool ends;          /* the master is to be closed */
    uint64_t blind_ns;  /* since when no renewal can reach the master and come back; 0: it may */
};

struct play {
    struct sim_arena arena;
    struct life *lives;
    struct life *current[SIM_ARENA_NODES_MAX];
    struct sim_drive *drive;
    struct record *records; /* RECORDS_MAX */
    uint32_t record_count;
    uint32_t labels;              /* that were given */
    struct fate fates[FATES_MAX]; /* of namespaces */
    uint32_t fate_count;
    uint32_t masters; /* the first nodes, then the servers, then the clients */
    uint32_t servers;
    uint32_t chunks;  /* of a server */
    uint32_t clients; /* lives of clients that go on */
    uint64_t lease_ns;
    uint64_t session_ns; /* of masters */
    bool is_calm;        /* only masters end: a client that goes on loses nothing */
    bool has_threads;    /* a client is a plain thread */
    bool fences_cut;     /* a memory server's fence cuts clients off; else it waits until they have left */
    bool has_versions;   /* clients make copy-on-write regions, too */
    bool has_copies;     /* some of these have two copies, and memory servers are drained */
    bool
        is_sturdy; /* memory servers are killed one at a time, when there are two copies of all that is to have them */
    uint32_t threads_left; /* clients to come that are */
    bool is_begun;         /* all memory servers were there */
    bool is_ending;        /* a master looks at the end */
    bool is_checked;       /* the end was looked at */
    uint32_t
        arrivals; /* WRITEs that were kept back and let go; after each, users look at all of their regions */
    const struct life *victim; /* the client whose regions others are to free and use again; NULL: none */
    struct lineage *lineages;  /* LINEAGES_MAX */
    struct version *versions;  /* VERSIONS_MAX */
    uint32_t lineage_count, version_count;
    uint64_t writes, reads, allocs, published, version_reads;
};

/** A number below n. */
static inline uint64_t sim_space_draw(struct life *life, uint64_t n)
{
    return base_random_below(&life->random, n);
}

/** Whether the master of a life may answer, as its own clock is now. */
bool sim_space_does_lead(const struct life *life);

/** The life of the master that leads. @return NULL: none does now */
struct life *sim_space_leader(const struct play *play);

/** A deadline for a user's next call. */
uint64_t sim_space_deadline(struct user *user);

/** Do one thing with copy-on-write regions. */
void sim_space_use_versions(struct user *user);

/** Drop a user's copy-on-write regions of a namespace. */
void sim_space_drop_versions(struct user *user, uint32_t name);

/** Whether things happen in a run that make calls of clients fail. */
static inline bool sim_space_may_fail(const struct play *play)
{
    return play->arena.events != 0 || play->is_calm || play->is_sturdy || play->has_threads;
}

/** Whether such things explain the error of any call. */
bool sim_space_is_explained(const struct play *play, int error);

/** Whether a WRITE of a client is under way. @param record  to which region; NULL: to any */
bool sim_space_is_writing(const struct life *life, const struct record *record);

/** What is known of a namespace. */
struct fate *sim_space_fate(struct play *play, uint32_t name, uint32_t number);

/** Use the space of a life, until the arena stops or the client must end. A task function; its argument is the user. */
void sim_space_use(void *arg);

/** Look at what is there at the end, and take all of it away. In a task of the master's node. */
void sim_space_check_end(struct life *life);

/** Whether all regions that are to have copies have them. Outside. */
bool sim_space_is_whole(const struct play *play);

/** Have no server be drained any more. */
void sim_space_drain_none(struct tarn_space *space);

/** Look at the tables of the master and of the memory servers. Outside. */
void sim_space_check_tables(struct play *play);

#endif
