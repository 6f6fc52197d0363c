/*
 * The hash store's operations by clients alone, as src/hash does them (its README, "Protocol" and "Growth"). README.md beside
 * this file tells what is in the model, and why it has so few states that clients may do any number of operations.
 *
 * Each alternative of client() is a step: one operation of the fabric, and what the client makes of its outcome. All interleavings of
 * these are looked at. A client that dies is one that takes no further step; in each state others may go on without it, and take its
 * lock at any moment: there is no clock.
 *
 * Checked at every step: all words that refer to a key have its value; if two do, both are frozen; none does if and only if the key is
 * absent; a new key is stored only where it is absent; and what a get, or a delete that finds nothing, answers is what the key had at
 * a moment between its begin and its end. That is linearizability: each change has its moment, the swap.
 *
 * Defined before this file:
 *   CLIENTS, KEYS (1, 2), RANKS (1 to 3)  key k may be in slots k to k + RANKS - 1 of an index
 *   MAY(me, i)   what client `me` may choose as its i-th operation: bits of GET, PUT ...
 *   OPERATIONS   of each client; not defined: any number, and i is 0
 *   OTHERS       other keys come to slots and go, at any moment
 *   ONE_LOCK     both keys have the same lock
 *   LOSSES       the outcomes of swaps that store or remove a record may be lost
 *   GROWTHS      the index may be replaced so many times
 *   ALONE        at some moment all clients but the first stop for good
 *   REUSE        records are in slots that their clients write again, when no word refers to them and they have rested
 *   CANARY       the history of the issue
 * The known-bad variants, each of which must fail: NO_LOCK, NO_BUMP, ONE_COLLECT, CLEARED_VERSIONS, DUPLICATE_CLEARED, VERSION_ALONE; with LOSSES
 * DELETE_SETTLED; with GROWTHS END_EARLY, NO_VIEW, NOT_CLOSED; with ALONE NO_RECOVERY;
 * with REUSE EARLY_REUSE, ONE_LOOK, STALE_LOOK.
 */
#ifndef GROWTHS
#define GROWTHS 0
#endif

#define INDEX    (RANKS + KEYS - 1) /* slots of an index */
#define SLOTS    ((GROWTHS + 1) * INDEX)
#define ALL      ((1 << READERS) - 1)
#define ME       (1 << me)
#define NOWHERE  (2 * RANKS)       /* no place of a key */
#define THE_VIEW (1 << NOWHERE)    /* in `todo`, beside places: the head's view */

/* A word: its state, and the key and the value of its record. It has no version: what a client has read is noted as changed instead. */
#define EMPTY   0
#define LIVE    1
#define FROZEN  2
#define CLOSED  3
#define WORD(key, value)       (LIVE | (key) << 2 | (value) << 4) /* with REUSE instead of the value: the record's number, and 8 * its generation */
#define OTHER                  WORD(3, 0) /* of a key that is not the model's */
#define STATE(word)            ((word) & 3)
#define VALUE(word)            ((word) >> 4)
#define AS_FROZEN(word)        ((word) - LIVE + FROZEN)
#define IS_OF(word, key)       ((STATE(word) == LIVE || STATE(word) == FROZEN) && ((word) >> 2 & 3) == (key))

/* Records, when they are told apart: 1 and 2 are client 0's, 3 and 4 client 1's ... They have a value, and 4 * their generation. */
#ifdef REUSE
#define RECORDS            (2 * CLIENTS + 1)
#define RECORD(word)       (VALUE(word) & 7)
#define FITS(word)         (records[RECORD(word)] >> 2 == VALUE(word) >> 3)
#define VALUE_OF(word)     (records[RECORD(word)] & 3)
#define FIRST_VALUE        3
#define READERS            (2 * CLIENTS) /* each client and the task by which it looks for replaced records */
#else
#define FITS(word)         true
#define VALUE_OF(word)     VALUE(word)
#define FIRST_VALUE        1
#define READERS            CLIENTS
#endif

/* Operations. Two values are enough: that one which a get gets wrongly, and any other. */
#define GET    0
#define PUT    1 /* of value 1 */
#define PUT_2  2 /* of value 2 */
#define DELETE 3
#define MOVE   4
#define GROW   5 /* begin a growth */
#define CLOSE  6 /* a slot of the old index */
#define FINISH 7 /* end a growth */
#define CLEAR_DUPLICATE 8

/* Where a client is. */
#define IDLE        0
#define COLLECT     1
#define SWAP        2
#define SETTLE      3
#define LOCK        4
#define PLACE       5
#define UNLOCK      6
#define FREEZE      7 /* a move */
#define SET         8
#define CLEAR       9
#define THAW        10
#define THAW_BACK   11
#define AWAIT       12 /* recovery */
#define BUMP_FROM   13
#define BUMP_TO     14
#define READ_TO     15
#define CLOSE_FROM  16
#define CLOSE_EMPTY 17
#define CLOSE_TO    18
#define READ_RECORD 19
#define GONE        20

