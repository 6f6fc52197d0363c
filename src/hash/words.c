/* Where a key's slots are: the view of the index, which tells whether it is being replaced by a larger one. */
#include "hash/hash_internal.h"

/* Hold the index of a growth. */
static int hold_index(struct hash *hash, uint32_t growth, uint64_t deadline_ns)
{
    struct tarn_space_region *region;
    uint64_t word = 0;
    if (hash->indexes[growth] != NULL)
        return 0;
    int error =
        hash_read(hash->head, HASH_HEAD_INDEXES + UINT64_C(8) * growth, &word, sizeof(word), deadline_ns);
    if (error != 0)
        return error;
    if ((word & HASH_IS_THERE) == 0)
        return -ESTALE;
    error = tarn_space_init(hash->of, word & ~UINT64_C(0xffff), 0, deadline_ns, &region);
    if (error != 0)
        return error == -ENOENT ? -EAGAIN : error; /* it has been replaced meanwhile */
    if (hash->indexes[growth] == NULL)
        hash->indexes[growth] = region;
    else
        tarn_space_drop(region); /* another task was faster */
    return 0;
}

int hash_learn_view(struct hash *hash, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t view = 0;
        int error = hash_read(hash->head, HASH_HEAD_VIEW, &view, sizeof(view), deadline_ns);
        if (error == 0 && view / 2 + view % 2 >= HASH_GROWTHS_MAX)
            error = -EUCLEAN;
        for (uint64_t growth = view / 2; growth <= view / 2 + view % 2 && error == 0; growth++)
            error = hold_index(hash, (uint32_t)growth, deadline_ns);
        if (error == 0) {
            hash->view = base_max(hash->view, view);
            return 0;
        }
        if (error != -EAGAIN)
            return error;
    }
}

void hash_places_of(const struct hash *hash, hash_key key, struct hash_places *ret_places)
{
    const uint32_t oldest = (uint32_t)(hash->view / 2), newest = oldest + (uint32_t)(hash->view % 2);
    ret_places->view = hash->view;
    ret_places->count = 0;
    for (uint32_t growth = newest; growth + 1 > oldest; growth--) {
        for (uint32_t rank = 0; rank < hash->shape.ranks; rank++) {
            ret_places->regions[ret_places->count] = hash->indexes[growth];
            ret_places->at[ret_places->count++] =
                (struct hash_place){.growth = growth, .slot = hash_slot_of(&hash->shape, key, growth, rank)};
        }
        if (growth == 0)
            break;
    }
}
