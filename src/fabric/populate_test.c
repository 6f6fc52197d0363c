/* Pages of large regions: by several threads, by one where there are no more, and that none is left behind. */
#include "fabric/fabric_internal.h"
#include "fabric/testing.h"
#include <sys/mman.h>
#include <sys/resource.h>

enum { LARGE = 80 << 20 }; /* several threads' work, the last part shorter */

static unsigned count_threads(void)
{
    return testing_count_entries("/proc/self/task");
}

static void *nothing(void *arg)
{
    return arg;
}

/* Threads of this process, with those that a sanitizer starts besides the first. */
static unsigned count_threads_at_first(void)
{
    pthread_t thread;
    const unsigned before = count_threads();
    assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (unsigned i = 0; i < 20 && count_threads() != before;
         i++) /* one that has ended is seen for a moment */
        (void)task_sleep(5000000);
    return count_threads();
}

static uint8_t *map_pages(uint64_t bytes)
{
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

static bool is_there(uint8_t *memory, uint64_t bytes)
{
    static unsigned char resident[LARGE / BASE_PAGE_BYTES];
    uint64_t pages = bytes / BASE_PAGE_BYTES;
    if (mincore(memory, bytes, resident) != 0)
        return false;
    while (pages > 0 && (resident[pages - 1] & 1) != 0)
        pages--;
    return pages == 0;
}

static void all_pages_are_there_and_zero(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {BASE_PAGE_BYTES, LARGE - BASE_PAGE_BYTES};
    const unsigned threads = count_threads_at_first();
    for (unsigned i = 0; i < base_array_count(lengths); i++) {
        uint8_t *memory = map_pages(lengths[i] + BASE_PAGE_BYTES);
        assert_int_equal(fabric_populate(memory, lengths[i]), 0);
        assert_true(is_there(memory, lengths[i]));
        assert_false(is_there(memory + lengths[i], BASE_PAGE_BYTES));
        assert_true(base_is_zero(memory, lengths[i]));
        for (unsigned looks = 0; count_threads() != threads; looks++) {
            assert_true(looks < 2000);
            (void)task_sleep(5000000);
        }
        assert_int_equal(munmap(memory, lengths[i] + BASE_PAGE_BYTES), 0);
    }
}

/* All bytes of a region that is being made are counted, whichever thread has touched them. */
static void bytes_of_a_region_are_counted(void **state)
{
    (void)state;
    _Atomic uint64_t done = 0;
    struct tarn_fabric_region region = {.bytes = LARGE - BASE_PAGE_BYTES, .making = &done};
    uint8_t *memory = map_pages(LARGE);
    assert_int_equal(fabric_region_populate(&region, memory), 0);
    assert_int_equal(atomic_load(&done), region.bytes);
    assert_true(is_there(memory, region.bytes));
    region.making = NULL;
    assert_int_equal(fabric_region_populate(&region, memory), 0);
    assert_int_equal(munmap(memory, LARGE), 0);
}

static void pages_that_cannot_be_had_are_an_error(void **state)
{
    (void)state;
    uint8_t *memory = map_pages(LARGE);
    assert_int_equal(mprotect(memory + LARGE - BASE_PAGE_BYTES, BASE_PAGE_BYTES, PROT_READ), 0);
    assert_int_equal(fabric_populate(memory, LARGE), -ENOMEM);
    assert_int_equal(fabric_populate(memory + LARGE - BASE_PAGE_BYTES, BASE_PAGE_BYTES), -ENOMEM);
    assert_int_equal(munmap(memory, LARGE), 0);
}

/* In a process that may start no threads. @return its exit status: 77, it may all the same */
static int populate_alone(void)
{
    const struct rlimit none = {0};
    pthread_t thread;
    (void)setresuid(65534, 65534, 65534); /* the limit is not for root */
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || pthread_create(&thread, NULL, nothing, NULL) == 0)
        return 77;
    uint8_t *memory = map_pages(LARGE);
    return fabric_populate(memory, LARGE) == 0 && is_there(memory, LARGE) ? 0 : 1;
}

static void without_threads_it_is_done_alone(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(populate_alone());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pages_are_there_and_zero),
        cmocka_unit_test(bytes_of_a_region_are_counted),
        cmocka_unit_test(pages_that_cannot_be_had_are_an_error),
        cmocka_unit_test(without_threads_it_is_done_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