/* Slots of records. */
#define FREE    0
#define TAKEN   1
#define USED    2
#define RESTING 3

#define NOTHING   0
#define INSERTION 1
#define MOVEMENT  2

/* The index, and of each word the clients that have not read it since it changed, or do not need to know. */
byte words[SLOTS], changed[SLOTS];

/* Locks: the holder and 1; 0: nobody. */
#ifdef ONE_LOCK
#define LOCK_OF(key) 0
#else
#define LOCK_OF(key) (key)
#endif
byte holder[KEYS];

/* What each client is about to do under a lock. Ages: how often a word has changed since it was read, as far as 2. */
typedef intent {
    byte kind, from, from_age, to, to_age, what
}
intent intents[CLIENTS];

#if GROWTHS > 0
byte view;
#endif

/* What is not in the store: the value of each key; and the key and 1 of which the first client has asked, which did not have the value `wrong` so far. */
byte now[KEYS], asked, wrong;
#ifdef ALONE
bool is_alone, is_busy; /* the first client, with an operation */
pid first;
#endif
#ifdef REUSE
byte records[RECORDS], uses[RECORDS], waited_for[RECORDS]; /* operations that were under way when a slot came to rest */
bool written[RECORDS];                                     /* since it was looked at */
byte running, overdue;                                     /* operations; of these, those that are too old to count */
#endif
#if defined(CANARY) || defined(DUPLICATE_CLEARED)
#define UNCHECKED /* answers alone: it is these that are to be wrong */
#endif
#ifdef CANARY
byte got;
bool got_A_then_B_then_A_again;
#endif

inline check(key)
{
#ifdef UNCHECKED
    skip
#else
    for (n : 0 .. SLOTS - 1) {
        if
        :: IS_OF(words[n], key) ->
            assert(FITS(words[n]) && VALUE_OF(words[n]) == now[key]);
            assert(count == 0 || (STATE(words[n]) == FROZEN && is_frozen));
            is_frozen = STATE(words[n]) == FROZEN;
            count++
        :: else
        fi
    }
    assert((count == 0) == (now[key] == 0));
    is_frozen = false;
    count = 0;
    n = 0
#endif
}

inline older(n, slot)
{
    if
    :: intents[n].kind == MOVEMENT && intents[n].from == slot && intents[n].from_age < 2 -> intents[n].from_age++
    :: else
    fi;
    if
    :: intents[n].kind != NOTHING && intents[n].to == slot && intents[n].to_age < 2 -> intents[n].to_age++
    :: else
    fi
}

/* A word becomes another one. */
inline set(slot, word)
{
    words[slot] = word;
    changed[slot] = ALL;
    older(0, slot);
    older(1, slot);
#if CLIENTS > 2
    older(2, slot);
#endif
    check(0);
#if KEYS > 1
    check(1)
#endif
}

/* The key's value is another one from now on. What is asked of it cannot be answered wrongly any more, if it has had that value. */
inline set_value(key, value)
{
    now[key] = value;
    if
    :: asked == key + 1 && value == wrong -> asked = 0; wrong = 0
    :: else
    fi
}

/* Nothing counts any more that was read. */
inline forget_words()
{
    for (n : 0 .. SLOTS - 1) {
        changed[n] = changed[n] | ME
    }
    n = 0;
    todo = 0;
    is_same = false;
    is_second = false;
    found = NOWHERE;
    found_word = 0;
    free = NOWHERE
}

/* A slot's record that no word refers to any more rests. */
inline rest(which)
{
    uses[which] = RESTING;
    waited_for[which] = running
}

/* Operations that wait for the slot's rest to end are too old. */
inline end_rest(which)
{
    uses[which] = FREE;
#ifndef EARLY_REUSE
    records[which] = records[which] & ~3; /* nobody may use what is there from now on */
    overdue = overdue | waited_for[which];
#endif
    waited_for[which] = 0
}

/* A put's record was not stored. */
inline give_back()
{
    if
    :: op == PUT && mine != 0 && !did -> uses[mine & 7] = FREE
    :: else
    fi
}

/* Write a record in a slot of one's own, with another generation than the one before. */
inline write_record(which, value)
{
    uses[which] = TAKEN;
    written[which] = true;
    records[which] = ((records[which] >> 2 ^ 1) << 2) + value;
    mine = which + 8 * (records[which] >> 2)
}

