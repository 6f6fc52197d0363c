/* Are caps kept, charges given back, and failures made when they are asked for? */
#include "base/testing.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/account.h"

static void test_cap(void **state base_unused)
{
    struct base_account account;
    base_account_init(&account, 100);
    assert_int_equal(base_account_take(&account, 60), 0);
    assert_int_equal(base_account_take(&account, 41), -ENOMEM);
    assert_int_equal(base_account_take(&account, UINT64_MAX), -ENOMEM);
    assert_int_equal(base_account_used(&account), 60);
    assert_int_equal(base_account_left(&account), account.cap_bytes - 60);
    assert_int_equal(base_account_take(&account, 40), 0);
    assert_int_equal(base_account_take(&account, 1), -ENOMEM);
    assert_int_equal(base_account_take(&account, 0), 0);
    base_account_give(&account, 100);
    assert_int_equal(base_account_used(&account), 0);
    assert_int_equal(account.peak_bytes, 100);
    assert_int_equal(account.refused_count, 3);
    base_account_deinit(&account);
}

static void collect_name(void *arg, const struct base_account *user)
{
    strncat(arg, user->name, 8);
}

static void test_users_charge_their_parents(void **state base_unused)
{
    struct base_account root, index, stacks;
    base_account_init(&root, 100);
    base_account_init_user(&index, &root, "index", BASE_ACCOUNT_UNLIMITED);
    base_account_init_user(&stacks, &root, "stacks", 30);
    assert_int_equal(base_account_take(&index, 70), 0);
    assert_int_equal(base_account_take(&stacks, 31), -ENOMEM);
    assert_int_equal(base_account_used(&root), 70);
    assert_int_equal(base_account_left(&root), 30);
    assert_int_equal(base_account_take(&stacks, 30), 0);
    /* Refused by the root: nothing stays charged to the user. */
    assert_int_equal(base_account_take(&index, 1), -ENOMEM);
    assert_int_equal(base_account_used(&index), 70);
    assert_int_equal(base_account_used(&root), 100);
    assert_int_equal(base_account_left(&index), 0); /* the root has none, whatever the user's own cap is */
    char names[32] = "";
    base_account_visit_users(&root, collect_name, names);
    assert_string_equal(names, "indexstacks");
    base_account_give(&stacks, 30);
    base_account_deinit(&stacks);
    base_account_give(&index, 70);
    assert_int_equal(base_account_used(&root), 0);
    names[0] = '\0';
    base_account_visit_users(&root, collect_name, names);
    assert_string_equal(names, "index");
    base_account_deinit(&index);
    base_account_deinit(&root);
}

static void count_warning(void *arg, uint64_t used_bytes, uint64_t cap_bytes)
{
    assert_true(used_bytes * 100 >= cap_bytes * BASE_ACCOUNT_WARN_PERCENT);
    ++*(int *)arg;
}

