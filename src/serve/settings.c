/* The settings of `tarn serve`: command line, configuration file, help, man page and `stats settings`. */
#include "depot/depot.h"
#include "drive/drive.h"
#include "memcache/memcache.h"
#include "serve/serve.h"
#include "task/net.h"
#include <errno.h>
#include <stdio.h>
#include <tarn/depot.h>

static const char *const modes[] = {"auto", "power", "device", "async", NULL};
static const char *const directs[] = {"auto", "on", "off", NULL};
static const char *const discards[] = {"auto", "on", "off", NULL};
static const char *const engines[] = {"auto", "uring", "aio", NULL};
static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};

_Static_assert(TARN_MODE_POWER == 0 && TARN_MODE_DEVICE == 1 && TARN_MODE_ASYNC == 2, "modes[]");
_Static_assert(DRIVE_DIRECT_AUTO == 0 && DRIVE_DIRECT_ON == 1 && DRIVE_DIRECT_OFF == 2, "directs[]");
_Static_assert(TARN_DISCARD_AUTO == 0 && TARN_DISCARD_ON == 1 && TARN_DISCARD_OFF == 2, "discards[]");
_Static_assert(TASK_ENGINE_AUTO == 0 && TASK_ENGINE_URING == 1 && TASK_ENGINE_AIO == 2, "engines[]");
_Static_assert(BASE_LOG_ERROR == 0 && BASE_LOG_DEBUG == 3, "log_levels[]");

#define AT(field) .offset = offsetof(struct serve_options, field)