/* Nothing is left of an operation. If it has to begin again, that is another one, which begins later and has less time to be right. */
inline forget()
{
    forget_words();
    intents[me].kind = NOTHING;
    intents[me].from = 0;
    intents[me].from_age = 0;
    intents[me].to = 0;
    intents[me].to_age = 0;
    intents[me].what = 0;
    if
    :: me == 0 -> asked = 0; wrong = 0
    :: else
    fi;
#ifdef REUSE
    give_back();
    running = running & ~ME;
    overdue = overdue & ~ME;
    for (n : 1 .. RECORDS - 1) {
        waited_for[n] = waited_for[n] & ~ME
    }
    n = 0;
#endif
    is_locked = false;
    did = false;
    op = 0;
    k = 0;
    mine = 0;
    lock = 0
}

inline again()
{
    forget();
    at = IDLE
}

inline end()
{
    again();
#ifdef OPERATIONS
    i++;
#endif
#ifdef ALONE
    waits = 0;
    is_busy = is_busy && me != 0
#endif
}

inline answer(value)
{
#ifndef CANARY
    assert(me != 0 || asked == 0 || value != wrong);
#else
    if
    :: me == 0 && (got == 0 || got == 2) && value == 1 -> got++
    :: me == 0 && got == 1 && value == 2 -> got++
    :: else
    fi;
    got_A_then_B_then_A_again = got == 3;
    assert(!got_A_then_B_then_A_again);
#endif
    end()
}

/* Where a key may be, by the view that this client knows: in the newest index first. */
#if GROWTHS > 0
#define NEWEST       ((v + 1) / 2)
#define SLOT(place)  (((place) < RANKS -> NEWEST : v / 2) * INDEX + k + (place) % RANKS)
#define PLACES       ((1 << (RANKS + RANKS * (v % 2))) - 1)
#define GROWTH(slot) ((slot) / INDEX)
#define IS_OF_VIEW   is_of_view
#ifdef NOT_CLOSED
#define GONE_WORD    EMPTY
#else
#define GONE_WORD    CLOSED
#endif
#else
#define NEWEST       0
#define SLOT(place)  (k + (place))
#define PLACES       ((1 << RANKS) - 1)
#define GROWTH(slot) 0
#define IS_OF_VIEW   true
#endif
#ifdef REUSE
#define IS_OVERDUE   ((overdue & ME) != 0)
#else
#define IS_OVERDUE   false
#endif

/* Read all places of the key, in whatever order. */
inline collect()
{
    todo = PLACES;
    is_same = is_second;
#if GROWTHS > 0
    if
    :: is_second || is_locked -> todo = todo | THE_VIEW
    :: else
    fi;
    is_of_view = true;
#endif
    at = COLLECT
}

inline begin(operation, key, value)
{
    op = operation;
    k = key;
    mine = value;
#ifdef ALONE
    is_busy = is_busy || me == 0;
#endif
#ifdef REUSE
    if
    :: op != MOVE -> running = running | ME
    :: else
    fi;
#endif
    collect()
}

/* A get that cannot be answered wrongly any more tells nothing, as it changes nothing. */
#if defined(CANARY) || defined(ALONE)
#define IS_OPEN(key, value) true
#define IS_VAIN             false
#else
#define IS_OPEN(key, value) (me == 0 && now[key] != value)
#define IS_VAIN             (asked == 0)
#endif

/* What is asked must not be answered with a value that the key does not have before the end. */
inline ask(value)
{
    if
    :: me == 0 && now[k] != value -> asked = k + 1; wrong = value
    :: else
    fi
}

/* Of a key's slots that are empty, any may be the destination of a move. */
#if RANKS > 2
#define IS_WANTED(place) (mine == (place))
#else
#define IS_WANTED(place) true
#endif

/* Which slot is read, and what of it counts: only of these it is of interest whether they change. */
inline read_place(place)
{
    slot = SLOT(place);
    todo = todo & ~(1 << (place));
    is_same = is_same && (changed[slot] & ME) == 0;
    if
    :: IS_OF(words[slot], k) ->
        found = place;
        found_word = words[slot];
        todo = todo & ((1 << (place)) - 1) /* what comes behind does not count */
    :: !IS_OF(words[slot], k) && is_locked
    :: !IS_OF(words[slot], k) && !is_locked ->
        if
        :: op == PUT && place < RANKS && place < free && words[slot] == EMPTY -> free = place
        :: op == MOVE && place < RANKS && words[slot] == EMPTY && IS_WANTED(place) -> free = place
#if GROWTHS > 0
        :: op == PUT && place < RANKS && words[slot] == CLOSED -> is_of_view = false
#endif
        :: else
        fi
    fi;
    if
    :: op == GET || op == DELETE || found == place || free == place -> changed[slot] = changed[slot] & ~ME
    :: else
    fi;
    slot = 0;
    if
    :: todo == 0 -> decide()
    :: else
    fi
}

/* Of all that was read, the word that was found is needed on. */
inline keep_found()
{
    for (n : 0 .. SLOTS - 1) {
        if
        :: n != SLOT(found) -> changed[n] = changed[n] | ME
        :: else
        fi
    }
    n = 0;
    todo = 0;
    is_same = false;
    is_second = false;
    found_word = 0;
    free = NOWHERE
}

