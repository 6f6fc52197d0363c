/* The memory accountant: charging accounts up to the root, allocation on their behalf, failures on request. */
#include "base/account.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The counters order nothing but themselves: relaxed everywhere. */

void base_account_init(struct base_account *account, uint64_t cap_bytes)
{
    memset(account, 0, sizeof(*account));
    account->name = "";
    account->cap_bytes = cap_bytes;
    base_spin_init(&account->users_lock);
    base_list_init(&account->users);
    base_spin_init(&account->borrowers_lock);
    base_list_init(&account->borrowers);
}

void base_account_init_user(struct base_account *account, struct base_account *parent, const char *name,
                            uint64_t cap_bytes)
{
    base_assert(parent != NULL && name != NULL);
    base_account_init(account, cap_bytes);
    account->name = name;
    account->parent = parent;
    base_spin_lock(&parent->users_lock);
    base_list_push_back(&parent->users, &account->sibling);
    base_spin_unlock(&parent->users_lock);
}

void base_account_deinit(struct base_account *account)
{
    base_assert(base_account_used(account) == 0);
    base_assert(base_list_empty(&account->users) && base_list_empty(&account->borrowers));
    struct base_account *parent = account->parent;
    if (parent == NULL)
        return;
    base_spin_lock(&parent->users_lock);
    base_list_remove(&account->sibling);
    base_spin_unlock(&parent->users_lock);
}

void base_account_set_warning(struct base_account *account, base_account_warning_function *warning, void *arg)
{
    account->warning = warning;
    account->warning_arg = arg;
}