const struct base_setting serve_settings[] = {
    {.name = "data",
     .type = BASE_SETTING_STRING,
     .metavar = "FILE[,FILE...]",
     .help = "The file, block device or NVMe namespace (/dev/ng0n1) that holds the store. A file that does "
             "not exist is made; one that is not a store is left alone. Several, as A,B,C, are a stripe: one "
             "store on all of them, each time with all of them, in any order. A comma of a name itself is "
             "written \\,.",
     AT(data)},
    {.name = "size",
     .type = BASE_SETTING_SIZE,
     .min = UINT64_C(1) << 20,
     .default_text = "1G",
     .help =
         "Size of the file if it has to be made, of several all together. An existing store keeps its own; "
         "when its file was made longer, or its device larger, it takes that at SIGHUP, while it runs.",
     AT(size_bytes)},
    {.name = "cache",
     .type = BASE_SETTING_BOOL,
     .help = "Make room in a full store by removing what was stored first and not read since. Without it a "
             "full store refuses new data.",
     AT(cache)},
    {DEPOT_OVER_PROVISIONING_SETTING,
     .help =
         "Part of the drive that records may not take. More means that a full store is written less "
         "often and holds less: the space of what was replaced is reclaimed by moving what lives beside "
         "it, the less the emptier the store is. Kept nowhere: a store that holds more than it takes "
         "now refuses new keys, and serves and deletes the rest. Ignored with --cache, which moves nothing.",
     AT(over_provisioning_percent)},
    {.name = "listen",
     .letter = 'l',
     .type = BASE_SETTING_LIST,
     .metavar = "ADDRESS[:PORT],...",
     .help = "Addresses to listen on: 127.0.0.1, 127.0.0.1:11211, [::1]:11211. Port 0 is any free one, told "
             "in the log. Default: 127.0.0.1, unless --unix is given. Beyond loopback only with --insecure.",
     AT(listen)},
    {.name = "port",
     .letter = 'p',
     .type = BASE_SETTING_UINT,
     .max = UINT16_MAX,
     .default_text = "11211",
     .help = "Port of the addresses that name none.",
     AT(port)},
    {.name = "unix",
     .letter = 's',
     .type = BASE_SETTING_STRING,
     .metavar = "PATH",
     .help = "Listen on a Unix socket, too, which only its owner may connect to.",
     AT(unix_path)},
    {.name = "insecure",
     .type = BASE_SETTING_BOOL,
     .help = "Allow addresses that other machines reach. There is no authentication: whoever reaches the "
             "port reads and changes everything.",
     AT(insecure)},
    {.name = "enable-shutdown",
     .letter = 'A',
     .type = BASE_SETTING_BOOL,
     .help = "Obey the command `shutdown` of clients.",
     AT(enable_shutdown)},
    {.name = "threads",
     .letter = 't',
     .type = BASE_SETTING_UINT,
     .max = TASK_SCHEDS_MAX,
     .default_text = "0",
     .unit = "threads",
     .help = "Threads that serve; 0 is one for each processor.",
     AT(threads)},
    {.name = "memory",
     .type = BASE_SETTING_SIZE,
     .min = UINT64_C(64) << 20,
     .default_text = "1G",
     .help = "Most memory that the server takes. The index needs 64 to 128 bytes for each record; where it "
             "ends, new keys are refused.",
     AT(memory_bytes)},
    {.name = "max-connections",
     .letter = 'c',
     .type = BASE_SETTING_UINT,
     .min = 1,
     .max = UINT32_MAX,
     .default_text = "1024",
     .unit = "connections",
     .help = "Most connections of each address at once; further ones are closed.",
     AT(connections_max)},
    {.name = "item-size-max",
     .letter = 'I',
     .type = BASE_SETTING_SIZE,
     .min = 1024,
     .max = UINT64_C(2) << 20,
     .default_text = "1M",
     .help = "Largest item, counted as memcached does: key, value and 59 bytes. The store has a limit of its "
             "own, a little below 2 MiB, less in stores below 64 MiB.",
     AT(item_bytes_max)},
    {.name = "mode",
     .type = BASE_SETTING_ENUM,
     .choices = modes,
     .default_text = "auto",
     .help = "What an acknowledged write survives. power: a power cut. device: the death of the process and "
             "of the kernel, but not of a drive with a volatile cache. async: nothing for a second, then a "
             "power cut. auto: power, with --cache device.",
     AT(mode)},
    {.name = "scrub",
     .type = BASE_SETTING_SIZE,
     .default_text = "4M",
     .help =
         "Bytes a second, at most, that are read in the background, once a day, to find what the drive has "
         "damaged while what lies around it can still be moved away. 0: none.",
     AT(scrub_rate_bytes)},
    {.name = "checkpoint",
     .type = BASE_SETTING_SIZE,
     .default_text = "16M",
     .help =
         "Bytes a second, at most, of checkpoints, written now and then while the server runs, so that it "
         "starts sooner after a crash. 0: only SIGTERM leaves one.",
     AT(checkpoint_rate_bytes)},
    {.name = "measure",
     .type = BASE_SETTING_UINT,
     .metavar = "N",
     .min = 1,
     .max = 1000000,
     .default_text = "32",
     .help = "Measure one request in N, drawn at random, in all its stages, for `stats stages`; 1 is all, at "
             "the cost of some 300 ns each.",
     AT(measure_interval)},
    {.name = "direct",
     .type = BASE_SETTING_ENUM,
     .choices = directs,
     .default_text = "auto",
     .help = "Whether to go past the page cache. auto: where the file system can.",
     AT(direct)},
    {.name = "discard",
     .type = BASE_SETTING_ENUM,
     .choices = discards,
     .default_text = "auto",
     .help =
         "Whether to tell a block device which space is not needed any more, so that it need not keep it. "
         "auto: if it takes that. on: refuse to start if not. Files never: their space would have to be "
         "allocated again.",
     AT(discard)},
    {.name = "engine",
     .type = BASE_SETTING_ENUM,
     .choices = engines,
     .default_text = "auto",
     .help =
         "How to talk to the kernel. auto: io_uring if it is there and allowed, else Linux AIO and epoll.",
     AT(engine)},
    {.name = "spin",
     .type = BASE_SETTING_DURATION,
     .max = BASE_NS_PER_SECOND,
     .default_text = "0",
     .help = "How long a thread without work looks for some before it sleeps.",
     AT(spin_ns)},
    {.name = "send-timeout",
     .type = BASE_SETTING_DURATION,
     .min = BASE_NS_PER_MS,
     .default_text = "10s",
     .help = "A client that takes none of its replies for so long is disconnected.",
     AT(send_timeout_ns)},
    {.name = "log-level",
     .type = BASE_SETTING_ENUM,
     .choices = log_levels,
     .default_text = "info",
     .help = "What goes to standard error.",
     AT(log_level)},
    {.name = "dump",
     .type = BASE_SETTING_STRING,
     .metavar = "FILE",
     .help = "Where SIGUSR1 has all records written, as they are at that moment, while the server goes on: a "
             "stream for `tarn load`. FILE is replaced when the new one is whole. No client can ask for it.",
     AT(dump)},
    {.name = "config",
     .type = BASE_SETTING_STRING,
     .flags = BASE_SETTING_COMMAND_ONLY,
     .metavar = "FILE",
     .help = "Read settings from a file of lines `name = value`; the command line wins.",
     AT(config)},
    {.name = "help",
     .letter = 'h',
     .type = BASE_SETTING_BOOL,
     .flags = BASE_SETTING_COMMAND_ONLY,
     .help = "Print this and exit.",
     AT(help)},
    {.name = "man",
     .type = BASE_SETTING_BOOL,
     .flags = BASE_SETTING_COMMAND_ONLY | BASE_SETTING_HIDDEN,
     .help = "Print these settings as a part of a man page and exit.",
     AT(man)},
};

const size_t serve_settings_count = base_array_count(serve_settings);

int serve_check_options(const struct serve_options *options, char *error, size_t room)
{
    if (options->data == NULL || options->data[0] == '\0') {
        (void)snprintf(error, room, "where is the store? Name a file or a device with --data=FILE");
        return -EINVAL;
    }
    for (size_t i = 0; i < options->listen.count; i++) {
        const char *address = options->listen.items[i];
        if (!options->insecure && !net_is_loopback(address)) {
            (void)snprintf(
                error, room,
                "%s may be reached by other machines, and anybody who reaches it could read and change "
                "everything: say --insecure if that is meant",
                address);
            return -EINVAL;
        }
    }
    return 0;
}