/* No place has the key. */
inline miss()
{
    if
#ifdef ONE_COLLECT
    :: true -> answer(0)
#elif defined(NO_VIEW)
    :: is_second && is_same -> answer(0)
#else
    :: is_second && is_same && IS_OF_VIEW && !IS_OVERDUE -> answer(0)
#endif
    :: else ->
#if GROWTHS > 0
        if
        :: is_second && !is_of_view -> again()
        :: else -> is_second = true; collect()
        fi
#elif defined(REUSE)
        if
        :: IS_OVERDUE -> again()
        :: else -> is_second = true; collect()
        fi
#else
        is_second = true;
        collect()
#endif
    fi
}

/* Write what is to be done under the lock. */
inline intend(what_kind, from_slot, to_slot)
{
    intents[me].kind = what_kind;
    intents[me].to = to_slot;
    intents[me].to_age = 2 * (changed[to_slot] >> me & 1);
    if
    :: what_kind == MOVEMENT ->
        intents[me].from = from_slot;
        intents[me].from_age = 2 * (changed[from_slot] >> me & 1);
        intents[me].what = found_word;
        mine = 0
    :: else
    fi;
    forget_words();
    lock = LOCK_OF(k);
    at = LOCK;
#if defined(NO_LOCK) || defined(DUPLICATE_CLEARED)
    if
    :: what_kind == INSERTION -> at = PLACE
    :: else
    fi
#endif
}

/* Somebody has the lock, or a word is frozen. */
inline await()
{
#ifdef ALONE
    slot = LOCK_OF(k);
    forget();
    lock = slot;
    slot = 0;
    at = AWAIT
#else
    again() /* and, from there, recover */
#endif
}

/* All places were read. */
inline decide()
{
    if
    :: is_locked && (found < NOWHERE || !IS_OF_VIEW) -> forget_words(); at = UNLOCK
    :: is_locked && found == NOWHERE && IS_OF_VIEW -> forget_words(); at = PLACE
#ifdef REUSE
    :: !is_locked && found < NOWHERE && op == GET -> slot = found_word; forget_words(); found_word = slot; slot = 0; at = READ_RECORD
#else
    :: !is_locked && found < NOWHERE && op == GET -> answer(VALUE(found_word))
#endif
    :: !is_locked && found < NOWHERE && (op == PUT || op == DELETE) ->
        if
        :: STATE(found_word) == FROZEN -> await()
#ifdef REUSE
        :: STATE(found_word) == LIVE && IS_OVERDUE -> again()
#endif
        :: else -> keep_found(); at = SWAP
        fi
    :: !is_locked && found < NOWHERE && op == MOVE ->
        if
        :: STATE(found_word) == LIVE && free < NOWHERE -> slot = SLOT(found); n = SLOT(free); intend_move()
        :: else -> end()
        fi
    :: !is_locked && found < NOWHERE && op == CLEAR_DUPLICATE ->
        if
        :: SLOT(found) != intents[me].to -> keep_found(); at = SWAP
        :: else -> end()
        fi
    :: !is_locked && found == NOWHERE && (op == GET || op == DELETE) -> miss()
    :: !is_locked && found == NOWHERE && op == PUT ->
        if
        :: free < NOWHERE && IS_OF_VIEW -> n = SLOT(free); intend(INSERTION, 0, n)
        :: free == NOWHERE && IS_OF_VIEW -> end() /* it is full */
        :: else -> again()
        fi
    :: else -> end()
    fi
}

inline intend_move()
{
    intend(MOVEMENT, slot, n);
    slot = 0
}

/* A word's key goes, for good or to an index. */
inline set_cleared(slot, to_growth)
{
#if GROWTHS > 0
    if
    :: GROWTH(slot) < to_growth -> set(slot, GONE_WORD)
    :: else -> set(slot, EMPTY)
    fi
#else
    set(slot, EMPTY)
#endif
}

/* A put's record is stored. */
inline use_mine()
{
#ifdef REUSE
    uses[mine & 7] = USED
#else
    skip
#endif
}

/* The swap of the word that was found. */
inline swap_found()
{
    slot = SLOT(found);
    if
    :: (changed[slot] & ME) == 0 ->
        did = true;
#ifdef REUSE
        n = RECORD(words[slot]);
        if
        :: (n - 1) / 2 == me && uses[n] == USED -> rest(n)
        :: else
        fi;
        n = 0;
#endif
        if
        :: op == PUT -> use_mine(); set_value(k, VALUE_OF(WORD(k, mine))); set(slot, WORD(k, mine))
        :: op == DELETE -> set_value(k, 0); set_cleared(slot, NEWEST)
        :: else -> set(slot, EMPTY)
        fi
    :: else
    fi
}

