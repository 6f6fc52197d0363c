/* The insides of the simulated network, for the files net*.c. */
#ifndef SIM_NET_INTERNAL_H
#define SIM_NET_INTERNAL_H

#include "fabric/bell.h"
#include "sim/cards.h"
#include "sim/net/net.h"
#include "sim/sim_internal.h"

#define SIM_WORD_BYTES        8
#define SIM_SHARERS           4    /* regions with the same bytes that a region knows */
#define SIM_PAGES             1024 /* places where watched words are counted */
#define SIM_BLOCK_WORDS       32   /* of exported memory that have one sum */
#define SIM_NET_ADDRESS_BYTES 108

struct sim_net {
    struct sim_world *world;
    struct base_random
        random; /* its own, so that worlds without fabrics are what they were before there was one */
    struct sim_net_options options;
    uint64_t tick;                     /* counts changes of exported words and beginnings of operations */
    uint64_t names;                    /* of domains and regions, given so far */
    uint64_t operations;               /* posted so far */
    struct base_list devices;          /* of struct sim_device */
    struct base_list listeners;        /* of struct sim_listener */
    struct base_list connections;      /* of struct sim_connection */
    struct base_list cuts;             /* of struct sim_cut */
    struct base_list watchers;         /* of struct sim_watcher */
    uint32_t watched[SIM_PAGES];       /* words that they watch, by their page */
    struct base_list regions;          /* of struct sim_region: all that there are */
    uint64_t weights[SIM_BLOCK_WORDS]; /* of a word in its block's sum; odd */
};

/* A time that something takes, whose parts of a nanosecond are not lost. */
struct sim_meter {
    uint64_t rest_ps;
};

/* What serves operations, or their bytes, one part at a time; connections in turn. */
struct sim_station {
    struct base_heap queue; /* of struct sim_op, by its turn */
    struct sim_op *serving; /* the operation that is served; NULL: none, or it has gone meanwhile */
    struct sim_event event; /* the end of a part; linked while there is one being served */
    uint64_t turn;          /* turn of the connection that was served last */
    uint64_t per_second;    /* kops of operations, mbps of bytes; 0: without limit */
    bool serves_bytes;
    struct sim_meter meter;
};

/* A port of a card. */
struct sim_port {
    struct sim_device *device;
    struct sim_station issue;   /* out-bound: operations of its own host */
    struct sim_station sending; /* its link out: their bytes, and what others READ */
    uint64_t receiving_ns;      /* its link in: when it is free */
    uint64_t serving_ns;        /* in-bound: when it is free for the next operation */
    struct sim_meter receiving_meter;
    struct sim_meter serving_meter;
};

/* What a node has opened: its card. */
struct sim_device {
    struct base_list link;
    struct sim_net *net;
    const struct sim_card *card;          /* NULL: no speed model */
    struct sim_port ports[SIM_PORTS_MAX]; /* as many as the card has */
    struct sim_node *node;                /* NULL: it has ended */
    bool closed;                          /* by tarn_fabric_close(), or with the node */
    struct base_list domains;             /* of struct sim_domain */
    struct base_list swaps;               /* of struct sim_op that have arrived: the first is being done */
};

struct sim_domain {
    struct base_list link;
    struct sim_device *device;
    uint64_t name;
    struct tarn_fabric_domain_options options;
    uint64_t used_bytes[2]; /* of readable and of writable memory, quarantine included */
    uint32_t regions_count;
    struct base_list regions; /* of struct sim_region */
    struct base_list sides;   /* of struct sim_side */
    uint64_t sides_made;
    bool closed;
};

/* What a word was before a change. */
struct sim_change {
    uint64_t tick;
    uint64_t word; /* which one of the region */
    uint64_t before;
};

/* A change by a task that was charged before: its store is over at that moment. */
struct sim_late_change {
    uint64_t seen_ns; /* by READs, from then on */
    uint64_t word;
    uint64_t before;
};

