/* Filling the drive: each client has keys of its own, of which the oracle does not hear. */
#include "base/base.h"
#include "depot/depot.h"
#include "sim/depot_clients.h"
#include <errno.h>
#include <inttypes.h>

enum {
    CHURN_KEY = 1000, /* their numbers begin here */
    CHURNS_MAX = 12,  /* at once */
    CHURN_BYTES_MAX = 48 << 10,
};

static void fill_churn_key(uint32_t number, uint64_t slot, uint64_t *ret_key)
{
    ret_key[0] = CHURN_KEY + number;
    ret_key[1] = slot;
}

/* What an answer to a change tells of the key. */
static void note_churned(struct sim_depot_churn *churn, int error)
{
    if (error == 0 || error == -ENOENT)
        *churn = (struct sim_depot_churn){.known = true, .held = churn->maybe};
    else if (error == -ENOSPC || error == -EROFS)
        churn->unsettled = false;
}

/* Overwrite and delete keys of the client's own, which the oracle does not hear of. */
static void churn_one(struct sim_depot_client *client)
{
    struct sim_depot_shared *shared = client->shared;
    uint64_t slot = sim_depot_draw(client, SIM_DEPOT_CHURNED), key[2];
    struct sim_depot_churn *churn = &shared->churned[client->number][slot];
    uint64_t longest = base_min(tarn_depot_whole_bytes_max(shared->depot), (uint64_t)CHURN_BYTES_MAX);
    uint64_t bytes = sizeof(uint32_t) + sim_depot_draw(client, longest - sizeof(uint32_t));
    bool deletes = sim_depot_draw(client, 4) == 0;
    int error;
    if (churn->unsettled)
        return; /* its store has failed */
    fill_churn_key(client->number, slot, key);
    churn->unsettled = true;
    churn->maybe = deletes ? 0 : ++client->churn_count;
    if (deletes) {
        error = tarn_depot_delete(shared->depot, key, sizeof(key));
        sim_depot_check_error(client, "delete of a churned key", error, false, false);
    } else {
        memset(client->value, (int)churn->maybe, bytes);
        memcpy(client->value, &churn->maybe, sizeof(churn->maybe));
        sim_depot_reserve(client, bytes);
        error = tarn_depot_put(shared->depot, key, sizeof(key), client->value, bytes, NULL, NULL);
        sim_depot_check_error(client, "put of a churned key", error, false, true);
        sim_depot_release(client, bytes);
    }
    note_churned(churn, error);
}

/* @return the number of the value; 0 if it is not one */
static uint32_t churned_number(const uint8_t *value, size_t bytes)
{
    uint32_t number = 0;
    if (bytes < sizeof(number))
        return 0;
    memcpy(&number, value, sizeof(number));
    for (size_t i = sizeof(number); i < bytes; i++) {
        if (value[i] != (uint8_t)number)
            return 0;
    }
    return number;
}

/*
 * What a client's own key holds, only that client can have stored. @param settle  nothing is under way: what
 * is found is certain from now on
 */
static void check_churned(struct sim_depot_client *client, uint32_t number, uint64_t slot, bool settle)
{
    struct sim_depot_shared *shared = client->shared;
    struct sim_depot_churn *churn = &shared->churned[number][slot];
    uint64_t key[2];
    struct tarn_record_info info;
    fill_churn_key(number, slot, key);
    int error =
        tarn_depot_get(shared->depot, key, sizeof(key), client->value, SIM_DEPOT_VALUE_BYTES_MAX, &info);
    sim_depot_check_error(client, "get of a churned key", error, false, false);
    if (error != 0 && error != -ENOENT)
        return;
    uint32_t found = error == 0 ? churned_number(client->value, info.value_bytes) : 0;
    bool may_be = found == churn->held || (settle && churn->unsettled && found == churn->maybe) ||
                  (error == -ENOENT && (shared->flushes || shared->may_miss));
    if ((error == 0 && found == 0) || (churn->known && !may_be))
        sim_fail(shared->world, "churned key %" PRIu64 " of client %u holds %u (%d) and not %u or %u", slot,
                 number, found, error, churn->held, churn->maybe);
    bool stays_gone = error == -ENOENT && churn->known && !churn->unsettled && shared->oracle.evicts &&
                      !depot_failed(shared->depot);
    /* a reader carries out a due flush_all without noting it, and the clock may be set back */
    bool may_come_back = error == -ENOENT && shared->read_only;
    if (settle || stays_gone)
        *churn = (struct sim_depot_churn){.known = !may_come_back, .held = found};
}

void sim_depot_churn(struct sim_depot_client *client)
{
    for (uint64_t times = 1 + sim_depot_draw(client, CHURNS_MAX); times > 0; times--)
        churn_one(client);
    for (uint64_t slot = 0; slot < SIM_DEPOT_CHURNED; slot++)
        check_churned(client, client->number, slot, false);
}

/* Before any client works: what those of earlier epochs have left. */
void sim_depot_check_all_churned(struct sim_depot_client *client)
{
    for (uint32_t number = 0; number < client->number; number++) {
        for (uint64_t slot = 0; slot < SIM_DEPOT_CHURNED; slot++) {
            const struct sim_depot_churn *churn = &client->shared->churned[number][slot];
            if (churn->known || churn->unsettled)
                check_churned(client, number, slot, true);
        }
    }
}

void sim_depot_forget_churned(struct sim_depot_shared *shared, uint32_t first)
{
    for (uint32_t number = first; number < SIM_ORACLE_CLIENTS_MAX; number++) {
        for (uint64_t slot = 0; slot < SIM_DEPOT_CHURNED; slot++) {
            struct sim_depot_churn *churn = &shared->churned[number][slot];
            churn->unsettled = churn->unsettled || churn->known;
            churn->known = false;
        }
    }
}
