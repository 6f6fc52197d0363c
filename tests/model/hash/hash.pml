/*
 * The hash store's operations by clients alone (README.md beside this file, "Protocol"): every step that is one operation of the
 * fabric is one step here, and all interleavings of all clients are looked at. Key 0 may be in slots 0 and 1, key 1 in
 * slots 1 and 2.
 *
 * What is checked, at every step: all words that refer to a key refer to what is its value now, and there is one if it has a
 * value; an operation returns what the key had at a moment between its begin and its end; a key is inserted only where it
 * is absent. That is linearizability: every change has its moment, the swap.
 *
 * A client that dies is one that takes no further step, and in each state others may go on without it. They may take its
 * lock at any moment: nothing here relies on clocks. A collect reads its slots in the order of their ranks.
 *
 * Options (-D): CLIENTS, OPERATIONS of each; RECOVERIES, at most so many locks are taken from others. The known-bad variants,
 * each of which must fail: NO_LOCK, ONE_COLLECT, CLEARED_VERSIONS, EARLY_REUSE, DUPLICATE_CLEARED, NO_BUMP.
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef OPERATIONS
#define OPERATIONS 2
#endif
#ifndef RECOVERIES
#define RECOVERIES 1
#endif

#define SLOTS   3
#define KEYS    2
#define RECORDS (CLIENTS * OPERATIONS + 1 + KEYS) /* 0: none; the last ones are there before; a record's number is its value, too */

#define EMPTY  0
#define LIVE   1
#define FROZEN 2

#define NOTHING 0
#define INSERT  1
#define MOVE    2

/* The index. A word's version tells it from all that were there before. */
byte state[SLOTS], record[SLOTS], version[SLOTS];

/* Records: the key that each is of, and its value. */
byte key_of[RECORDS], value_of[RECORDS];

/* Locks, one for each key: who has it (0: nobody), and its version. */
byte holder[KEYS], tenure[KEYS];

/* What each client is about to do under its lock: written before it has that. */
typedef intent {
    byte kind, from, from_version, to, to_version, what
}
intent intents[CLIENTS];

/* What is not in the store: the value of each key now, and which values it had while an operation ran. */
byte now[KEYS];
byte busy[CLIENTS]; /* with key + 1 */
short had[CLIENTS];
byte recoveries;

#define HAS(slot, k) (state[slot] != EMPTY && key_of[record[slot]] == k)

inline check()
{
    assert(!HAS(0, 0) || value_of[record[0]] == now[0]);
    assert(!HAS(1, 0) || value_of[record[1]] == now[0]);
    assert(!HAS(1, 1) || value_of[record[1]] == now[1]);
    assert(!HAS(2, 1) || value_of[record[2]] == now[1]);
    assert(now[0] == 0 || HAS(0, 0) || HAS(1, 0));
    assert(now[1] == 0 || HAS(1, 1) || HAS(2, 1));
}

inline set_value(k, value)
{
    now[k] = value;
    for (n : 0 .. CLIENTS - 1) {
        if
        :: busy[n] == k + 1 -> had[n] = had[n] | (1 << value)
        :: else
        fi
    }
    n = 0
}

/* A swap of a word: done if the version is still the one that was read. Versions only grow. */
#ifdef CLEARED_VERSIONS
#define NEXT(slot, new_state) (new_state == EMPTY -> 0 : version[slot] + 1)
#else
#define NEXT(slot, new_state) (version[slot] + 1)
#endif

inline swap(slot, old, new_state, new_record)
{
    done = false;
    if
    :: version[slot] == old ->
        version[slot] = NEXT(slot, new_state);
        state[slot] = new_state;
        record[slot] = (new_state == EMPTY -> 0 : new_record);
        done = true
    :: else
    fi
}

inline read(slot, into_state, into_record, into_version)
{
    d_step {
        into_state = state[slot];
        into_record = record[slot];
        into_version = version[slot]
    }
}

inline release(k)
{
    d_step {
        if
        :: holder[k] == me + 1 && tenure[k] == my_tenure ->
            holder[k] = 0;
            tenure[k]++
        :: else
        fi;
        my_tenure = 0
    }
}

/* Take the lock of a key, whose holder's intent is one's own from then on. `got`: it was free */
inline acquire(k)
{
    got = false;
    if
    :: d_step {
        holder[k] == 0 ->
        holder[k] = me + 1;
        tenure[k]++;
        my_tenure = tenure[k];
        got = true
    }
    :: recoveries < RECOVERIES && holder[k] != 0 && holder[k] != me + 1 -> recover(k)
    fi
}