struct sim_region {
    struct base_list link;
    struct sim_domain *domain;
    uint64_t key;
    uint64_t bytes;
    uint32_t rights;
    uint8_t *memory;
    bool is_callers; /* the memory */
    bool is_blank;   /* it has addresses and no bytes */
    uint64_t *
        sums; /* of each block of the memory, unless somebody stored in a plain way: its words by their weights */
    uint64_t compared_to;
    struct base_list every;                  /* net->regions */
    struct sim_region *sharers[SIM_SHARERS]; /* regions that have bytes of this one, too, now or earlier */
    uint32_t sharer_count;      /* more than there is room for: they are looked for in all regions */
    struct base_list readers;   /* of struct sim_op: READs in flight, in the order of their beginning */
    struct sim_change *changes; /* kept while there are any, oldest first */
    uint64_t change_count;
    uint64_t change_room;
    struct sim_late_change *late; /* oldest first; those whose moment has come are thrown away now and then */
    uint64_t late_count, late_room;
    uint64_t users; /* operations in flight that may touch it */
    bool freed;
    uint64_t quarantine; /* sides of the domain with a lower number may still write there */
};

struct sim_listener {
    struct base_list link;
    struct sim_device *device;
    char address[SIM_NET_ADDRESS_BYTES];
    struct base_list queue; /* of struct sim_connection */
    struct fabric_bell waits;
};

/* A message that was received and not fetched. */
struct sim_message {
    struct base_list link;
    struct tarn_fabric_message message;
    uint8_t *data;
};

/* One end of a connection: the provider's state of a tarn_fabric_connection. */
struct sim_side {
    struct sim_connection *connection;
    struct base_list link; /* domain->sides */
    struct sim_domain *domain;
    uint64_t number;                      /* in the domain */
    struct tarn_fabric_connection *owner; /* NULL: not there yet, or gone */
    bool gone;      /* it posts nothing more: it has left, given up, or its node has ended */
    bool failed;    /* its connection is dead, of an error */
    bool peer_gone; /* it knows that the other one is gone */
    bool fenced;    /* nothing of the other one comes in any more */
    bool dropped;   /* a WRITE or message of its will never be there, and so no later message */
    uint32_t receive_count;
    uint32_t receive_bytes;
    uint8_t data[TARN_FABRIC_PRIVATE_BYTES_MAX];
    uint32_t data_bytes;
    uint32_t credit;
    uint32_t credit_back;      /* that it has for the other one */
    uint64_t turns[3];         /* its next at each station of enum sim_turn */
    struct base_list ops;      /* of struct sim_op that were posted here, oldest first */
    struct base_list messages; /* of struct sim_message, for its user */
    struct fabric_bell waits;  /* its users */
    struct sim_event notice;   /* what has become of it, on its way to the other one */
    struct sim_event returns;  /* credit_back, on its way */
    struct sim_event silence;  /* when it will have heard nothing for too long */
};

enum sim_meeting { SIM_CALLING, SIM_QUEUED, SIM_TAKEN, SIM_ACCEPTED, SIM_REFUSED };

struct sim_connection {
    struct base_list link;                /* net->connections */
    struct tarn_fabric_incoming incoming; /* in the listener's queue, until it is taken */
    struct sim_net *net;
    enum sim_meeting meeting;
    int refusal;                       /* the caller's error */
    const struct sim_device *listener; /* the device that was called, as long as the call exists */
    char address[SIM_NET_ADDRESS_BYTES];
    struct sim_event call; /* the call on its way to the listener, then the answer on its way back */
    bool answered;         /* the answer has come */
    int answer;
    struct sim_side sides[2]; /* the first has called */
};

enum sim_op_state {
    SIM_OP_WAITING, /* for credit, or for those before it */
    SIM_OP_GOING,   /* to the peer */
    SIM_OP_WORKING, /* there: words move, a swap is between look and store */
    SIM_OP_QUEUED,  /* there: a swap until the card is free, a message until all before it is there */
    SIM_OP_COMING,  /* done: its completion is on its way */
    SIM_OP_LOST,    /* the peer cannot do it: nothing will come of it but the end of the connection */
};

/* Which stations of the speed model the operations of a side wait at. */
enum sim_turn { SIM_TURN_ISSUE, SIM_TURN_REQUEST, SIM_TURN_ANSWER };

/* Where one is on its way, where there is a speed model. */
enum sim_stage {
    SIM_STAGE_NONE,   /* nowhere: its event is what its state says */
    SIM_STAGE_POSTED, /* its event: the processor has come to it */
    SIM_STAGE_QUEUED, /* it waits in `station`, or is served there */
    SIM_STAGE_FLYING, /* its event: all of it has come to the other card */
};

/* How the words of a WRITE arrive, and which a READ takes. */
enum sim_pattern { SIM_FORWARD, SIM_BACKWARD, SIM_MIXED, SIM_PATTERNS };

