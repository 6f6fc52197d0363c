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
                                    "no_memory_to_connect_in_tasks",
                                    NULL};

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
    (void)snprintf(fixture->url, sizeof(fixture->url), "tcp:secret=%s/secret", fixture->files.folder);
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

int main(void)
{
    const struct testing_suite suites[] = {FABRIC_CONFORMANCE, {0}};
    const char
        *brief[base_array_count(shown)]; /* without the last test: where memory is lacking it is the same */
    memcpy(brief, shown, sizeof(brief));
    brief[base_array_count(shown) - 2] = NULL;
    return testing_run_suites("with the secret", suites, brief, with_secret, close_fixture) +
           testing_run_suites("by several sockets", suites, brief, with_sockets, close_fixture) +
           testing_run_suites("with certificates by several sockets", suites, shown, with_certificates,
                              close_fixture);
}