static void test_warning_once_per_crossing(void **state base_unused)
{
    struct base_account account;
    int warnings = 0;
    base_account_init(&account, 1000);
    base_account_set_warning(&account, count_warning, &warnings);
    assert_int_equal(base_account_take(&account, 799), 0);
    assert_int_equal(warnings, 0);
    assert_int_equal(base_account_take(&account, 1), 0);
    assert_int_equal(warnings, 1);
    assert_int_equal(base_account_take(&account, 100), 0);
    base_account_give(&account, 50);
    assert_int_equal(base_account_take(&account, 50), 0);
    assert_int_equal(warnings, 1);
    base_account_give(&account, 101);
    assert_int_equal(base_account_take(&account, 101), 0);
    assert_int_equal(warnings, 2);
    base_account_give(&account, 900);
    base_account_deinit(&account);
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

static void test_allocations(void **state base_unused)
{
    struct base_account account;
    base_account_init(&account, 1 << 20);
    uint8_t *plain = base_alloc(&account, 1000);
    uint8_t *aligned = base_alloc_aligned(&account, 4096, 5000);
    void *nothing = base_alloc(&account, 0);
    assert_true(plain != NULL && aligned != NULL && nothing != NULL);
    assert_int_equal((uintptr_t)aligned % 4096, 0);
    assert_true(is_zero(plain, 1000) && is_zero(aligned, 5000));
    assert_int_equal(base_account_used(&account), 6000);
    assert_null(base_alloc(&account, 1 << 20));
    assert_null(base_alloc_aligned(&account, 64, SIZE_MAX));
    assert_null(base_alloc_aligned(&account, 64, 1 << 20));
    assert_int_equal(base_account_used(&account), 6000);
    base_free(&account, plain, 1000);
    base_free(&account, aligned, 5000);
    base_free(&account, nothing, 0);
    base_free(&account, NULL, 77);
    base_account_deinit(&account);
}

static void test_resizing(void **state base_unused)
{
    struct base_account account;
    base_account_init(&account, 10000);
    uint8_t *memory = base_realloc(&account, NULL, 0, 1000);
    assert_true(memory != NULL && is_zero(memory, 1000));
    memset(memory, 7, 1000);
    memory = base_realloc(&account, memory, 1000, 5000);
    assert_true(memory != NULL && is_zero(memory + 1000, 4000));
    assert_true(memory[0] == 7 && memory[999] == 7);
    assert_int_equal(base_account_used(&account), 5000);
    assert_null(base_realloc(&account, memory, 5000, 5001)); /* both at once are too much */
    assert_int_equal(base_account_used(&account), 5000);
    assert_true(memory[999] == 7);
    memory = base_realloc(&account, memory, 5000, 500);
    assert_true(memory != NULL && memory[499] == 7);
    assert_int_equal(base_account_used(&account), 500);
    base_free(&account, memory, 500);
    base_account_deinit(&account);
}

#ifndef TESTING_SANITIZED
static void test_no_memory_from_the_system(void **state base_unused)
{
    struct base_account account;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    volatile size_t too_much = PTRDIFF_MAX - 4096;
    assert_null(base_alloc(&account, too_much));
    assert_null(base_alloc_aligned(&account, 64, too_much));
    assert_null(base_realloc(&account, NULL, 0, too_much));
    assert_int_equal(base_account_used(&account), 0);
    base_account_deinit(&account);
}
#endif

static void test_failure_on_request(void **state base_unused)
{
    struct base_account root, user;
    base_account_init(&root, BASE_ACCOUNT_UNLIMITED);
    base_account_init_user(&user, &root, "user", BASE_ACCOUNT_UNLIMITED);
    base_account_fail_at(&root, 3);
    assert_int_equal(base_account_take(&user, 1), 0);
    void *memory = base_alloc(&user, 1);
    assert_non_null(memory);
    assert_null(base_alloc_aligned(&user, 8, 1));
    assert_int_equal(base_account_take(&user, 1), 0);
    base_account_fail_at(&user, 1);
    base_account_fail_at(&user, 0);
    assert_int_equal(base_account_take(&user, 1), 0);
    base_free(&user, memory, 1);
    base_account_give(&user, 3);
    base_account_deinit(&user);
    base_account_deinit(&root);
}

static void give_too_much(void *arg)
{
    base_account_give(arg, 1);
}

static void end_leaking(void *arg)
{
    if (base_account_take(arg, 1) == 0)
        base_account_deinit(arg);
}

static void take_from_null(void *arg)
{
    if (base_account_take(arg, 1) != 0)
        exit(1);
}

static void test_bugs_abort(void **state base_unused)
{
    struct base_account account;
    base_account_init(&account, 10);
    assert_true(testing_aborts(give_too_much, &account));
    assert_true(testing_aborts(end_leaking, &account));
    assert_true(testing_aborts(take_from_null, NULL));
    base_account_deinit(&account);
}

#define THREADS 4
#define ROUNDS  20000
#define CAP     10

static void *take_and_give(void *arg)
{
    struct base_account *account = arg;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t bytes = 1 + (uint64_t)i % CAP;
        if (base_account_take(account, bytes) == 0) {
            if (base_account_used(account) > CAP)
                return account;
            base_account_give(account, bytes);
        }
    }
    return NULL;
}

static void test_threads_never_pass_the_cap(void **state base_unused)
{
    struct base_account account;
    pthread_t threads[THREADS];
    base_account_init(&account, CAP);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &account), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *over = NULL;
        pthread_join(threads[i], &over);
        assert_null(over);
    }
    assert_true(account.peak_bytes <= CAP);
    base_account_deinit(&account);
}

/* Memory that becomes larger where it is: only what is used of it is charged. */
static void test_mappings_in_part(void **state base_unused)
{
    const size_t bytes = (size_t)1 << 36;
    struct base_account account;
    base_account_init(&account, 2000);
    uint8_t *part = base_map_part(&account, BASE_PAGE_BYTES, bytes, 1000);
    assert_non_null(part);
    assert_int_equal(base_account_used(&account), 1000);
    assert_int_equal(base_account_take(&account, 500), 0);
    assert_int_equal(part[bytes - 1], 0);
    assert_null(base_map_part(&account, BASE_PAGE_BYTES, bytes, 501));
    base_unmap_part(&account, part, bytes, 1500);
    assert_int_equal(base_account_used(&account), 0);
    base_account_deinit(&account);
}