struct sim_op {
    struct base_list link;   /* side->ops */
    struct base_list reader; /* region->readers */
    struct base_list swap;   /* device->swaps */
    struct sim_event event;
    struct sim_side *side;
    struct tarn_fabric_op
        *posted; /* NULL: its poster was told of an error, or has ended; it goes on by itself */
    enum tarn_fabric_op_kind kind;
    bool is_at_home; /* it goes past the card */
    enum sim_op_state state;
    enum sim_stage stage;
    struct sim_station *station; /* SIM_STAGE_QUEUED */
    struct base_heap_node turn;
    uint64_t left; /* to be served there */
    bool fence;
    bool whole;  /* a READ that takes no word in parts */
    bool landed; /* a WRITE: all of it is there */
    uint64_t number;
    struct tarn_fabric_handle handle;
    uint64_t offset;
    uint64_t bytes;
    uint64_t compare;
    uint64_t operand;
    uint32_t value;
    uint64_t begun; /* net->tick */
    struct sim_region *region;
    uint8_t *data;  /* what it writes or sends */
    uint8_t *moved; /* a WRITE: for each piece, whether it is there */
    uint64_t piece_count;
    uint64_t pieces_left;
    enum sim_pattern pattern;
    uint32_t pulses_left;
    uint64_t before;
    int32_t result;
};

/** Where the words of an address's page are counted that are watched: pages that share a place are counted together. */
static inline uint32_t sim_page_of(const void *address)
{
    return (uint32_t)((uintptr_t)address / 4096 % SIM_PAGES);
}

/* Somebody who waits for words. */
struct sim_watcher {
    struct base_list link; /* net->watchers */
    struct sim_device *device;
    struct task_wait wait;
    const struct tarn_fabric_word *words;
    uint32_t count;
};

/* ---- net.c -------------------------------------------------------------------------------------- */

/** Whether there is one of some troubles. */
static inline bool sim_net_has(const struct sim_net *net, uint32_t troubles)
{
    return (net->options.troubles & troubles) != 0;
}

/** A number below n, drawn. */
static inline uint64_t sim_net_draw(struct sim_net *net, uint64_t n)
{
    return base_random_below(&net->random, n);
}

/** Whether a region of this size has addresses alone. */
static inline bool sim_net_is_blank(const struct sim_net *net, uint64_t bytes)
{
    return net->options.blank_bytes != 0 && bytes >= net->options.blank_bytes;
}

/** Memory of the world for what outlives nodes. Never NULL. */
void *sim_net_alloc(struct sim_net *net, uint64_t bytes);

/** Give it back. @param bytes  as it was allocated */
void sim_net_free(struct sim_net *net, void *pointer, uint64_t bytes);

/** Copy bytes; of none the memory may be NULL. */
static inline void sim_net_copy(void *to, const void *from, uint64_t bytes)
{
    if (bytes > 0)
        memcpy(to, from, bytes);
}

/** Let something happen after the time that a way takes. */
void sim_net_later(struct sim_net *net, struct sim_event *event);

/** Whether what one card sends does not reach the other. */
bool sim_net_is_cut(const struct sim_device *from, const struct sim_device *to);

/** Wait until something is ready of which a bell tells. @return 0; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int sim_net_wait(struct fabric_bell *bell, bool (*is_ready)(const void *arg), const void *arg,
                                 uint64_t deadline_ns);

/** Free what nobody needs any more: regions after their quarantine, then domain and device. */
void sim_domain_reap(struct sim_domain *domain);

/* ---- memory.c ----------------------------------------------------------------------------------- */

/** Members of struct fabric_provider, which says what each promises. */
int sim_region_alloc(void *state, struct tarn_fabric_region *region);
int sim_region_register(void *state, struct tarn_fabric_region *region);
void sim_region_free(void *state, struct tarn_fabric_region *region);
int sim_region_touch(void *state, struct tarn_fabric_region *region);

/** Free it, and its memory unless that is the caller's. */
void sim_region_destroy(struct sim_region *region);

/** Change a word, for all who may see it. */
void sim_region_change(struct sim_region *region, uint64_t word, uint64_t value);

/** What a word is now. */
uint64_t sim_region_load(const struct sim_region *region, uint64_t word);

/** A READ begins: what is there is remembered from now on. */
void sim_region_read_begin(struct sim_op *op);

/** It ends. */
void sim_region_read_end(struct sim_op *op);

