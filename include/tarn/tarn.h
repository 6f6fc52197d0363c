/*
 * tarn/tarn.h: the version of the library, nodes, logs and time: the part that every other public header needs.
 *
 * Exported names start with tarn_ and TARN_. Errors are negative errno values; output arguments
 * stay untouched when a function fails.
 */
#ifndef TARN_TARN_H
#define TARN_TARN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_VERSION_MAJOR 0
#define TARN_VERSION_MINOR 1
#define TARN_VERSION_PATCH 0

/* Marks what the shared library exports; everything else in it is hidden. */
#define TARN_API __attribute__((visibility("default")))

/* Marks a function whose result the caller must use. */
#define TARN_MUST_CHECK __attribute__((warn_unused_result))

/** The deadline that never comes. */
#define TARN_FOREVER UINT64_MAX

/**
 * The version of the library that is linked, which may be newer than this header.
 *
 * @return "MAJOR.MINOR.PATCH", static
 *
 * Any thread or task.
 */
TARN_API const char *tarn_version(void);

/**
 * The clock of deadlines: nanoseconds, monotonic. Any thread or task.
 */
TARN_API uint64_t tarn_now_ns(void);

/** A node: the root of all other objects. A process may have several, which share nothing. */
struct tarn_node;

enum tarn_log_level {
    TARN_LOG_ERROR, /**< data are lost, or a request is refused for good */
    TARN_LOG_WARN,  /**< an operator should look */
    TARN_LOG_INFO,  /**< normal events: opened, closed, recovered */
    TARN_LOG_DEBUG,
};

/**
 * Take a line of the log. Called by any thread, possibly by several at once; must not call Tarn.
 *
 * @param level      enum tarn_log_level
 * @param line, len  ends with its only newline; a zero byte follows; borrowed until return
 */
typedef void tarn_log_function(void *arg, unsigned level, const char *line, size_t len);

struct tarn_node_options {
    uint64_t memory_bytes; /**< the most memory that Tarn takes, in bytes; 0: no limit */
    enum tarn_log_level log_level;
    tarn_log_function *log; /**< receives the lines; NULL: they go to standard error */
    void *log_arg;
};

/**
 * Make a node.
 *
 * @param options  NULL: no limit, warnings and errors to standard error
 * @return 0; -EINVAL (no such log level); -ENOMEM; an error of the kernel's random source
 *
 * Any thread.
 */
TARN_API int tarn_node_open(const struct tarn_node_options *options, struct tarn_node **ret_node);

/** Free a node whose stores are closed (asserted). */
TARN_API void tarn_node_close(struct tarn_node *node);

#ifdef __cplusplus
}
#endif

#endif
