/* What happens when the command touches memory that it must not. */
#ifndef CLI_FAULT_H
#define CLI_FAULT_H

struct tarn_node;

/** Have faults explained on standard error before they end the process: installs the handler. */
void cli_fault_install(void);

/** Give the calling thread a stack to handle its faults on; without memory it goes without one. */
void cli_fault_begin_thread(struct tarn_node *node);

/** Take it away again. */
void cli_fault_end_thread(struct tarn_node *node);

#endif
