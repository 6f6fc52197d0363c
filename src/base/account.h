/*
 * The memory accountant: every large user of memory asks it first, so that the whole never passes the cap.
 * Accounts form a tree: a user's account has its own name and charges its parent as well. Any thread.
 */
#ifndef BASE_ACCOUNT_H
#define BASE_ACCOUNT_H

#include "base/define.h"
#include "base/list.h"
#include "base/spin.h"

/** No cap of its own. */
#define BASE_ACCOUNT_UNLIMITED UINT64_MAX

/** Share of the cap at which the warning is given. */
#define BASE_ACCOUNT_WARN_PERCENT 80

/**
 * Called when the use, but for what is borrowed, rises to 80 % of the cap, once for each such crossing, in the thread that crossed it.
 * It may read the account, and must not take from it.
 */
typedef void base_account_warning_function(void *arg, uint64_t used_bytes, uint64_t cap_bytes);

/*
 * A user that borrows: it takes only what nobody else needs (base_account_borrow()), and is asked for it when somebody
 * does. The members are set by the borrower.
 */
struct base_borrower {
    /**
     * Return some of what was borrowed, by base_account_return(): a piece, so that the caller waits little. Called where
     * somebody is about to be refused, in any thread, under a spin lock: it neither yields nor takes memory.
     *
     * @return false: nothing can be returned now
     */
    bool (*give_back)(void *arg);
    void *arg;
    struct base_list link; /* place in the root account's list */
};

struct base_account {
    const char *name;
    struct base_account *parent; /* also charged; NULL at the root */
    uint64_t cap_bytes;
    _Atomic uint64_t used_bytes;
    _Atomic uint64_t borrowed_bytes; /* the part of used_bytes that is returned when somebody needs it */
    _Atomic uint64_t peak_bytes;
    _Atomic uint64_t refused_count; /* takes that failed here */
    _Atomic uint64_t fail_at;       /* test hook: countdown to a failure, 0 is off */
    _Atomic bool above_warning;
    base_account_warning_function *warning;
    void *warning_arg;
    struct base_spin users_lock; /* guards users and the siblings' links */
    struct base_list users;
    struct base_list sibling;
    struct base_spin borrowers_lock; /* guards the list that follows; held while one of them gives back */
    struct base_list borrowers;      /* of a root */
};

/**
 * Make a root account.
 *
 * @param cap_bytes  BASE_ACCOUNT_UNLIMITED for none
 */
void base_account_init(struct base_account *account, uint64_t cap_bytes);

/**
 * Make the account of a named user of memory. What it takes is charged to the parent as well.
 *
 * @param parent     outlives this account
 * @param name       borrowed for as long as the account lives
 * @param cap_bytes  own cap besides the parent's; BASE_ACCOUNT_UNLIMITED for none
 */
void base_account_init_user(struct base_account *account, struct base_account *parent, const char *name,
                            uint64_t cap_bytes);

/**
 * End an account. Everything must have been given back and all users ended: a leak is a bug, and asserted.
 */
void base_account_deinit(struct base_account *account);

/**
 * Have a function called when the use crosses 80 % of the cap. Set it before the account is shared.
 */
void base_account_set_warning(struct base_account *account, base_account_warning_function *warning,
                              void *arg);

/**
 * Charge bytes to an account and to its parents. Where a cap is in the way, borrowers are asked to return what they have.
 *
 * @return 0; -ENOMEM (over a cap, nothing charged)
 */
int base_account_take(struct base_account *account, uint64_t bytes) base_must_check;

/**
 * Give back bytes taken before.
 */
void base_account_give(struct base_account *account, uint64_t bytes);

/**
 * Have a borrower asked when the root of an account is at its cap. Any thread.
 */
void base_account_add_borrower(struct base_account *account, struct base_borrower *borrower);

/**
 * Ask it no more; it has returned what it had. Any thread.
 */
void base_account_remove_borrower(struct base_account *account, struct base_borrower *borrower);