/* Whether the failure that a test asked for is due. */
static bool is_failure_due(struct base_account *account)
{
    uint64_t left = atomic_load_explicit(&account->fail_at, memory_order_relaxed);
    do {
        if (base_likely(left == 0))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&account->fail_at, &left, left - 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return left == 1;
}

/* What is used and would not be returned if somebody needed it. */
static uint64_t firm_bytes(const struct base_account *account, uint64_t used)
{
    return used - base_min(base_account_borrowed(account), used);
}

static bool is_above_warning(const struct base_account *account, uint64_t used)
{
    return account->cap_bytes != BASE_ACCOUNT_UNLIMITED &&
           (unsigned __int128)firm_bytes(account, used) * 100 >=
               (unsigned __int128)account->cap_bytes * BASE_ACCOUNT_WARN_PERCENT;
}

static void warn_if_due(struct base_account *account, uint64_t used)
{
    if (base_unlikely(is_above_warning(account, used)) &&
        !atomic_exchange_explicit(&account->above_warning, true, memory_order_relaxed) &&
        account->warning != NULL)
        account->warning(account->warning_arg, used, account->cap_bytes);
}

/* @param spare_bytes  that shall be left of the cap afterwards @return false: it would pass the cap */
static bool take_here(struct base_account *account, uint64_t bytes, uint64_t spare_bytes)
{
    uint64_t used = atomic_load_explicit(&account->used_bytes, memory_order_relaxed);
    do {
        uint64_t left = account->cap_bytes - used;
        if (bytes > left || spare_bytes > left - bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&account->used_bytes, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    used += bytes;
    uint64_t peak = atomic_load_explicit(&account->peak_bytes, memory_order_relaxed);
    while (used > peak && !atomic_compare_exchange_weak_explicit(&account->peak_bytes, &peak, used,
                                                                 memory_order_relaxed, memory_order_relaxed))
        continue;
    return true;
}

static void give_here(struct base_account *account, uint64_t bytes)
{
    uint64_t before = atomic_fetch_sub_explicit(&account->used_bytes, bytes, memory_order_relaxed);
    base_assert(before >= bytes);
    if (atomic_load_explicit(&account->above_warning, memory_order_relaxed) &&
        !is_above_warning(account, before - bytes))
        atomic_store_explicit(&account->above_warning, false, memory_order_relaxed);
}

/* ---- borrowing ---------------------------------------------------------------------------------------- */

static struct base_account *root_of(struct base_account *account)
{
    while (account->parent != NULL)
        account = account->parent;
    return account;
}

void base_account_add_borrower(struct base_account *account, struct base_borrower *borrower)
{
    struct base_account *root = root_of(account);
    base_spin_lock(&root->borrowers_lock);
    base_list_push_back(&root->borrowers, &borrower->link);
    base_spin_unlock(&root->borrowers_lock);
}

void base_account_remove_borrower(struct base_account *account, struct base_borrower *borrower)
{
    struct base_account *root = root_of(account);
    base_spin_lock(&root->borrowers_lock);
    base_list_remove(&borrower->link);
    base_spin_unlock(&root->borrowers_lock);
}

/* Have the next borrower return a piece, they take turns. @return false: none can, or it would not be enough */
static bool ask_borrowers(struct base_account *account, uint64_t bytes)
{
    bool given = false;
    if (base_account_borrowed(account) == 0 ||
        bytes > account->cap_bytes - firm_bytes(account, base_account_used(account)))
        return false;
    base_spin_lock(&account->borrowers_lock);
    base_list_for_each(node, &account->borrowers) {
        struct base_borrower *borrower = base_container_of(node, struct base_borrower, link);
        given = borrower->give_back(borrower->arg);
        if (!given)
            continue;
        base_list_remove(&borrower->link);
        base_list_push_back(&account->borrowers, &borrower->link);
        break;
    }
    base_spin_unlock(&account->borrowers_lock);
    return given;
}

int base_account_borrow(struct base_account *account, uint64_t bytes, uint64_t spare_bytes)
{
    for (struct base_account *at = account; at != NULL; at = at->parent) {
        if (!is_failure_due(at) && take_here(at, bytes, at == account ? 0 : spare_bytes)) {
            atomic_fetch_add_explicit(&at->borrowed_bytes, bytes, memory_order_relaxed);
            continue;
        }
        for (struct base_account *undo = account; undo != at; undo = undo->parent) {
            atomic_fetch_sub_explicit(&undo->borrowed_bytes, bytes, memory_order_relaxed);
            give_here(undo, bytes);
        }
        return -ENOMEM;
    }
    return 0;
}

void base_account_return(struct base_account *account, uint64_t bytes)
{
    for (struct base_account *at = account; at != NULL; at = at->parent) {
        uint64_t before = atomic_fetch_sub_explicit(&at->borrowed_bytes, bytes, memory_order_relaxed);
        base_assert(before >= bytes);
        give_here(at, bytes);
    }
}

/* ---- charging ----------------------------------------------------------------------------------------- */

int base_account_take(struct base_account *account, uint64_t bytes)
{
    base_assert(account != NULL);
    for (struct base_account *at = account; at != NULL; at = at->parent) {
        bool taken = false;
        if (!is_failure_due(at)) {
            do
                taken = take_here(at, bytes, 0);
            while (base_unlikely(!taken) && ask_borrowers(at, bytes));
        }
        if (taken) {
            warn_if_due(at, base_account_used(at));
            continue;
        }
        atomic_fetch_add_explicit(&at->refused_count, 1, memory_order_relaxed);
        for (struct base_account *undo = account; undo != at; undo = undo->parent)
            give_here(undo, bytes);
        return -ENOMEM;
    }
    return 0;
}

void base_account_give(struct base_account *account, uint64_t bytes)
{
    base_assert(account != NULL);
    for (struct base_account *at = account; at != NULL; at = at->parent)
        give_here(at, bytes);
}

uint64_t base_account_left(const struct base_account *account)
{
    uint64_t left_bytes = UINT64_MAX;
    for (; account != NULL; account = account->parent)
        left_bytes =
            base_min(left_bytes, account->cap_bytes - firm_bytes(account, base_account_used(account)));
    return left_bytes;
}

uint64_t base_account_unused(const struct base_account *account)
{
    uint64_t unused_bytes = UINT64_MAX;
    for (; account != NULL; account = account->parent)
        unused_bytes = base_min(unused_bytes, account->cap_bytes - base_account_used(account));
    return unused_bytes;
}

uint64_t base_account_used(const struct base_account *account)
{
    return atomic_load_explicit(&account->used_bytes, memory_order_relaxed);
}

uint64_t base_account_borrowed(const struct base_account *account)
{
    return atomic_load_explicit(&account->borrowed_bytes, memory_order_relaxed);
}

void base_account_visit_users(struct base_account *account,
                              void (*visit)(void *arg, const struct base_account *user), void *arg)
{
    base_spin_lock(&account->users_lock);
    base_list_for_each(node, &account->users)
        visit(arg, base_container_of(node, struct base_account, sibling));
    base_spin_unlock(&account->users_lock);
}

void base_account_fail_at(struct base_account *account, uint64_t n)
{
    atomic_store_explicit(&account->fail_at, n, memory_order_relaxed);
}

void *base_alloc(struct base_account *account, size_t bytes)
{
    if (base_account_take(account, bytes) != 0)
        return NULL;
    void *memory = calloc(1, base_max(bytes, (size_t)1));
    if (memory == NULL)
        base_account_give(account, bytes);
    return memory;
}

void *base_realloc(struct base_account *account, void *pointer, size_t bytes, size_t new_bytes)
{
    if (base_account_take(account, new_bytes) != 0)
        return NULL;
    uint8_t *memory = realloc(pointer, base_max(new_bytes, (size_t)1));
    if (memory == NULL) {
        base_account_give(account, new_bytes);
        return NULL;
    }
    if (new_bytes > bytes)
        memset(memory + bytes, 0, new_bytes - bytes);
    base_account_give(account, bytes);
    return memory;
}

void *base_alloc_aligned(struct base_account *account, size_t alignment, size_t bytes)
{
    base_assert(base_is_power_of_two(alignment));
    if (bytes > PTRDIFF_MAX - alignment || base_account_take(account, bytes) != 0)
        return NULL;
    size_t rounded = base_align_up(base_max(bytes, (size_t)1), alignment);
    void *memory = aligned_alloc(alignment, rounded);
    if (memory == NULL) {
        base_account_give(account, bytes);
        return NULL;
    }
    return memset(memory, 0, rounded);
}

void base_free(struct base_account *account, void *pointer, size_t bytes)
{
    if (pointer == NULL)
        return;
    free(pointer);
    base_account_give(account, bytes);
}

/* A mapping that begins at a multiple of a power of two. @return MAP_FAILED: no memory */
static void *map_aligned(size_t alignment, size_t bytes)
{
    size_t slack = alignment > BASE_PAGE_BYTES ? alignment : 0;
    uint8_t *memory =
        mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || slack == 0)
        return memory;
    size_t before = base_align_up((uintptr_t)memory, alignment) - (uintptr_t)memory;
    if (before > 0)
        (void)munmap(memory, before);
    if (slack > before)
        (void)munmap(memory + before + bytes, slack - before);
    return memory + before;
}

void *base_map_part(struct base_account *account, size_t alignment, size_t bytes, size_t charged_bytes)
{
    base_assert(base_is_power_of_two(alignment) && alignment >= BASE_PAGE_BYTES && bytes > 0 &&
                charged_bytes <= bytes);
    if (bytes > PTRDIFF_MAX - alignment || base_account_take(account, charged_bytes) != 0)
        return NULL;
    void *memory = map_aligned(alignment, base_align_up(bytes, BASE_PAGE_BYTES));
    if (memory != MAP_FAILED)
        return memory;
    base_account_give(account, charged_bytes);
    return NULL;
}

void *base_map(struct base_account *account, size_t alignment, size_t bytes)
{
    return base_map_part(account, alignment, bytes, bytes);
}

void base_unmap_part(struct base_account *account, void *pointer, size_t bytes, size_t charged_bytes)
{
    if (pointer == NULL)
        return;
    (void)munmap(pointer, base_align_up(bytes, BASE_PAGE_BYTES));
    base_account_give(account, charged_bytes);
}

void base_unmap(struct base_account *account, void *pointer, size_t bytes)
{
    base_unmap_part(account, pointer, bytes, bytes);
}