static void test_mappings(void **state base_unused)
{
    struct base_account account;
    base_account_init(&account, UINT64_C(1) << 40);
    const size_t alignments[] = {BASE_PAGE_BYTES, 2 << 20},
                 sizes[] = {1, BASE_PAGE_BYTES, 300000, (size_t)1 << 36};
    for (size_t i = 0; i < base_array_count(alignments); i++) {
        for (size_t j = 0; j < base_array_count(sizes); j++) {
            uint8_t *memory = base_map(&account, alignments[i], sizes[j]);
            assert_non_null(memory);
            assert_true(base_is_aligned((uintptr_t)memory, alignments[i]));
            assert_int_equal(base_account_used(&account), sizes[j]);
            assert_int_equal(memory[0] | memory[sizes[j] - 1], 0);
            memory[sizes[j] - 1] = 1;
            base_unmap(&account, memory, sizes[j]);
            assert_int_equal(base_account_used(&account), 0);
        }
    }
    assert_null(base_map(&account, BASE_PAGE_BYTES, ((size_t)1 << 40) + 1));
    assert_null(base_map(&account, BASE_PAGE_BYTES, SIZE_MAX));
    assert_null(base_map_part(&account, BASE_PAGE_BYTES, SIZE_MAX, 0));
    base_unmap(&account, NULL, 1);
    base_account_deinit(&account);
}

struct borrowing {
    struct base_account root, tier;
    struct base_borrower borrower;
    uint64_t held_bytes; /* that it does not return */
};

static bool give_ten_back(void *arg)
{
    struct borrowing *borrowing = arg;
    if (base_account_used(&borrowing->tier) < 10 + borrowing->held_bytes)
        return false;
    base_account_return(&borrowing->tier, 10);
    return true;
}

static void begin_borrowing(struct borrowing *borrowing)
{
    base_account_init(&borrowing->root, 1000);
    base_account_init_user(&borrowing->tier, &borrowing->root, "tier", 800);
    borrowing->borrower = (struct base_borrower){.give_back = give_ten_back, .arg = borrowing};
    borrowing->held_bytes = 0;
    base_account_add_borrower(&borrowing->tier, &borrowing->borrower);
}

static void end_borrowing(struct borrowing *borrowing)
{
    base_account_return(&borrowing->tier, base_account_used(&borrowing->tier));
    base_account_remove_borrower(&borrowing->tier, &borrowing->borrower);
    base_account_deinit(&borrowing->tier);
    assert_int_equal(base_account_used(&borrowing->root), 0);
    base_account_deinit(&borrowing->root);
}

static void test_what_is_borrowed_is_free_for_others(void **state base_unused)
{
    struct borrowing borrowing;
    struct base_account *root = &borrowing.root;
    begin_borrowing(&borrowing);
    assert_int_equal(base_account_take(root, 100), 0);
    assert_int_equal(base_account_borrow(&borrowing.tier, 801, 0), -ENOMEM); /* its own cap */
    assert_int_equal(base_account_borrow(&borrowing.tier, 800, 101), -ENOMEM);
    assert_int_equal(base_account_borrow(&borrowing.tier, 800, 100), 0);
    assert_int_equal(root->refused_count, 0);
    assert_false(root->above_warning); /* 900 are used, and 100 of them stay so */
    assert_int_equal(base_account_used(root), 900);
    assert_int_equal(base_account_left(root), 900);
    assert_int_equal(base_account_unused(root), 100);
    assert_int_equal(base_account_unused(&borrowing.tier), 0);
    assert_int_equal(base_account_take(root, 100), 0);
    assert_int_equal(base_account_used(&borrowing.tier), 800); /* nobody had to ask */
    assert_int_equal(base_account_take(root, 101), 0);
    assert_int_equal(base_account_used(&borrowing.tier), 690); /* pieces of 10 */
    assert_int_equal(base_account_take(root, 700), -ENOMEM); /* more than there is, so nothing is returned */
    assert_int_equal(base_account_used(&borrowing.tier), 690);
    borrowing.held_bytes = 600;
    assert_int_equal(base_account_take(root, 200), -ENOMEM); /* it returns what it can */
    assert_int_equal(base_account_used(&borrowing.tier), 600);
    assert_int_equal(root->refused_count, 2);
    base_account_give(root, 301);
    end_borrowing(&borrowing);
}

static void test_warnings_leave_out_what_is_borrowed(void **state base_unused)
{
    struct borrowing borrowing;
    begin_borrowing(&borrowing);
    assert_int_equal(base_account_borrow(&borrowing.tier, 800, 0), 0);
    assert_int_equal(base_account_take(&borrowing.root, 799), 0);
    assert_false(borrowing.root.above_warning);
    assert_int_equal(base_account_take(&borrowing.root, 1), 0);
    assert_true(borrowing.root.above_warning);
    base_account_give(&borrowing.root, 800);
    end_borrowing(&borrowing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cap),
        cmocka_unit_test(test_users_charge_their_parents),
        cmocka_unit_test(test_warning_once_per_crossing),
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_resizing),
#ifndef TESTING_SANITIZED
        cmocka_unit_test(test_no_memory_from_the_system),
#endif
        cmocka_unit_test(test_failure_on_request),
        cmocka_unit_test(test_bugs_abort),
        cmocka_unit_test(test_mappings),
        cmocka_unit_test(test_mappings_in_part),
        cmocka_unit_test(test_threads_never_pass_the_cap),
        cmocka_unit_test(test_what_is_borrowed_is_free_for_others),
        cmocka_unit_test(test_warnings_leave_out_what_is_borrowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