/* Take an expired lock, and finish or undo what its holder was about to do. Afterwards nothing of that can happen any more. */
inline recover(k)
{
    d_step {
        other = holder[k];
        other_tenure = tenure[k]
    }
    if
    :: other != 0 && other != me + 1 ->
        d_step { /* read word by word; it does not change as long as the lock is held */
            intents[me].kind = intents[other - 1].kind;
            intents[me].from = intents[other - 1].from;
            intents[me].from_version = intents[other - 1].from_version;
            intents[me].to = intents[other - 1].to;
            intents[me].to_version = intents[other - 1].to_version;
            intents[me].what = intents[other - 1].what
        }
        d_step {
            if
            :: recoveries < RECOVERIES && holder[k] == other && tenure[k] == other_tenure ->
                recoveries++;
                holder[k] = me + 1;
                tenure[k]++;
                my_tenure = tenure[k]
            :: else -> my_tenure = 0
            fi
        }
        if
        :: my_tenure != 0 ->
#ifndef NO_BUMP
            if
            :: intents[me].kind == INSERT -> /* if the word is as it was, it is that no more */
                d_step { swap(intents[me].to, intents[me].to_version, EMPTY, 0); check() }
            :: intents[me].kind == MOVE -> finish_move()
            :: else
            fi;
#endif
            release(k)
        :: else
        fi
    :: else
    fi
}

/* Whose move it was, and whether it has begun, does not matter: each step is done at most once. The swap of the destination decides. */
inline finish_move()
{
    d_step { /* not frozen yet: it never will be */
        if
        :: state[intents[me].from] == LIVE -> swap(intents[me].from, intents[me].from_version, LIVE, record[intents[me].from])
        :: else
        fi;
        check()
    }
    /* frozen, and the destination empty: it stays so */
    d_step {
        swap(intents[me].to, intents[me].to_version, EMPTY, 0);
        /* the whole word is compared: another key's move may have got as far there */
        moved = state[intents[me].to] == FROZEN && record[intents[me].to] == intents[me].what &&
                version[intents[me].to] == intents[me].to_version + 1;
        check()
    }
    if
    :: moved -> /* both refer to it */
        d_step { swap(intents[me].from, intents[me].from_version + 1, EMPTY, 0); check() }
        d_step { swap(intents[me].to, intents[me].to_version + 1, LIVE, intents[me].what); check() }
    :: else ->
        d_step {
            if
            :: state[intents[me].from] == FROZEN -> swap(intents[me].from, intents[me].from_version + 1, LIVE, intents[me].what)
            :: else
            fi;
            check()
        }
    fi
}

inline begin(k)
{
    d_step {
        busy[me] = k + 1;
        had[me] = 1 << now[k]
    }
}

/* The operation ends, and has found this value. */
inline found(value)
{
    d_step {
        assert(had[me] & (1 << value));
        busy[me] = 0;
        had[me] = 0
    }
}

inline end()
{
    d_step {
        busy[me] = 0;
        had[me] = 0
    }
}

/* One look at both slots of a key. `at`: that which refers to it; SLOTS: none */
inline collect(k, v0, v1)
{
    at = SLOTS;
    read(k, s, r, v0);
    if
    :: s != EMPTY && key_of[r] == k -> at = k; at_state = s; at_record = r; at_version = v0
    :: else ->
        free0 = (s == EMPTY);
        read(k + 1, s, r, v1);
        if
        :: s != EMPTY && key_of[r] == k -> at = k + 1; at_state = s; at_record = r; at_version = v1
        :: else -> free1 = (s == EMPTY)
        fi
    fi;
    s = 0;
    r = 0
}

inline forget()
{
    d_step {
        at = 0; at_state = 0; at_record = 0; at_version = 0; v0 = 0; v1 = 0; w0 = 0; w1 = 0; free0 = false; free1 = false;
        done = false; got = false; moved = false; other = 0; other_tenure = 0; my_tenure = 0;
        intents[me].kind = NOTHING; intents[me].from = 0; intents[me].from_version = 0; intents[me].to = 0;
        intents[me].to_version = 0; intents[me].what = 0
    }
}

