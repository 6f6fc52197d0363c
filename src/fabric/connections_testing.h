/* What every provider must do with connections: messages, fences, how they begin and end, what is lacking. */
#ifndef FABRIC_CONNECTIONS_TESTING_H
#define FABRIC_CONNECTIONS_TESTING_H

#include "fabric/testing.h"

/* ---- messages ----------------------------------------------------------------------------------- */

enum { CREDIT = 4, MESSAGE_BYTES = 100, MESSAGES = 2000 };

extern const struct tarn_fabric_connect_options few;

void messages_come_in_order(struct testing_fabric *testing);

void writes_are_seen_before_the_message(struct testing_fabric *testing);

/* ---- the end of connections --------------------------------------------------------------------- */

void the_peer_disconnects(struct testing_fabric *testing);

/* ---- plain threads with a scheduler's connection ------------------------------------------------ */

#define EACH 50

/* ---- meeting ------------------------------------------------------------------------------------ */

void private_data_is_exchanged(struct testing_fabric *testing);

/* fabric_connections: all of it. */
extern const struct testing_suite fabric_connections;

#endif
