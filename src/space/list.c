/* Growing arrays of pointers, for the master's tables. */
#include "space/master.h"
#include <errno.h>
#include <string.h>

int master_list_add(struct base_account *account, struct master_list *list, void *item)
{
    if (list->count == list->room) {
        const uint32_t room = base_max(list->room * 2, 8U);
        void **items = base_realloc(account, list->items, list->room * sizeof(*items), room * sizeof(*items));
        if (items == NULL)
            return -ENOMEM;
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = item;
    return 0;
}

bool master_list_remove(struct master_list *list, const void *item)
{
    for (uint32_t i = list->count; i-- > 0;) {
        if (list->items[i] != item)
            continue;
        list->count--;
        memmove(&list->items[i], &list->items[i + 1], (list->count - i) * sizeof(*list->items));
        return true;
    }
    return false;
}

bool master_list_has(const struct master_list *list, const void *item)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->items[i] == item)
            return true;
    }
    return false;
}

void master_list_free(struct base_account *account, struct master_list *list)
{
    base_free(account, list->items, list->room * sizeof(*list->items));
    *list = (struct master_list){.count = 0};
}
