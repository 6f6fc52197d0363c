/* What is common to all providers: which one is used, and what one that is handed in with the node decides. */
#include "fabric/testing.h"

/* ---- a provider that only notes what it is asked ------------------------------------------------- */

struct fake {
    unsigned open, domains, regions;
    unsigned loads, stores, copies_out, copies_in, waits;
    uint64_t word;
};

static int fake_open(struct tarn_node *node, void *provider_arg, struct tarn_fabric_info *ret_info,
                     void **ret_state)
{
    (void)node;
    struct fake *fake = provider_arg;
    fake->open++;
    *ret_info = (struct tarn_fabric_info){.provider = "fake", .atomics = TARN_FABRIC_ATOMICS_DEVICE};
    *ret_state = fake;
    return 0;
}

static void fake_close(void *state)
{
    struct fake *fake = state;
    fake->open--;
}

static int fake_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain)
{
    struct fake *fake = state;
    if (options->regions_max == 13)
        return -ENOSPC;
    fake->domains++;
    *ret_domain = fake;
    return 0;
}

static void fake_domain_close(void *domain)
{
    struct fake *fake = domain;
    fake->domains--;
}

static struct fake *fake_of(const struct tarn_fabric_region *region)
{
    return region->state;
}

static uint64_t fake_load64(const struct tarn_fabric_region *region, uint64_t offset)
{
    fake_of(region)->loads++;
    return fake_of(region)->word + offset;
}

static void fake_store64(struct tarn_fabric_region *region, uint64_t offset, uint64_t value)
{
    (void)offset;
    fake_of(region)->stores++;
    fake_of(region)->word = value;
}

static void fake_copy_out(const struct tarn_fabric_region *region, uint64_t offset, void *to, uint64_t bytes)
{
    (void)offset;
    fake_of(region)->copies_out++;
    memset(to, 0x5a, bytes);
}

static void fake_copy_in(struct tarn_fabric_region *region, uint64_t offset, const void *from, uint64_t bytes)
{
    (void)offset;
    (void)bytes;
    fake_of(region)->copies_in++;
    memcpy(&fake_of(region)->word, from, sizeof(uint64_t));
}

static const struct tarn_fabric_mem_operations fake_mem = {
    .load64 = fake_load64, .store64 = fake_store64, .copy_out = fake_copy_out, .copy_in = fake_copy_in};

static int fake_region_alloc(void *domain, struct tarn_fabric_region *region)
{
    struct fake *fake = domain;
    fake->regions++;
    region->mem = &fake_mem;
    region->state = fake;
    return 0;
}

static void fake_region_free(void *domain, struct tarn_fabric_region *region)
{
    (void)region;
    struct fake *fake = domain;
    fake->regions--;
}

static int fake_wait_any(void *state, const struct tarn_fabric_word *words, uint32_t count,
                         uint64_t deadline_ns, uint32_t *ret_index)
{
    (void)words;
    struct fake *fake = state;
    fake->waits++;
    if (deadline_ns == 7)
        return -ETIMEDOUT;
    *ret_index = count - 1;
    return 0;
}

static int fake_connect(void *domain, const char *address, const struct tarn_fabric_connect_options *options,
                        uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection)
{
    (void)address;
    (void)options;
    (void)deadline_ns;
    (void)owner;
    *ret_connection = domain;
    return 0;
}

static void fake_end(void *connection)
{
    (void)connection;
}

static const struct fabric_provider fake_provider = {
    .name = "fake",
    .open = fake_open,
    .close = fake_close,
    .domain_open = fake_domain_open,
    .domain_close = fake_domain_close,
    .region_alloc = fake_region_alloc,
    .region_free = fake_region_free,
    .connect = fake_connect,
    .fail = fake_end,
    .disconnect = fake_end,
    .wait_any = fake_wait_any,
};

/* ---- tests -------------------------------------------------------------------------------------- */

static void count_advice(void *arg, enum base_log_level level, const char *line, size_t len)
{
    (void)level;
    (void)len;
    unsigned *lines = arg;
    *lines += strstr(line, "over a connection with oneself") != NULL;
}

