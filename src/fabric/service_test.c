/* The thread that watches descriptors: what it tells whom, and that it tells nobody what was for another. */
#include "fabric/service.h"
#include "fabric/testing.h"
#include <fcntl.h>

struct watched {
    struct fabric_source source;
    int write_end;
    _Atomic unsigned events;
};

static void count_event(struct fabric_source *source)
{
    struct watched *watched = base_container_of(source, struct watched, source);
    char byte;
    atomic_fetch_add(&watched->events, 1);
    (void)read(source->fd, &byte, 1);
}

static void make_watched(struct watched *watched)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    *watched = (struct watched){.source = {.fd = ends[0], .event = count_event}, .write_end = ends[1]};
}

static void close_watched(struct watched *watched)
{
    assert_int_equal(close(watched->source.fd), 0);
    assert_int_equal(close(watched->write_end), 0);
}

static bool comes_to(struct watched *watched, unsigned events)
{
    for (uint64_t until_ns = TESTING_LATE; atomic_load(&watched->events) != events && task_now() < until_ns;)
        (void)task_sleep(1000000);
    return atomic_load(&watched->events) == events;
}

static void open_service(struct tarn_node **ret_node, struct fabric_service *service)
{
    const struct task_node_options quiet = {.log_level = BASE_LOG_ERROR};
    assert_int_equal(task_node_open(&quiet, ret_node), 0);
    assert_int_equal(fabric_service_open(service, "service"), 0);
}

static void sources_are_told_until_they_are_forgotten(void **state)
{
    (void)state;
    enum { SOURCES = 200 }; /* more than are fetched at once */
    static struct watched watched[SOURCES];
    struct fabric_service service;
    struct tarn_node *node;
    open_service(&node, &service);
    fabric_service_close(
        &service); /* and leaves nothing behind, not even a thread that will end in a moment */
    const unsigned descriptors = testing_count_entries("/proc/self/fd");
    assert_int_equal(fabric_service_open(&service, "service"), 0);
    task_mutex_lock_firmly(&service.lock);
    for (unsigned i = 0; i < SOURCES; i++) {
        make_watched(&watched[i]);
        assert_int_equal(fabric_service_watch(&service, &watched[i].source), 0);
    }
    task_mutex_unlock(&service.lock);
    for (unsigned i = 0; i < SOURCES; i++)
        assert_int_equal(write(watched[i].write_end, "1", 1), 1);
    for (unsigned i = 0; i < SOURCES; i++)
        assert_true(comes_to(&watched[i], 1));
    task_mutex_lock_firmly(&service.lock);
    for (unsigned i = 0; i < SOURCES; i++) {
        fabric_service_forget_locked(&service, &watched[i].source);
        fabric_service_forget_locked(&service, &watched[i].source); /* which is nothing */
    }
    task_mutex_unlock(&service.lock);
    for (unsigned i = 0; i < SOURCES; i++)
        assert_int_equal(write(watched[i].write_end, "2", 1), 1);
    (void)task_sleep(10000000);
    for (unsigned i = 0; i < SOURCES; i++) {
        assert_int_equal(atomic_load(&watched[i].events), 1);
        close_watched(&watched[i]);
    }
    fabric_service_close(&service);
    assert_int_equal(testing_count_entries("/proc/self/fd"), descriptors);
    task_node_close(node);
}

/* The thread has an event in its hands while its source goes, and another comes with the same descriptor. */
static void an_old_event_is_for_nobody(void **state)
{
    (void)state;
    struct fabric_service service;
    struct tarn_node *node;
    struct watched old, new;
    open_service(&node, &service);
    make_watched(&old);
    task_mutex_lock_firmly(&service.lock);
    assert_int_equal(fabric_service_watch(&service, &old.source), 0);
    assert_int_equal(write(old.write_end, "1", 1), 1);
    (void)task_sleep(50000000); /* it waits for the lock now */
    fabric_service_forget_locked(&service, &old.source);
    close_watched(&old);
    make_watched(&new);
    assert_int_equal(new.source.fd, old.source.fd);
    assert_int_equal(fabric_service_watch(&service, &new.source), 0);
    task_mutex_unlock(&service.lock);
    (void)task_sleep(20000000);
    assert_int_equal(atomic_load(&old.events), 0);
    assert_int_equal(atomic_load(&new.events), 0);
    assert_int_equal(write(new.write_end, "1", 1), 1);
    assert_true(comes_to(&new, 1));
    task_mutex_lock_firmly(&service.lock);
    fabric_service_forget_locked(&service, &new.source);
    task_mutex_unlock(&service.lock);
    close_watched(&new);
    fabric_service_close(&service);
    task_node_close(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_are_told_until_they_are_forgotten),
        cmocka_unit_test(an_old_event_is_for_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