/**
 * Charge bytes that are to be returned when somebody else needs them.
 *
 * @param spare_bytes  how much of the parents' caps shall still be left afterwards, so that others seldom have to ask
 * @return 0; -ENOMEM (too little is left, nothing charged). Asks no borrower, and counts no refusal.
 */
int base_account_borrow(struct base_account *account, uint64_t bytes, uint64_t spare_bytes) base_must_check;

/**
 * Return bytes that were borrowed.
 */
void base_account_return(struct base_account *account, uint64_t bytes);

/**
 * Bytes charged now, users' and what is borrowed included.
 */
uint64_t base_account_used(const struct base_account *account);

/**
 * The part of them that is borrowed.
 */
uint64_t base_account_borrowed(const struct base_account *account);

/**
 * Bytes that could be charged now, before this account or one of its parents is at its cap, if all that is borrowed
 * were returned: a hint, as others charge too.
 */
uint64_t base_account_left(const struct base_account *account);

/**
 * Bytes that could be charged now without anything being returned: a hint, likewise.
 */
uint64_t base_account_unused(const struct base_account *account);

/**
 * Call a function for each direct user of an account.
 *
 * @param visit  called under a spin lock: short, and it makes no account
 */
void base_account_visit_users(struct base_account *account,
                              void (*visit)(void *arg, const struct base_account *user), void *arg);

/**
 * For tests: the n-th take or allocation from now, of this account or any below it, fails with -ENOMEM; those
 * after it succeed again.
 *
 * @param n  1 is the very next; 0 switches the hook off
 */
void base_account_fail_at(struct base_account *account, uint64_t n);

/**
 * Allocate zeroed memory, aligned for any type, and charge it.
 *
 * @param bytes  0 is allowed
 * @return the memory; NULL if the account or the system has no more
 */
void *base_alloc(struct base_account *account, size_t bytes) base_must_check;

/**
 * Allocate zeroed memory at a given alignment, touch every page of it, and charge it.
 *
 * @param alignment  a power of two
 * @param bytes      0 is allowed
 * @return the memory; NULL if the account or the system has no more
 */
void *base_alloc_aligned(struct base_account *account, size_t alignment, size_t bytes) base_must_check;

/**
 * Resize what base_alloc or base_realloc returned; what is added is zeroed. Both sizes are charged for a moment.
 *
 * @param pointer    NULL: allocate
 * @param bytes      as it is now
 * @param new_bytes  0 is allowed, and frees nothing
 * @return the memory, which may have moved; NULL if the account or the system has no more: it is as it was
 */
void *base_realloc(struct base_account *account, void *pointer, size_t bytes, size_t new_bytes)
    base_must_check;

/**
 * Free what base_alloc, base_realloc or base_alloc_aligned returned, and give its bytes back.
 *
 * @param pointer  NULL does nothing
 * @param bytes    as they were allocated
 */
void base_free(struct base_account *account, void *pointer, size_t bytes);

/**
 * Map fresh zero pages, untouched: only what is used becomes resident, and all of it is charged. For memory
 * that is large in the worst case and small in the usual one.
 *
 * @param alignment  a power of two, BASE_PAGE_BYTES or more
 * @param bytes      1 or more
 * @return the memory; NULL if the account or the system has no more
 */
void *base_map(struct base_account *account, size_t alignment, size_t bytes) base_must_check;

/**
 * The same with only a part of it charged, for memory that becomes larger where it is: its user charges what
 * it uses besides (base_account_take()).
 *
 * @param charged_bytes  at most `bytes`
 */
void *base_map_part(struct base_account *account, size_t alignment, size_t bytes, size_t charged_bytes)
    base_must_check;

/**
 * Unmap what base_map returned, and give its bytes back.
 *
 * @param pointer  NULL does nothing
 * @param bytes    as they were mapped
 */
void base_unmap(struct base_account *account, void *pointer, size_t bytes);

/**
 * Unmap what base_map_part returned. @param charged_bytes  now
 */
void base_unmap_part(struct base_account *account, void *pointer, size_t bytes, size_t charged_bytes);

#endif