proctype client(byte me)
{
    byte i, k, n, mine, at, at_state, at_record, at_version, v0, v1, w0, w1, s, r, other, other_tenure, my_tenure;
    bool free0, free1, done, got, moved, is_delete;
    do
    :: i == OPERATIONS -> break
    :: i < OPERATIONS ->
        i++;
        select (k : 0 .. KEYS - 1);
        if
        :: goto get
        :: goto put
        :: is_delete = true; goto get
        :: goto move
        fi;

get: /* and delete, which differs in what it does with what it finds */
        begin(k);
get_again:
        collect(k, v0, v1);
        if
        :: at < SLOTS && !is_delete ->
            /* the record is read after the word */
            if
            :: key_of[at_record] == k -> found(value_of[at_record])
            :: else -> goto get_again /* it was reused */
            fi
        :: at < SLOTS && is_delete ->
            if
            :: at_state == FROZEN -> recover(k); goto get_again
            :: else
            fi;
            d_step {
                swap(at, at_version, EMPTY, 0);
                if
                :: done -> set_value(k, 0)
                :: else
                fi;
                check()
            }
            if
            :: done -> end()
            :: else -> goto get_again
            fi
        :: at == SLOTS ->
#ifndef ONE_COLLECT
            collect(k, w0, w1);
            if
            :: at < SLOTS || v0 != w0 || v1 != w1 -> goto get_again
            :: else
            fi;
#endif
            found(0)
        fi;
        goto next;

put:
        begin(k);
        mine = me * OPERATIONS + i;
#ifdef EARLY_REUSE
        /* a record of before, as soon as no word refers to it */
        n = RECORDS - 1 - k;
        if
        :: me == 0 && record[0] != n && record[1] != n && record[2] != n -> mine = n
        :: else
        fi;
        n = 0;
#endif
        d_step {
            key_of[mine] = k;
            value_of[mine] = me * OPERATIONS + i
        }
put_again:
        collect(k, v0, v1);
        if
        :: at < SLOTS ->
            if
            :: at_state == FROZEN -> recover(k); goto put_again
            :: else
            fi;
            d_step {
                swap(at, at_version, LIVE, mine);
                if
                :: done -> set_value(k, value_of[mine])
                :: else
                fi;
                check()
            }
            if
            :: done -> end(); goto next
            :: else -> goto put_again
            fi
        :: at == SLOTS && !free0 && !free1 -> end(); goto next /* it is full */
        :: else
        fi;
        d_step {
            intents[me].kind = INSERT;
            intents[me].to = (free0 -> k : k + 1);
            intents[me].to_version = (free0 -> v0 : v1)
        }
#if !defined(NO_LOCK) && !defined(DUPLICATE_CLEARED)
        acquire(k);
        if
        :: !got -> goto put_again
        :: else
        fi;
        collect(k, v0, v1);
        if
        :: at < SLOTS -> release(k); goto put_again
        :: else
        fi;
#endif
        d_step {
            swap(intents[me].to, intents[me].to_version, LIVE, mine);
            if
            :: done ->
#ifndef DUPLICATE_CLEARED
                assert(now[k] == 0);
#endif
                set_value(k, value_of[mine])
            :: else
            fi;
#ifndef DUPLICATE_CLEARED
            check()
#endif
        }
#if !defined(NO_LOCK) && !defined(DUPLICATE_CLEARED)
        got = done;
        release(k);
        done = got;
#endif
        if
        :: !done -> goto put_again
        :: else
        fi;
#ifdef DUPLICATE_CLEARED
        collect(k, v0, v1);
        if
        :: at == k && intents[me].to == k + 1 -> d_step { swap(at, at_version, EMPTY, 0) }
        :: at == k && intents[me].to == k && HAS(k + 1, k) -> d_step { swap(k + 1, version[k + 1], EMPTY, 0) }
        :: else
        fi;
#endif
        end();
        goto next;

move:
        collect(k, v0, v1);
        if
        :: at == k -> read(k + 1, s, r, v1); free1 = (s == EMPTY); s = 0; r = 0
        :: else
        fi;
        if
        :: at < SLOTS && at_state == LIVE && ((at == k && free1) || (at == k + 1 && free0))
        :: else -> goto next
        fi;
        d_step {
            intents[me].kind = MOVE;
            intents[me].from = at;
            intents[me].from_version = at_version;
            intents[me].to = (at == k -> k + 1 : k);
            intents[me].to_version = (at == k -> v1 : v0);
            intents[me].what = at_record
        }
        acquire(k);
        if
        :: !got -> goto next
        :: else
        fi;
        d_step { swap(intents[me].from, intents[me].from_version, FROZEN, intents[me].what); check() }
        if
        :: !done -> release(k); goto next
        :: else
        fi;
        d_step { swap(intents[me].to, intents[me].to_version, FROZEN, intents[me].what); check() }
        if
        :: !done -> d_step { swap(intents[me].from, intents[me].from_version + 1, LIVE, intents[me].what); check() }
        :: else ->
            d_step { swap(intents[me].from, intents[me].from_version + 1, EMPTY, 0); check() }
            d_step { swap(intents[me].to, intents[me].to_version + 1, LIVE, intents[me].what); check() }
        fi;
        release(k);

next:
        is_delete = false;
        mine = 0;
        forget()
    od
}

/* At the beginning each key is absent, or in any of its slots. */
inline fill(k)
{
    if
    :: skip
    :: state[k] == EMPTY -> put_first(k, k)
    :: state[k + 1] == EMPTY -> put_first(k, k + 1)
    fi
}

inline put_first(k, slot)
{
    n = RECORDS - 1 - k;
    key_of[n] = k;
    value_of[n] = n;
    now[k] = n;
    state[slot] = LIVE;
    record[slot] = n
}

init {
    byte n;
    atomic {
        fill(0);
        fill(1);
        for (n : 0 .. CLIENTS - 1) {
            run client(n)
        }
    }
}
