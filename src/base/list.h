/*
 * Intrusive lists: base_list, doubly linked in a ring, any node can be removed; base_fifo, singly linked,
 * first in first out. They own nothing. One owner, no lock. base_container_of leads to
 * the object of a node.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/define.h"

/** A node, and also the head of a list. All zero is a node in no list; a head needs base_list_init. */
struct base_list {
    struct base_list *next;
    struct base_list *prev;
};

/** Visit each node in order; the body must not remove the visited node. */
#define base_list_for_each(node, head)                                                                       \
    for (struct base_list *node = (head)->next; node != (head); node = node->next)

/** Visit each node in order; the body may remove the visited node, but no other. */
#define base_list_for_each_safe(node, head)                                                                  \
    for (struct base_list *node = (head)->next, *node##_next = node->next; node != (head);                   \
         node = node##_next, node##_next = node->next)

/**
 * Make an empty list, or a node that is in none.
 */
static inline void base_list_init(struct base_list *list)
{
    list->next = list;
    list->prev = list;
}

/**
 * Whether a list has no node.
 */
static inline bool base_list_empty(const struct base_list *head)
{
    return head->next == head;
}

/**
 * Whether a node is in a list. The node was zeroed, initialised, pushed or removed before.
 */
static inline bool base_list_is_linked(const struct base_list *node)
{
    return node->next != NULL && node->next != node;
}

/**
 * Put a node that is in no list behind another node of a list (or behind its head).
 */
static inline void base_list_insert_after(struct base_list *position, struct base_list *node)
{
    node->prev = position;
    node->next = position->next;
    position->next->prev = node;
    position->next = node;
}

/**
 * Put a node that is in no list at the front.
 */
static inline void base_list_push_front(struct base_list *head, struct base_list *node)
{
    base_list_insert_after(head, node);
}

/**
 * Put a node that is in no list at the back.
 */
static inline void base_list_push_back(struct base_list *head, struct base_list *node)
{
    base_list_insert_after(head->prev, node);
}

/**
 * Take a node out of its list; one that is initialised and in no list stays so.
 */
static inline void base_list_remove(struct base_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    base_list_init(node);
}

/**
 * The first node; NULL if the list is empty.
 */
static inline struct base_list *base_list_first(const struct base_list *head)
{
    return base_list_empty(head) ? NULL : head->next;
}

/**
 * The last node; NULL if the list is empty.
 */
static inline struct base_list *base_list_last(const struct base_list *head)
{
    return base_list_empty(head) ? NULL : head->prev;
}

/**
 * Take out the first node and return it; NULL if the list is empty.
 */
static inline struct base_list *base_list_pop_front(struct base_list *head)
{
    struct base_list *node = base_list_first(head);
    if (node != NULL)
        base_list_remove(node);
    return node;
}

/**
 * Move all nodes of `from` to the back of `head`; `from` is empty afterwards.
 */
static inline void base_list_move_all(struct base_list *head, struct base_list *from)
{
    if (base_list_empty(from))
        return;
    from->next->prev = head->prev;
    head->prev->next = from->next;
    from->prev->next = head;
    head->prev = from->prev;
    base_list_init(from);
}

struct base_fifo_node {
    struct base_fifo_node *next;
};

/** All zero is an empty queue. */
struct base_fifo {
    struct base_fifo_node *head;
    struct base_fifo_node *tail; /* undefined while head is NULL */
};

/**
 * Make an empty queue.
 */
static inline void base_fifo_init(struct base_fifo *fifo)
{
    fifo->head = NULL;
    fifo->tail = NULL;
}

/**
 * Whether a queue has no node.
 */
static inline bool base_fifo_empty(const struct base_fifo *fifo)
{
    return fifo->head == NULL;
}

/**
 * The node that would be popped next; NULL if the queue is empty.
 */
static inline struct base_fifo_node *base_fifo_first(const struct base_fifo *fifo)
{
    return fifo->head;
}

/**
 * Put a node that is in no queue at the end.
 */
static inline void base_fifo_push(struct base_fifo *fifo, struct base_fifo_node *node)
{
    node->next = NULL;
    if (fifo->head == NULL)
        fifo->head = node;
    else
        fifo->tail->next = node;
    fifo->tail = node;
}

/**
 * Put a node that is in no queue before all others.
 */
static inline void base_fifo_push_front(struct base_fifo *fifo, struct base_fifo_node *node)
{
    if (fifo->head == NULL)
        fifo->tail = node;
    node->next = fifo->head;
    fifo->head = node;
}

/**
 * Take out the oldest node and return it; NULL if the queue is empty.
 */
static inline struct base_fifo_node *base_fifo_pop(struct base_fifo *fifo)
{
    struct base_fifo_node *node = fifo->head;
    if (node != NULL) {
        fifo->head = node->next;
        node->next = NULL;
    }
    return node;
}

/**
 * Move all nodes of `from` to the end of `fifo`; `from` is empty afterwards.
 */
static inline void base_fifo_move_all(struct base_fifo *fifo, struct base_fifo *from)
{
    if (from->head == NULL)
        return;
    if (fifo->head == NULL)
        fifo->head = from->head;
    else
        fifo->tail->next = from->head;
    fifo->tail = from->tail;
    from->head = NULL;
}

#endif
