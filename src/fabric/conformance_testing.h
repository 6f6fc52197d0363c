/*
 * What every provider must do: written against fabric.h alone, run by each provider's test. Here what two sides
 * in one process can show; process_testing.h has the rest.
 */
#ifndef FABRIC_CONFORMANCE_TESTING_H
#define FABRIC_CONFORMANCE_TESTING_H

#include "fabric/buffers_testing.h"
#include "fabric/calls_testing.h"
#include "fabric/connections_testing.h"
#include "fabric/operations_testing.h"

TESTING_BOTH(bytes_arrive_at_all_offsets_and_lengths)
TESTING_BOTH(a_whole_region_moves)
TESTING_BOTH(vectors_are_gathered_and_scattered)
TESTING_BOTH(both_sides_reach_the_other)
TESTING_BOTH(bounds_are_kept)
TESTING_BOTH(rights_are_kept)
TESTING_BOTH(foreign_and_stale_handles_are_refused)
TESTING_BOTH(memory_of_the_callers_is_exported)
TESTING_BOTH(wrong_operations_are_refused)
TESTING_BOTH(wrong_calls_fail_as_operations_do)
TESTING_BOTH(who_has_used_a_region_loses_it)
TESTING_BOTH(many_regions_are_told_apart)
TESTING_BOTH(who_waits_for_credit_goes_first)
TESTING_BOTH(swaps_and_adds)
TESTING_BOTH(atomics_hold_under_contention)
TESTING_BOTH(words_are_whole)
TESTING_BOTH(what_has_completed_comes_first)
TESTING_BOTH(messages_come_in_order)
TESTING_BOTH(long_messages_and_small_rooms_are_refused)
TESTING_BOTH(writes_are_seen_before_the_message)
TESTING_BOTH(sleepers_are_woken)
TESTING_BOTH(rare_messages_wake_too)
TESTING_BOTH(a_fence_waits_for_all_before_it)
TESTING_BOTH(a_message_waits_for_a_fenced_write)
TESTING_BOTH(a_deadline_ends_the_connection)
TESTING_BOTH(the_peer_disconnects)
TESTING_BOTH(freed_memory_waits_for_its_writers)
TESTING_BOTH(connections_come_and_go)
TESTING_BOTH(private_data_is_exchanged)
TESTING_BOTH(nobody_accepts)
TESTING_BOTH(domains_have_limits)
TESTING_BOTH(buffers_hold_what_is_moved)
TESTING_BOTH(buffers_have_limits)
TESTING_BOTH(buffers_are_for_all_threads)
TESTING_BOTH(handles_can_be_sent)
TESTING_BOTH(a_word_is_waited_for)
TESTING_BOTH(operations_are_counted)
TESTING_BOTH(memory_that_is_not_there_is_an_error)
TESTING_BOTH(no_memory_to_connect)

#define CONFORMANCE_UNITS                                                                                    \
    TESTING_UNITS(bytes_arrive_at_all_offsets_and_lengths), TESTING_UNITS(a_whole_region_moves),             \
        TESTING_UNITS(vectors_are_gathered_and_scattered), TESTING_UNITS(both_sides_reach_the_other),        \
        TESTING_UNITS(bounds_are_kept), TESTING_UNITS(rights_are_kept),                                      \
        TESTING_UNITS(foreign_and_stale_handles_are_refused),                                                \
        TESTING_UNITS(memory_of_the_callers_is_exported), TESTING_UNITS(wrong_operations_are_refused),       \
        TESTING_UNITS(wrong_calls_fail_as_operations_do), TESTING_UNITS(who_has_used_a_region_loses_it),     \
        TESTING_UNITS(many_regions_are_told_apart), TESTING_UNITS(who_waits_for_credit_goes_first),          \
        TESTING_UNITS(swaps_and_adds), TESTING_UNITS(atomics_hold_under_contention),                         \
        TESTING_UNITS(words_are_whole), TESTING_UNITS(what_has_completed_comes_first),                       \
        TESTING_UNITS(messages_come_in_order), TESTING_UNITS(long_messages_and_small_rooms_are_refused),     \
        TESTING_UNITS(writes_are_seen_before_the_message), TESTING_UNITS(sleepers_are_woken),                \
        TESTING_UNITS(rare_messages_wake_too), TESTING_UNITS(a_fence_waits_for_all_before_it),               \
        TESTING_UNITS(a_message_waits_for_a_fenced_write), TESTING_UNITS(a_deadline_ends_the_connection),    \
        TESTING_UNITS(the_peer_disconnects), TESTING_UNITS(freed_memory_waits_for_its_writers),              \
        TESTING_UNITS(connections_come_and_go), TESTING_UNITS(private_data_is_exchanged),                    \
        TESTING_UNITS(nobody_accepts), TESTING_UNITS(domains_have_limits),                                   \
        TESTING_UNITS(buffers_hold_what_is_moved), TESTING_UNITS(buffers_have_limits),                       \
        TESTING_UNITS(buffers_are_for_all_threads), TESTING_UNITS(handles_can_be_sent),                      \
        TESTING_UNITS(a_word_is_waited_for), TESTING_UNITS(operations_are_counted),                          \
        cmocka_unit_test(a_cancelled_task_ends_its_connection_in_tasks),                                     \
        cmocka_unit_test(threads_use_a_connection_of_tasks_in_tasks),                                        \
        TESTING_UNITS(memory_that_is_not_there_is_an_error), TESTING_UNITS(no_memory_to_connect)

#endif
