/* For the tests of repair: a store with a key that is going to be lost, and what a repair tells. */
#include "depot/repair_testing.h"

static void testing_note_loss(void *arg, const struct depot_lost *lost)
{
    struct losses *losses = arg;
    assert_true(lost->sequence > 0 && lost->grain > 0 && (lost->hash[0] | lost->hash[1]) != 0);
    if (lost->key == NULL)
        return;
    assert_true(lost->key_bytes < sizeof(losses->key));
    losses->named++;
    memcpy(losses->key, lost->key, lost->key_bytes);
    losses->key[lost->key_bytes] = '\0';
}

int testing_repair(struct testing_drive *drive, struct losses *losses)
{
    struct tarn_node *node = testing_node(drive, NULL);
    *losses = (struct losses){.named = 0};
    int error = depot_repair(node, "store", false, testing_note_loss, NULL, losses, &losses->report);
    task_node_close(node); /* asserts that nothing is leaked */
    assert_int_equal(losses->report.lost - losses->report.unnamed, losses->named);
    return error;
}

struct testing_drive testing_losing_store(bool deleted)
{
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    testing_put_keys(&store, 0, 30, "value");
    assert_int_equal(depot_testing_put(&store, "lost", OLD_TEXT), 0);
    testing_put_keys(&store, 30, 60, "value");
    assert_int_equal(depot_testing_put(&store, "lost", NEW_TEXT), 0);
    testing_put_keys(&store, 60, 90, "value");
    if (deleted)
        assert_int_equal(testing_delete(&store, "lost"), 0);
    testing_put_keys(&store, 90, 100, "value");
    depot_testing_close(&store);
    return drive;
}

uint8_t *testing_find_text(struct testing_drive *drive, const char *text, uint8_t *from)
{
    uint64_t at = from == NULL ? 0 : (uint64_t)(from - drive->bytes);
    return memmem(drive->bytes + at, drive->size - at, text, strlen(text));
}

/** Overwrite keys until all segments were collected, or nearly so. */
static void testing_churn(struct testing_store *store)
{
    static const char value[3000] = "something else that takes room";
    for (int i = 0; i < 3000; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "other%d", i % 100);
        assert_int_equal(tarn_depot_put(store->depot, key, strlen(key), value, sizeof(value), NULL, NULL), 0);
    }
}

void testing_expect_repaired(struct testing_drive *drive)
{
    expect_sound(drive);
    for (int life = 0; life < 3; life++) {
        struct testing_store store;
        depot_testing_open(&store, drive, NULL, TARN_MODE_POWER);
        testing_expect_keys(&store, 0, 100, "value");
        depot_testing_expect(&store, "lost", NULL);
        if (life == 1)
            testing_churn(&store);
        depot_testing_expect(&store, "lost", NULL);
        *drive = depot_testing_end(&store, drive, life == 1);
    }
    expect_sound(drive);
    struct testing_store store;
    depot_testing_open(&store, drive, NULL, TARN_MODE_POWER);
    assert_int_equal(depot_testing_put(&store, "lost", "found"), 0);
    depot_testing_close(&store);
    depot_testing_open(&store, drive, NULL, TARN_MODE_POWER);
    depot_testing_expect(&store, "lost", "found");
    depot_testing_close(&store);
}