/* The swaps of an intent, each of one word from what the intent says it is. */
#define FROM_IS_READ   (intents[me].from_age == 0)
#define FROM_IS_FROZEN (intents[me].from_age == 1 && words[intents[me].from] == AS_FROZEN(intents[me].what))
#ifdef VERSION_ALONE
#define TO_IS_SET      (intents[me].to_age == 1)
#else
#define TO_IS_SET      (intents[me].to_age == 1 && words[intents[me].to] == AS_FROZEN(intents[me].what))
#endif
#ifdef CLEARED_VERSIONS
#define TO_IS_READ     (intents[me].to_age == 0 || words[intents[me].to] == EMPTY)
#else
#define TO_IS_READ     (intents[me].to_age == 0)
#endif

/* The swap of an empty slot for a new key. */
inline swap_new()
{
    if
    :: TO_IS_READ ->
#ifndef UNCHECKED
        assert(now[k] == 0);
#endif
        did = true;
        use_mine();
        set_value(k, VALUE_OF(WORD(k, mine)));
        set(intents[me].to, WORD(k, mine))
    :: else
    fi
}

/* The outcome of a swap was lost. Another one, to the same word with another version, tells it, and sees that it cannot happen later. */
inline settle_found()
{
    slot = SLOT(found);
    if
    :: (changed[slot] & ME) == 0 && !did -> set(slot, words[slot]); slot = 0; again()
    :: else ->
#ifdef DELETE_SETTLED
        assert(did || op != DELETE || words[slot] != EMPTY); /* else it says to have removed what another client has */
#endif
        slot = 0;
        end()
    fi
}

/* The same of a new key. Its lock stays: this client is like one that is gone, and others recover it. */
inline settle_new()
{
    if
    :: intents[me].to_age == 0 -> set(intents[me].to, words[intents[me].to])
    :: else
    fi;
    at = GONE
}

inline begin_close(rank, to_rank)
{
    op = CLOSE;
#ifdef ALONE
    is_busy = is_busy || me == 0;
#endif
    found = RANKS + rank;
    free = to_rank;
    at = CLOSE_FROM
}

/* No slot of the old index has a key, or can have one. */
#define IS_CLOSED(rank) (words[v / 2 * INDEX + rank] == GONE_WORD)
#ifdef END_EARLY
#define IS_OVER true
#elif RANKS > 1
#define IS_OVER (IS_CLOSED(0) && IS_CLOSED(1))
#else
#define IS_OVER IS_CLOSED(0)
#endif

#if defined(OPERATIONS) || defined(ALONE)
#define COUNTS true /* whether an operation has ended, or begins again */
#else
#define COUNTS false
#endif

/* Nothing of a put is needed any more but its lock and its intent. */
inline forget_put()
{
#ifdef REUSE
    give_back();
#endif
    is_locked = false;
    did = did && COUNTS;
    op = 0;
    k = 0;
    mine = 0
}

/*
 * Take a lock from its holder, with its intent. The client has read both before, one after the other, and written the intent as its own; but
 * an intent stays as it is as long as a lock is under it, so that a swap that succeeds tells that both were as they are now.
 */
inline take_over(which)
{
    lock = which;
    n = holder[lock] - 1;
    assert(intents[n].kind != NOTHING);
    intents[me].kind = intents[n].kind;
    intents[me].from = intents[n].from;
    intents[me].from_age = intents[n].from_age;
    intents[me].to = intents[n].to;
    intents[me].to_age = intents[n].to_age;
    intents[me].what = intents[n].what;
    n = 0;
    holder[lock] = me + 1;
#ifdef ALONE
    waits = waits + is_alone;
    assert(waits <= 1);
#endif
#ifdef NO_BUMP
    at = UNLOCK
#else
    if
    :: intents[me].kind == MOVEMENT -> at = BUMP_FROM
    :: else -> at = BUMP_TO
    fi
#endif
}

#ifdef ALONE
#define MAY_RUN            provided (!is_alone || _pid == first)
#define MAY_RECOVER(which) (at == AWAIT && lock == (which) && CAN_RECOVER)
#else
#define MAY_RUN
#define MAY_RECOVER(which) (at == IDLE)
#endif
#ifdef NO_RECOVERY
#define CAN_RECOVER false
#else
#define CAN_RECOVER true
#endif
#if defined(ALONE) && GROWTHS > 0 /* what has begun again has read the view */
#define CHOOSE(operation) (at == IDLE && (v == view || !is_alone) && (MAY(me, 0) & 1 << (operation)) != 0)
#elif defined(OPERATIONS)
#define CHOOSE(operation) (at == IDLE && i < OPERATIONS && (MAY(me, i) & 1 << (operation)) != 0)
#else
#define CHOOSE(operation) (at == IDLE && (MAY(me, 0) & 1 << (operation)) != 0)
#endif