static void the_nodes_provider_is_used(void **state)
{
    (void)state;
    struct fake fake = {0};
    unsigned lines = 0;
    const struct task_node_options options = {.log_level = BASE_LOG_WARN,
                                              .log_sink = count_advice,
                                              .log_arg = &lines,
                                              .fabric = &fake_provider,
                                              .fabric_arg = &fake};
    const struct tarn_fabric_domain_options refused = {.regions_max = 13},
                                            too_large = {.readable_bytes = (UINT64_C(1) << 46) + 1};
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    uint8_t bytes[8];
    uint32_t index = 0;
    assert_int_equal(task_node_open(&options, &node), 0);
    assert_int_equal(tarn_fabric_open(node, "shm:", &fabric), 0);
    assert_string_equal(tarn_fabric_info(fabric)->provider, "fake");
    assert_int_equal(tarn_fabric_domain_open(fabric, &too_large, &domain), -EINVAL);
    assert_int_equal(tarn_fabric_domain_open(fabric, &refused, &domain), -ENOSPC);
    assert_int_equal(tarn_fabric_domain_open(fabric, NULL, &domain), 0);
    assert_int_equal(tarn_fabric_region_alloc(domain, 1, TARN_FABRIC_MAY_READ, &region), 0);
    assert_int_equal(region->bytes, BASE_PAGE_BYTES);

    tarn_fabric_mem_store64(region, 8, 100);
    assert_int_equal(tarn_fabric_mem_load64(region, 8), 108);
    tarn_fabric_mem_copy_out(region, 0, bytes, sizeof(bytes));
    assert_int_equal(bytes[7], 0x5a);
    tarn_fabric_mem_copy_in(region, 0, bytes, sizeof(bytes));
    assert_int_equal(fake.word, UINT64_C(0x5a5a5a5a5a5a5a5a));
    assert_int_equal(fake.loads + fake.stores + fake.copies_out + fake.copies_in, 4);

    uint64_t before = 3; /* its atomics are the device's */
    assert_int_equal(tarn_fabric_mem_cas64(region, 0, 0, 1, &before), -EOPNOTSUPP);
    assert_int_equal(tarn_fabric_mem_faa64(region, 0, 1, &before), -EOPNOTSUPP);
    assert_int_equal(before, 3);
    assert_int_equal(lines, 2);

    const struct tarn_fabric_word words[3] = {{.region = region}, {.region = region}, {.region = region}};
    assert_int_equal(tarn_fabric_wait_any(words, 3, TASK_FOREVER, &index), 0);
    assert_int_equal(index, 2);
    assert_int_equal(tarn_fabric_wait_any(words, 3, 7, &index), -ETIMEDOUT);
    assert_int_equal(fake.waits, 2);

    struct tarn_fabric_connection *connection; /* it reads no words whole, and none is asked of it */
    assert_int_equal(tarn_fabric_connect(domain, "anywhere", NULL, TASK_FOREVER, &connection), 0);
    assert_int_equal(tarn_fabric_read_word(connection, 0, &region->handle, 0, TASK_FOREVER, &before),
                     -EOPNOTSUPP);
    assert_int_equal(before, 3);
    assert_int_equal(tarn_fabric_error(connection), -EOPNOTSUPP);
    tarn_fabric_disconnect(connection);

    tarn_fabric_region_free(region);
    tarn_fabric_domain_close(domain);
    tarn_fabric_close(fabric);
    assert_int_equal(fake.open + fake.domains + fake.regions, 0);
    task_node_close(node);
}

static void count_line(void *arg, enum base_log_level level, const char *line, size_t len)
{
    (void)len;
    unsigned *lines = arg;
    *lines += level == BASE_LOG_ERROR && strstr(line, "shm:") != NULL;
}

static void each_provider_is_opened_by_its_name(void **state)
{
    (void)state;
    const struct task_node_options quiet = {.log_level = BASE_LOG_ERROR};
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    const char *name;
    uint32_t place = 0;
    assert_int_equal(task_node_open(&quiet, &node), 0);
    for (; (name = tarn_fabric_provider_name(place)) != NULL; place++) {
        char url[32];
        for (uint32_t other = 0; other < place; other++)
            assert_string_not_equal(name, tarn_fabric_provider_name(other));
        (void)snprintf(url, sizeof(url), "%s:", name);
        if (strcmp(name, "shm") != 0 && strcmp(name, "tcp") != 0)
            continue; /* it needs a device */
        assert_int_equal(tarn_fabric_open(node, url, &fabric), 0);
        assert_string_equal(tarn_fabric_info(fabric)->provider, name);
        tarn_fabric_close(fabric);
    }
    assert_true(place >= 2);
    task_node_close(node);
}

static void unknown_providers_are_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {"", "shm", "shm:x", "rdma:", "SHM:", "tcp", "TCP:"};
    unsigned lines = 0;
    const struct task_node_options options = {
        .log_level = BASE_LOG_ERROR, .log_sink = count_line, .log_arg = &lines};
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    assert_int_equal(task_node_open(&options, &node), 0);
    for (unsigned i = 0; i < base_array_count(urls); i++)
        assert_int_equal(tarn_fabric_open(node, urls[i], &fabric), -EINVAL);
    assert_int_equal(lines, base_array_count(urls)); /* each told which there are */
    task_node_close(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nodes_provider_is_used),
        cmocka_unit_test(each_provider_is_opened_by_its_name),
        cmocka_unit_test(unknown_providers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
