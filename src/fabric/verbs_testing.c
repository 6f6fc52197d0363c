/* For the tests of `verbs`: two devices as what is tested, each the other's peer. */
#include "fabric/verbs_testing.h"

static struct verbs_testing *verbs_testing_devices(void)
{
    static struct verbs_testing devices;
    return &devices;
}

static void verbs_testing_address(char *ret_address, size_t room)
{
    static unsigned count;
    const unsigned port = 10000 + ((unsigned)getpid() * 37 + count++) % 50000;
    assert_true(snprintf(ret_address, room, "%s:%u", verbs_testing_devices()->host, port) < (int)room);
}

bool verbs_testing_prepare(void)
{
    struct verbs_testing *devices = verbs_testing_devices();
    const char *text = getenv("TARN_VERBS_TEST");
    if (text == NULL ||
        sscanf(text, "%31[^,],%47[^,],%31s", devices->server, devices->host, devices->client) != 3) {
        print_message("no RDMA devices to test with; tests/vm/verbs has some\n");
        return false;
    }
    (void)snprintf(devices->server_url, sizeof(devices->server_url), "verbs:%.31s", devices->server);
    (void)snprintf(devices->client_url, sizeof(devices->client_url), "verbs:%.31s", devices->client);
    devices->subject = (struct testing_subject){.url = devices->server_url,
                                                .client_url = devices->client_url,
                                                .address = verbs_testing_address,
                                                .registers = true,
                                                .fences_alone = true,
                                                .is_slow = true};
    return true;
}

void verbs_testing_be_patient(void)
{
    struct verbs_testing *devices = verbs_testing_devices();
    char *urls[] = {devices->server_url, devices->client_url};
    for (unsigned i = 0; i < base_array_count(urls); i++) {
        const size_t len = strlen(urls[i]), room = sizeof(devices->server_url) - len;
        assert_true(snprintf(urls[i] + len, room, ",heartbeat=20s") < (int)room);
    }
}

int verbs_testing_setup(void **state)
{
    *state = &verbs_testing_devices()->subject;
    return 0;
}