proctype client(byte me) MAY_RUN
{
    byte at, op, k, mine, lock;
    byte todo, found, found_word, free; /* of a collect: what is to be read yet, where the key is, and a place for it */
    bool is_second, is_same, is_locked, did;
#if GROWTHS > 0
    byte v; /* the view that it knows */
    bool is_of_view;
#endif
#ifdef OPERATIONS
    byte i;
#endif
#ifdef ALONE
    byte waits; /* for a lease, since it is alone */
#endif
    byte slot, n, count; /* of no use between steps */
    bool is_frozen;
    d_step { again() }
    do
    :: d_step { CHOOSE(GET) && IS_OPEN(0, 0) -> begin(GET, 0, 0); ask(0) }
    :: d_step { CHOOSE(GET) && IS_OPEN(0, 2) -> begin(GET, 0, 0); ask(2) }
    :: d_step { at == COLLECT && op == GET && IS_VAIN -> again() }
#ifdef REUSE
    :: d_step { CHOOSE(PUT) && uses[2 * me + 1] == FREE -> write_record(2 * me + 1, 1); begin(PUT, 0, mine) }
    :: d_step { CHOOSE(PUT) && uses[2 * me + 2] == FREE -> write_record(2 * me + 2, 1); begin(PUT, 0, mine) }
    :: d_step { CHOOSE(PUT_2) && uses[2 * me + 1] == FREE -> write_record(2 * me + 1, 2); begin(PUT, 0, mine) }
    :: d_step { CHOOSE(PUT_2) && uses[2 * me + 2] == FREE -> write_record(2 * me + 2, 2); begin(PUT, 0, mine) }
    :: d_step { uses[2 * me + 1] == RESTING -> end_rest(2 * me + 1) }
    :: d_step { uses[2 * me + 2] == RESTING -> end_rest(2 * me + 2) }
    :: d_step {
        at == READ_RECORD ->
        if
        :: FITS(found_word) && !IS_OVERDUE -> answer(VALUE_OF(found_word))
        :: else -> again()
        fi
    }
#else
    :: d_step { CHOOSE(PUT) -> begin(PUT, 0, 1) }
    :: d_step { CHOOSE(PUT_2) -> begin(PUT, 0, 2) }
#endif
    :: d_step { CHOOSE(DELETE) -> begin(DELETE, 0, 0); ask(0) }
    :: d_step { CHOOSE(MOVE) -> begin(MOVE, 0, 0) }
#if RANKS > 2
    :: d_step { CHOOSE(MOVE) -> begin(MOVE, 0, 1) }
    :: d_step { CHOOSE(MOVE) -> begin(MOVE, 0, 2) }
#endif
#if KEYS > 1
    :: d_step { CHOOSE(GET) && IS_OPEN(1, 0) -> begin(GET, 1, 0); ask(0) }
    :: d_step { CHOOSE(GET) && IS_OPEN(1, 2) -> begin(GET, 1, 0); ask(2) }
    :: d_step { CHOOSE(PUT) -> begin(PUT, 1, 1) }
    :: d_step { CHOOSE(PUT_2) -> begin(PUT, 1, 2) }
    :: d_step { CHOOSE(DELETE) -> begin(DELETE, 1, 0); ask(0) }
    :: d_step { CHOOSE(MOVE) -> begin(MOVE, 1, 0) }
#endif
    /* collect */
    :: d_step { at == COLLECT && (todo & 1) != 0 -> read_place(0) }
#if RANKS > 1 || GROWTHS > 0
    :: d_step { at == COLLECT && (todo & 2) != 0 -> read_place(1) }
#endif
#if RANKS > 2 || RANKS > 1 && GROWTHS > 0
    :: d_step { at == COLLECT && (todo & 4) != 0 -> read_place(2) }
#endif
#if RANKS > 1 && GROWTHS > 0
    :: d_step { at == COLLECT && (todo & 8) != 0 -> read_place(3) }
#endif
#if GROWTHS > 0
    :: d_step {
        at == COLLECT && (todo & THE_VIEW) != 0 ->
        todo = todo & ~THE_VIEW;
        is_of_view = is_of_view && view == v;
        if
        :: todo == 0 -> decide()
        :: else
        fi
    }
#endif
    /* put over what is there, and delete */
    :: d_step {
        at == SWAP ->
        swap_found();
        slot = 0;
        if
        :: did || op == CLEAR_DUPLICATE -> end()
        :: else -> again()
        fi
    }
#ifdef LOSSES
    :: d_step { at == SWAP -> swap_found(); changed[slot] = changed[slot] & ~(did << me); slot = 0; at = SETTLE }
    :: d_step { at == SWAP -> at = SETTLE }
    :: d_step { at == SETTLE && !is_locked -> settle_found() }
    :: d_step { at == PLACE -> swap_new(); at = SETTLE }
    :: d_step { at == PLACE -> at = SETTLE }
    :: d_step { at == SETTLE && is_locked -> settle_new() }
#endif
    /* lock */
    :: d_step {
        at == LOCK && holder[lock] == 0 ->
        holder[lock] = me + 1;
        if
        :: op == PUT -> is_locked = true; collect()
        :: else -> did = COUNTS && op == MOVE; op = 0; k = 0; at = FREEZE
        fi
    }
    :: d_step { at == LOCK && holder[lock] != 0 -> await() }
    :: d_step {
        at == UNLOCK ->
        if
        :: holder[lock] == me + 1 -> holder[lock] = 0
        :: else
        fi;
        if
        :: did -> end()
        :: else -> again()
        fi
    }
    /* put what is new */
    :: d_step {
        at == PLACE ->
        swap_new();
#if defined(DUPLICATE_CLEARED)
        if
        :: did -> did = false; mine = 0; op = CLEAR_DUPLICATE; collect()
        :: else -> again()
        fi
#elif defined(NO_LOCK)
        if
        :: did -> end()
        :: else -> again()
        fi
#else
        forget_put();
        at = UNLOCK
#endif
    }
    /* move */
    :: d_step { at == FREEZE && FROM_IS_READ -> set(intents[me].from, AS_FROZEN(intents[me].what)); at = SET }
    :: d_step { at == FREEZE && !FROM_IS_READ -> at = UNLOCK }
    :: d_step { at == SET && TO_IS_READ -> set(intents[me].to, AS_FROZEN(intents[me].what)); at = CLEAR }
    :: d_step { at == SET && !TO_IS_READ -> at = THAW_BACK }
    :: d_step {
        at == CLEAR ->
        if
        :: FROM_IS_FROZEN -> set_cleared(intents[me].from, GROWTH(intents[me].to))
        :: else
        fi;
        at = THAW
    }
    :: d_step {
        at == THAW ->
        if
        :: TO_IS_SET -> set(intents[me].to, intents[me].what)
        :: else
        fi;
        at = UNLOCK
    }
    :: d_step {
        at == THAW_BACK ->
        if
        :: FROM_IS_FROZEN -> set(intents[me].from, intents[me].what)
        :: else
        fi;
        at = UNLOCK
    }
    /* recover */
    :: d_step { MAY_RECOVER(0) && holder[0] != 0 && holder[0] != me + 1 -> take_over(0) }
#if KEYS > 1
    :: d_step { MAY_RECOVER(1) && holder[1] != 0 && holder[1] != me + 1 -> take_over(1) }
#endif
#ifdef ALONE
    :: d_step { at == AWAIT && (!is_alone || holder[lock] == 0) -> again() }
#endif
    :: d_step {
        at == BUMP_FROM ->
        if
        :: FROM_IS_READ -> set(intents[me].from, words[intents[me].from])
        :: else
        fi;
        at = BUMP_TO
    }
    :: d_step {
        at == BUMP_TO ->
        if
        :: intents[me].to_age == 0 -> set(intents[me].to, words[intents[me].to])
        :: else
        fi;
        if
        :: intents[me].kind == MOVEMENT -> at = READ_TO
        :: else -> at = UNLOCK
        fi
    }
    :: d_step { at == READ_TO && TO_IS_SET -> at = CLEAR }
    :: d_step { at == READ_TO && !TO_IS_SET -> at = THAW_BACK }
#if GROWTHS > 0
    /* growth */
    :: d_step {
        at == IDLE && v != view ->
        v = view;
#ifdef ALONE
        is_busy = is_busy && !(me == 0 && v % 2 == 0 && (MAY(me, 0) & 1 << CLOSE) != 0) /* all is closed */
#endif
    }
    :: d_step { CHOOSE(GROW) && v % 2 == 0 && v / 2 < GROWTHS && view == v -> view++ }
    :: d_step { CHOOSE(FINISH) && v % 2 == 1 && IS_OVER && view == v -> view++ }
    :: d_step { CHOOSE(CLOSE) && v % 2 == 1 -> begin_close(0, 0) }
#if RANKS > 1
    :: d_step { CHOOSE(CLOSE) && v % 2 == 1 -> begin_close(0, 1) }
    :: d_step { CHOOSE(CLOSE) && v % 2 == 1 -> begin_close(1, 0) }
    :: d_step { CHOOSE(CLOSE) && v % 2 == 1 -> begin_close(1, 1) }
#endif
    :: d_step {
        at == CLOSE_FROM ->
        slot = SLOT(found);
        changed[slot] = changed[slot] & ~ME;
        if
        :: words[slot] == EMPTY -> at = CLOSE_EMPTY
        :: IS_OF(words[slot], k) && STATE(words[slot]) == LIVE -> found_word = words[slot]; at = CLOSE_TO
        :: IS_OF(words[slot], k) && STATE(words[slot]) == FROZEN -> await()
        :: words[slot] == GONE_WORD -> end()
        :: else -> again()
        fi;
        slot = 0
    }
    :: d_step {
        at == CLOSE_EMPTY ->
        slot = SLOT(found);
        if
        :: (changed[slot] & ME) == 0 -> set(slot, GONE_WORD)
        :: else
        fi;
        slot = 0;
        again()
    }
    :: d_step {
        at == CLOSE_TO ->
        slot = SLOT(found);
        n = SLOT(free);
        if
        :: words[n] == EMPTY -> changed[n] = changed[n] & ~ME; intend_move()
        :: else -> slot = 0; n = 0; again()
        fi
    }
#endif
    od
}