/** What it takes: bytes of the region between its beginning and now, drawn. */
void sim_region_sample(const struct sim_op *op, uint8_t *to);

/** Whether the words of an operation on a region may move in parts. */
bool sim_region_tears(const struct sim_op *op);

/** Leave any bytes where a WRITE would have gone on arriving, if its region is for bulk data. */
void sim_region_spoil(struct sim_op *op);

/** Let some more of a WRITE arrive: all of it with its last pulse. @return whether all of it is there */
bool sim_region_land(struct sim_op *op);

/** Fail the world if memory is not what it must be; of what is long a part at each call. */
void sim_region_compare(struct sim_region *region);

/** Member of struct fabric_provider, which says what it promises. */
int sim_net_wait_any(void *state, const struct tarn_fabric_word *words, uint32_t count, uint64_t deadline_ns,
                     uint32_t *ret_index);

/* ---- op.c --------------------------------------------------------------------------------------- */

/** Member of struct fabric_provider, which says what it promises. */
void sim_op_post(void *state, struct tarn_fabric_op *posted);

/** Begin what may begin. */
void sim_ops_progress(struct sim_side *side);

/** Tell the posters of a dead connection, and decide what goes on without them. */
void sim_ops_flush(struct sim_side *side);

/** No operation touches a region any more: those that were about to are refused. */
void sim_ops_take_back(struct sim_region *region);

/** A side's operations reach the other one no more: some of what is on its way arrives now, the rest never. */
void sim_ops_stop(struct sim_side *side);

/** Free one. */
void sim_op_drop(struct sim_op *op);

/** What a cut was in the way of goes on, or meets the next one. */
void sim_ops_resume(struct sim_side *side);

/* ---- speed.c ------------------------------------------------------------------------------------- */

/** Give a device the card of its node. */
void sim_speed_open(struct sim_device *device);

/** Take it back: nothing of it happens any more. */
void sim_speed_close(struct sim_device *device);

/** Whether the speed model says how long the ways of a side's operations take: both nodes have cards. */
bool sim_speed_rules(const struct sim_side *side);

/** Send one on its way, there (SIM_OP_GOING) or back (SIM_OP_COMING): its event comes when it has arrived. */
void sim_speed_send(struct sim_op *op);

/** The event of one has come. @return whether it goes on being on its way */
bool sim_speed_continue(struct sim_op *op);

/** It is on its way no more. */
void sim_speed_leave(struct sim_op *op);

/* ---- connection.c ----------------------------------------------------------------------------- */

/** The other end. */
static inline struct sim_side *sim_side_other(const struct sim_side *side)
{
    return &side->connection->sides[side == &side->connection->sides[0] ? 1 : 0];
}

/** The card that it is on. */
static inline struct sim_device *sim_side_device(const struct sim_side *side)
{
    return side->domain->device;
}

/** Whether there are two sides. */
static inline bool sim_side_met(const struct sim_side *side)
{
    return side->connection->meeting == SIM_ACCEPTED;
}

/** Members of struct fabric_provider, which says what each promises. */
int sim_listen(void *state, const char *address, void **ret_listener);
void sim_listener_close(void *state);
int sim_listener_wait(void *state, uint64_t deadline_ns, struct tarn_fabric_incoming **ret_incoming);
int sim_accept(struct tarn_fabric_incoming *incoming, void *domain,
               const struct tarn_fabric_connect_options *options, struct tarn_fabric_connection *owner,
               void **ret_connection);
void sim_reject(struct tarn_fabric_incoming *incoming, int error);
int sim_connect(void *state, const char *address, const struct tarn_fabric_connect_options *options,
                uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection);
int sim_receive(void *state, void *data, uint32_t room, uint64_t deadline_ns,
                struct tarn_fabric_message *ret_message);

/** fail() of struct fabric_provider; the network calls it, too, whenever a side has failed. */
void sim_side_fail(void *state);

/** Members of struct fabric_provider, which says what each promises. */
int sim_side_fence(void *state, uint64_t deadline_ns);
void sim_disconnect(void *state);

/** A message for a side's user. @return false: it can receive nothing any more */
bool sim_side_receive(struct sim_side *side, const struct tarn_fabric_message *message, const uint8_t *data);

/** The node of a card has ended: what becomes of listeners and connections. */
void sim_connections_leave(struct sim_device *device);

/** A direction was cut or healed. */
void sim_connections_look(struct sim_net *net);

#endif
