/* What every provider must do, done by `tcp` under TLS, with secret and with certificates, and by several sockets. */
#include "fabric/conformance_testing.h"
#include "fabric/tcp_tls_testing.h"

/* Nothing above knows of it: these show that bytes, ends and failures come through as they do without. */
static const char *const shown[] = {"bytes_arrive_at_all_offsets_and_lengths",
                                    "a_whole_region_moves",
                                    "vectors_are_gathered_and_scattered",
                                    "both_sides_reach_the_other",
                                    "rights_are_kept",
                                    "messages_come_in_order",
                                    "writes_are_seen_before_the_message",
                                    "private_data_is_exchanged",
                                    "the_peer_disconnects",
                                    "a_deadline_ends_the_connection_in_tasks",
                                    "no_memory_to_connect_in_tasks"};

struct fixture {
    struct testing_subject subject; /* first: it is what the tests take for their state */
    struct tcp_testing_files files;
    char url[160];
};

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    tcp_testing_files_open(&fixture->files);
    fixture->subject = (struct testing_subject){
        .url = fixture->url, .address = tcp_testing_address, .is_served = true, .fences_alone = true};
    *state = fixture;
    return 0;
}

static int with_secret(void **state)
{
    (void)open_fixture(state);
    struct fixture *fixture = *state;
    tcp_testing_secret(&fixture->files, "secret", "the quick brown fox jumps");
    (void)snprintf(fixture->url, sizeof(fixture->url), "tcp:tls,secret=%s/secret", fixture->files.folder);
    return 0;
}

static int with_sockets(void **state)
{
    (void)open_fixture(state);
    struct fixture *fixture = *state;
    (void)snprintf(fixture->url, sizeof(fixture->url), "tcp:sockets=3");
    return 0;
}

static int with_certificates(void **state)
{
    (void)open_fixture(state);
    struct fixture *fixture = *state;
    const char *folder = fixture->files.folder;
    struct tcp_testing_identity authority = tcp_testing_certify("authority", NULL, -60, TCP_TESTING_DAY);
    struct tcp_testing_identity member = tcp_testing_certify("member", &authority, -60, TCP_TESTING_DAY);
    tcp_testing_save(&fixture->files, "authority", &authority, NULL);
    tcp_testing_save(&fixture->files, "member", &member, NULL);
    assert_true(snprintf(fixture->url, sizeof(fixture->url),
                         "tcp:tls,sockets=2,cert=%s/member.cert,key=%s/member.key,ca=%s/authority.cert",
                         folder, folder, folder) < (int)sizeof(fixture->url));
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    tcp_testing_files_close(&fixture->files);
    free(fixture);
    return 0;
}

static bool is_shown(const char *name, size_t most)
{
    for (unsigned i = 0; i < most; i++) {
        if (strncmp(name, shown[i], strlen(shown[i])) == 0)
            return true;
    }
    return false;
}

int main(void)
{
    const struct CMUnitTest all[] = {CONFORMANCE_UNITS};
    const size_t brief = base_array_count(shown) - 1; /* where memory is lacking it is the same */
    struct CMUnitTest tests[base_array_count(all)];
    size_t count = 0, less = 0;
    for (unsigned i = 0; i < base_array_count(all); i++) {
        if (is_shown(all[i].name, brief))
            tests[count++] = all[i];
    }
    less = count;
    for (unsigned i = 0; i < base_array_count(all); i++) {
        if (is_shown(all[i].name, base_array_count(shown)) && !is_shown(all[i].name, brief))
            tests[count++] = all[i];
    }
    return _cmocka_run_group_tests("with the secret", tests, less, with_secret, close_fixture) +
           _cmocka_run_group_tests("by several sockets", tests, less, with_sockets, close_fixture) +
           _cmocka_run_group_tests("with certificates by several sockets", tests, count, with_certificates,
                                   close_fixture);
}