#ifdef OTHERS
/* Other keys in a slot. Whatever clients do with them, the word changes from one without the model's keys to another such. */
#if GROWTHS > 0
#define IS_THERE (GROWTH(slot) <= (view + 1) / 2)
#else
#define IS_THERE true
#endif
proctype others(byte slot; byte me) MAY_RUN
{
    byte n, count;
    bool is_frozen;
    do
    :: d_step { words[slot] == EMPTY && IS_THERE -> set(slot, OTHER) }
    :: d_step { words[slot] == OTHER -> set(slot, EMPTY) }
#if GROWTHS > 0
    :: d_step { (words[slot] == EMPTY || words[slot] == OTHER) && view == 2 * GROWTH(slot) + 1 -> set(slot, GONE_WORD) }
#endif
    od
}
#endif

#ifdef REUSE
inline look(a_record)
{
    which = a_record;
    written[which] = false;
    is_same = true;
    todo = 3
}

inline look_at(slot)
{
    todo = todo & ~(1 << slot);
    is_same = is_same && (!is_second || (changed[slot] & ME) == 0) && !(IS_OF(words[slot], 0) && RECORD(words[slot]) == which);
    changed[slot] = changed[slot] & ~ME;
    if
    :: !is_same -> todo = 0
#ifndef ONE_LOOK
    :: is_same && todo == 0 && !is_second -> is_second = true; todo = 3
#endif
    :: else
    fi
}

/* A client's task that looks whether a word refers to one of its records yet: twice at the slots of the record's key. */
proctype looker(byte owner)
{
    byte me, which, todo, n;
    bool is_second, is_same;
    me = CLIENTS + owner;
    do
    :: d_step { which == 0 && uses[2 * owner + 1] == USED -> look(2 * owner + 1) }
    :: d_step { which == 0 && uses[2 * owner + 2] == USED -> look(2 * owner + 2) }
    :: d_step { (todo & 1) != 0 -> look_at(0) }
    :: d_step { (todo & 2) != 0 -> look_at(1) }
    :: d_step {
        which != 0 && todo == 0 ->
        if
#ifdef STALE_LOOK
        :: is_same && uses[which] == USED -> rest(which)
#else
        :: is_same && uses[which] == USED && !written[which] -> rest(which)
#endif
        :: else
        fi;
        written[which] = true;
        which = 0;
        is_same = false;
        is_second = false;
        changed[0] = changed[0] | ME;
        changed[1] = changed[1] | ME
    }
    od
}
#endif

#ifdef CANARY
/* Slot 0 has another key at first, which goes. */
active proctype emptier()
{
    byte n, count;
    bool is_frozen;
    d_step { words[0] == OTHER -> set(0, EMPTY) }
}
#endif

#ifdef ALONE
active proctype stopper()
{
    is_alone = true
}

ltl ends { [] <> (!is_alone || !is_busy) }
#endif

/* At the beginning each key is absent, or in one of its slots. */
inline put_first(key, slot)
{
    words[slot] = WORD(key, FIRST_VALUE);
    now[key] = 1;
#ifdef REUSE
    records[3] = 1; /* client 1's */
    uses[3] = USED
#endif
}

init {
    byte n;
    atomic {
#ifdef CANARY
        words[0] = OTHER;
#else
        if
        :: skip
        :: put_first(0, 0)
#if RANKS > 1
        :: put_first(0, RANKS - 1)
#endif
        fi;
#if KEYS > 1
        if
        :: skip
        :: words[1] == EMPTY -> put_first(1, 1)
        :: put_first(1, RANKS)
        fi;
#endif
#endif
        for (n : 0 .. SLOTS - 1) {
#ifdef OTHERS
            run others(n, 1);
#endif
            changed[n] = ALL
        }
#ifdef ALONE
        first = run client(0);
#else
        run client(0);
#endif
        for (n : 1 .. CLIENTS - 1) {
            run client(n)
        }
#ifdef REUSE
        for (n : 1 .. RECORDS - 1) {
            written[n] = true
        }
        for (n : 0 .. CLIENTS - 1) {
            if
            :: (MAY(n, 0) & (1 << PUT | 1 << PUT_2)) != 0 -> run looker(n)
            :: else
            fi
        }
#endif
    }
}
