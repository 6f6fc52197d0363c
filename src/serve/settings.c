/* The settings of `tarn serve`: command line, configuration file, help, man page and `stats settings`. */
#include "depot/depot.h"
#include "drive/drive.h"
#include "serve/serve_internal.h"
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <tarn/depot.h>

static const char *const modes[] = {"auto", "power", "device", "async", NULL};
static const char *const directs[] = {"auto", "on", "off", NULL};
static const char *const damaged_ways[] = {"refuse", "serve", NULL};
static const char *const discards[] = {"auto", "on", "off", NULL};
static const char *const engines[] = {"auto", "uring", "aio", NULL};
static const char *const protocols[] = {"auto", "ascii", "binary", NULL};
static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};

_Static_assert(TARN_MODE_POWER == 0 && TARN_MODE_DEVICE == 1 && TARN_MODE_ASYNC == 2, "modes[]");
_Static_assert(DRIVE_DIRECT_AUTO == 0 && DRIVE_DIRECT_ON == 1 && DRIVE_DIRECT_OFF == 2, "directs[]");
_Static_assert(TARN_DISCARD_AUTO == 0 && TARN_DISCARD_ON == 1 && TARN_DISCARD_OFF == 2, "discards[]");
_Static_assert(TASK_ENGINE_AUTO == 0 && TASK_ENGINE_URING == 1 && TASK_ENGINE_AIO == 2, "engines[]");
_Static_assert(BASE_LOG_ERROR == 0 && BASE_LOG_DEBUG == 3, "log_levels[]");

#define AT(field) .offset = offsetof(struct serve_options, field)

/* An entry for an option of memcached's that means nothing here: it is refused, with the reason. */
#define REFUSED(option_letter, option_name, option_type, why)                                                \
    {                                                                                                        \
        .name = option_name, .letter = option_letter, .type = option_type,                                   \
        .flags = BASE_SETTING_REFUSED | BASE_SETTING_HIDDEN, .help = why                                     \
    }
#define NO_SLABS " is of memcached's slabs, and here there are none: leave it out"

enum { BINARY = 2 }; /* index in protocols[] */

const struct base_setting serve_settings[] = {
    {.name = "data",
     .type = BASE_SETTING_STRING,
     .metavar = "FILE[,FILE...]",
     .help = "The file, block device or NVMe namespace (/dev/ng0n1) that holds the store. A file that does "
             "not exist is made, and one that is blank (empty, or all zeros) becomes a store; whatever else "
             "is no "
             "store, and any device, is left alone. Several, as A,B,C, are a stripe: one "
             "store on all of them, each time with all of them, in any order. A comma of a name itself is "
             "written \\,.",
     AT(data)},
    {.name = "store",
     .type = BASE_SETTING_REPEATED,
     .metavar = "NAME:depot|cache|hash|tree,...",
     .help =
         "One more store; --data is one, too, of the name `default`. NAME:depot,path=FILE[,size=SIZE]"
         "[,dump=FILE] keeps what it is given in a file or on a device (path again: one more drive of a "
         "stripe). NAME:cache,memory=SIZE[,partitions=N][,item=SIZE] keeps some of it in memory, beside "
         "--memory, until the server ends; item is how long keys and values are, as expected; partitions, "
         "if not said, one for each thread. NAME:hash,memory=SIZE keeps all of it in memory, in a hash "
         "table, until the server ends, and refuses new records when it is full. NAME:hash,space=MASTER, "
         "with namespace=NAME and store=NAME behind it, is a hash store in a space, which any number of "
         "servers and programs use at once. What else hash takes (slots=N, ranks=N, filter=N, secret=FILE, "
         "node=NAME, memory=SIZE, ?FABRIC) tarn-kv(3) tells. NAME:tree,path=FILE[,size=SIZE]"
         "[,memory=SIZE] keeps all of it in memory in the order of its keys, so that `tarn scan` shows "
         "ranges, "
         "and each change in a file or on a device, as a depot does; it takes 1g of memory at most, or SIZE, "
         "and refuses new records when that is full. "
         "Each may have memcached clients of its own at port=N, on the "
         "hosts of --listen, and at a socket unix=PATH; the first store has them at --listen, --port and "
         "--unix. Tarn's own clients reach all by name (--kv-listen, --kv-unix). A comma of a file's name is "
         "written \\,.",
     AT(stores)},
    {.name = "size",
     .type = BASE_SETTING_SIZE,
     .min = UINT64_C(1) << 20,
     .help =
         "Size of a depot's file if it has to be made, of several all together; 1G if not said. An existing "
         "store keeps its own, and the log says so if another is asked for; "
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
     .help = "Addresses to listen on: 127.0.0.1, 127.0.0.1:11211, [::1]:11211, or the name of a host: "
             "localhost is 127.0.0.1 and ::1. Port 0 is any free one, told "
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
     .help = "Listen on a Unix socket, too. --unix-mask says which users may connect.",
     AT(unix_path)},
    {.name = "unix-mask",
     .letter = 'a',
     .type = BASE_SETTING_STRING,
     .metavar = "MODE",
     .default_text = "0700",
     .help = "Mode of Unix sockets of memcached's protocol, in octal, whatever the umask: 0700 is for their "
             "owner, 0770 for a group, too.",
     AT(unix_mask)},
    {.name = "unix-group",
     .type = BASE_SETTING_STRING,
     .metavar = "GROUP",
     .help = "Group of these sockets, by name or number; one that the server's user is in. If not said, that "
             "of the server.",
     AT(unix_group)},
    {.name = "kv-listen",
     .type = BASE_SETTING_LIST,
     .max = SERVE_KV_LISTEN_MAX,
     .metavar = "ADDRESS:PORT,...",
     .help = "Addresses, or names of hosts, where all stores are served by Tarn's own protocol: "
             "tarn://ADDRESS:PORT/NAME. Beyond "
             "loopback only with a secret or certificates, or --insecure.",
     AT(kv_listen)},
    {.name = "kv-unix",
     .type = BASE_SETTING_STRING,
     .metavar = "PATH",
     .help = "The same for processes of this user and no other, by shared memory: unix:PATH/NAME.",
     AT(kv_unix_path)},
    {.name = "kv-fabric",
     .type = BASE_SETTING_STRING,
     .metavar = "URL",
     .default_text = "tcp:",
     .help = "What --kv-listen goes over: tcp: with its options, as tcp:secret=FILE or "
             "tcp:tls,cert=FILE,key=FILE,ca=FILE; or verbs:DEVICE (tarn-fabric(1)). Clients "
             "name the same: tarn://ADDRESS:PORT/NAME?tcp:secret=FILE.",
     AT(kv_fabric)},
    {.name = "space",
     .type = BASE_SETTING_STRING,
     .metavar = "FILE",
     .help =
         "Be the master of a space, the memory of many machines as one (docs/space.md), instead of serving "
         "stores: it keeps in this file, which is made if there is none, what belongs to what. Or, as "
         "zookeeper:HOST:PORT,HOST:PORT/PATH, one of several, of which one leads: they keep it in that "
         "ensemble.",
     AT(space)},
    {.name = "memory-server",
     .type = BASE_SETTING_BOOL,
     .help = "Contribute --memory to a space: beside the master of --space, or to that of --join. What lies "
             "there ends with the process, unless there is a --memory-file.",
     AT(memory_server)},
    {.name = "memory-file",
     .letter = 'e',
     .type = BASE_SETTING_STRING,
     .metavar = "FILE",
     .help = "Save what lies in the memory of --memory-server in this file when it is stopped in good order "
             "(SIGTERM), and take it up again at the next start, which removes the file. On a tmpfs, as "
             "/dev/shm, this is fast and takes as much memory meanwhile; on a drive it survives the machine.",
     AT(memory_file)},
    {.name = "join",
     .type = BASE_SETTING_STRING,
     .metavar = "URL",
     .help =
         "The master that a memory server joins: its --space-listen. It is waited for. Several masters stand "
         "in one URL: tarn://ADDRESS:PORT,ADDRESS:PORT.",
     AT(join)},
    {.name = "space-listen",
     .type = BASE_SETTING_STRING,
     .metavar = "URL",
     .help =
         "Where the master, or else the memory server, is reached: unix:PATH, by processes of this user, by "
         "shared memory; or tarn://ADDRESS:PORT, with ?tcp:secret=FILE and the like behind it as in "
         "--kv-fabric. A memory server beside a master has PATH.memory, or the next port. Beyond loopback "
         "only with a secret or certificates, or --insecure.",
     AT(space_listen)},
    {.name = "chunk",
     .type = BASE_SETTING_SIZE,
     .min = UINT64_C(64) << 10,
     .max = UINT64_C(1) << 40,
     .default_text = "64M",
     .help = "The pieces in which memory goes to namespaces, a power of two; the same for all servers of a "
             "space, and for good.",
     AT(chunk_bytes)},
    {.name = "servers-secret-file",
     .type = BASE_SETTING_STRING,
     .metavar = "FILE",
     .help =
         "A file with what memory servers prove to their master that they are its own: 1 to 64 bytes. The "
         "master and they have the same. Without it any process that reaches the master may be one.",
     AT(servers_secret_file)},
    {.name = "insecure",
     .type = BASE_SETTING_BOOL,
     .help =
         "Allow addresses that other machines reach. There is no authentication: every host that reaches the "
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
     .help =
         "Most memory that the server takes, but for its caches, which have theirs beside it. The index of a "
         "depot takes 8 to 20 bytes for each record; where it ends, new keys are "
         "refused. "
         "What connections take is of it, too. What is left holds hot records (--hot).",
     AT(memory_bytes)},
    {.name = "hot",
     .type = BASE_SETTING_STRING,
     .metavar = "SIZE",
     .default_text = "auto",
     .help = "Most memory, of --memory, for records that are asked for often, so that the drive need not be "
             "read for "
             "them. auto: all that nothing else needs, but for a sixteenth (64M at most). off: none. Each "
             "depot has "
             "as much. A file in memory has none.",
     AT(hot)},
    {.name = "hot-record",
     .type = BASE_SETTING_SIZE,
     .min = 64,
     .max = UINT64_C(128) << 10,
     .default_text = "64K",
     .help = "Longest record, with its key and a header of 40 bytes, that is kept there.",
     AT(hot_record_bytes)},
    {.name = "hot-warm",
     .type = BASE_SETTING_SIZE,
     .default_text = "0",
     .help = "Bytes a second, at most, that are read in the background after a start, until memory has again "
             "what was asked for most when the server was stopped in good order. 0: memory begins empty.",
     AT(hot_warm_rate_bytes)},
    {.name = "max-connections",
     .letter = 'c',
     .type = BASE_SETTING_UINT,
     .min = 1,
     .max = UINT32_MAX,
     .default_text = "1024",
     .unit = "connections",
     .help = "Most connections of each address at once; further ones are closed.",
     AT(connections_max)},
    {.name = "max-item-size",
     .letter = 'I',
     .type = BASE_SETTING_SIZE,
     .min = 1024,
     .max = UINT64_C(2) << 20,
     .default_text = "1M",
     .help = "Largest item, counted as memcached does: key, value and 59 bytes. The store has a limit of its "
             "own, a little below 2 MiB, less in stores below 64 MiB.",
     AT(item_bytes_max)},
    {.name = "item-size-max", /* an earlier name of max-item-size */
     .type = BASE_SETTING_SIZE,
     .flags = BASE_SETTING_HIDDEN,
     .min = 1024,
     .max = UINT64_C(2) << 20,
     .default_text = "1M",
     .help = "The same as --max-item-size.",
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
    {.name = "damaged",
     .type = BASE_SETTING_ENUM,
     .choices = damaged_ways,
     .default_text = "refuse",
     .help = "What to do with a store that lacks acknowledged records, of keys that nobody can tell. refuse: "
             "do not "
             "start. serve: answer with an error, never with an older value, for each key whose newest "
             "record may be "
             "missing; a set stores it anew. A cache gives up what it holds instead.",
     AT(damaged)},
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
    {.name = "extended",
     .letter = 'o',
     .type = BASE_SETTING_LIST,
     .metavar = "idle_timeout=N",
     .help = "As memcached's: a connection that has said nothing for N seconds is closed; 0 is never. "
             "maxconns_fast and modern are what is done in any case.",
     AT(extended)},
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
     .help = "Where SIGUSR1 has all records of the one depot written (of several, each says dump=FILE), as "
             "they are at that moment, while the server goes on: a "
             "stream for `tarn load`. FILE is replaced when the new one is whole. No client can ask for it.",
     AT(dump)},
    {.name = "memory-limit",
     .letter = 'm',
     .type = BASE_SETTING_UINT,
     .metavar = "MEGABYTES",
     .max = UINT32_MAX,
     .help = "As memcached's: a store in memory alone, of the name `default`, that keeps items in this many "
             "megabytes and evicts what was not used. Not together with --data.",
     AT(memory_limit_mib)},
    {.name = "disable-evictions",
     .letter = 'M',
     .type = BASE_SETTING_BOOL,
     .help = "Refuse new data when a store is full: what a depot without --cache does.",
     AT(disable_evictions)},
    {.name = "disable-flush-all",
     .letter = 'F',
     .type = BASE_SETTING_BOOL,
     .help = "Refuse the command `flush_all`.",
     AT(disable_flush_all)},
    {.name = "disable-dumping",
     .letter = 'X',
     .type = BASE_SETTING_BOOL,
     .help = "Refuse the commands that list all keys: `lru_crawler metadump`, `stats cachedump`.",
     AT(disable_dumping)},
    {.name = "daemon",
     .letter = 'd',
     .type = BASE_SETTING_BOOL,
     .help = "Go on in the background when the server is ready; the command ends then, or with what was "
             "wrong. There is no log, unless --verbose keeps standard error.",
     AT(daemon)},
    {.name = "user",
     .letter = 'u',
     .type = BASE_SETTING_STRING,
     .metavar = "NAME",
     .help = "If root starts it, become this user first: files and sockets are then this user's.",
     AT(user)},
    {.name = "pidfile",
     .letter = 'P',
     .type = BASE_SETTING_STRING,
     .metavar = "FILE",
     .help = "While it serves, have the number of the process in this file.",
     AT(pidfile)},
    {.name = "lock-memory",
     .letter = 'k',
     .type = BASE_SETTING_BOOL,
     .help = "Never let what the server has in memory be swapped out. The limit of locked memory (ulimit -l) "
             "must allow it.",
     AT(lock_memory)},
    {.name = "verbose",
     .letter = 'v',
     .type = BASE_SETTING_BOOL,
     .help = "With --daemon: the log goes on to standard error. How much is said is up to --log-level.",
     AT(verbose)},
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
    {.name = "version",
     .letter = 'V',
     .type = BASE_SETTING_BOOL,
     .flags = BASE_SETTING_COMMAND_ONLY,
     .help = "Print the version and exit.",
     AT(version)},
    /* options of memcached's that are accepted, because they ask for what the server does anyway */
    {.name = "udp-port",
     .letter = 'U',
     .type = BASE_SETTING_UINT,
     .flags = BASE_SETTING_HIDDEN,
     .max = UINT16_MAX,
     .help = "As memcached's; 0, as UDP is not served.",
     AT(udp_port)},
    {.name = "protocol",
     .letter = 'B',
     .type = BASE_SETTING_ENUM,
     .flags = BASE_SETTING_HIDDEN,
     .choices = protocols,
     .help = "As memcached's; the text protocol alone is served.",
     AT(protocol)},
    {.name = "disable-watching",
     .letter = 'W',
     .type = BASE_SETTING_BOOL,
     .flags = BASE_SETTING_HIDDEN,
     .help = "As memcached's: there is nothing to watch.",
     AT(disable_watching)},
    /* options of memcached's that are refused, because the server has no such thing */
    REFUSED('f', "slab-growth-factor", BASE_SETTING_STRING, "it" NO_SLABS),
    REFUSED('n', "slab-min-size", BASE_SETTING_STRING, "it" NO_SLABS),
    REFUSED('L', "enable-largepages", BASE_SETTING_BOOL, "it" NO_SLABS),
    REFUSED('C', "disable-cas", BASE_SETTING_BOOL,
            "every item has its cas unique, which costs no room here: leave it out"),
    REFUSED('D', "delimiter", BASE_SETTING_STRING, "prefixes of keys are not counted: leave it out"),
    REFUSED('R', "max-reqs-per-event", BASE_SETTING_STRING,
            "connections take turns by what they have sent at once: leave it out"),
    REFUSED('b', "listen-backlog", BASE_SETTING_STRING,
            "the kernel's limit counts: set net.core.somaxconn with sysctl, and leave it out"),
    REFUSED('r', "enable-coredumps", BASE_SETTING_BOOL,
            "limits are those of the process that starts the server: say ulimit -c unlimited there, or "
            "LimitCORE= in the unit"),
    REFUSED('S', "enable-sasl", BASE_SETTING_BOOL,
            "it is of memcached's binary protocol; here clients without a secret are kept away by addresses, "
            "or use Tarn's own protocol (--kv-listen) with a secret or TLS (--kv-fabric)"),
    REFUSED('Y', "auth-file", BASE_SETTING_STRING,
            "memcached's protocol is served without passwords; Tarn's own (--kv-listen) has a secret or TLS "
            "(--kv-fabric)"),
    REFUSED('Z', "enable-ssl", BASE_SETTING_BOOL,
            "memcached's protocol is served without TLS; Tarn's own (--kv-listen) has it (--kv-fabric)"),
    REFUSED('N', "napi-ids", BASE_SETTING_STRING,
            "connections are dealt to threads without it: leave it out"),
    {.name = "man",
     .type = BASE_SETTING_BOOL,
     .flags = BASE_SETTING_COMMAND_ONLY | BASE_SETTING_HIDDEN,
     .help = "Print these settings as a part of a man page and exit.",
     AT(man)},
};

const size_t serve_settings_count = base_array_count(serve_settings);

/* ---- what does not go together ------------------------------------------------------------------- */

static bool has_kv_listeners(const struct serve_options *options)
{
    return options->kv_listen.count > 0 || options->kv_unix_path != NULL;
}

/* Check that a store shares no name and no path with those before it. */
static int check_distinct(const struct serve_options *options, const struct serve_store_options *store,
                          uint32_t place, char *error, size_t room)
{
    for (uint32_t i = 0; i < place; i++) {
        struct serve_store_options other;
        int result = serve_store_at(options, i, &other, error, room);
        if (result != 0)
            return result;
        if (strcmp(other.name, store->name) == 0)
            return base_settings_fail(
                error, room, "two stores have the name %s%s", store->name,
                other.path != NULL && other.path == options->data ? ": --data is one of them" : "");
        if (store->path != NULL && other.path != NULL && strcmp(other.path, store->path) == 0)
            return base_settings_fail(error, room, "the stores %s and %s have the same path", other.name,
                                      store->name);
    }
    return 0;
}

static int check_store(const struct serve_options *options, uint32_t place,
                       struct serve_store_options *ret_store, char *error, size_t room)
{
    int result = serve_store_at(options, place, ret_store, error, room);
    if (result == 0)
        result = check_distinct(options, ret_store, place, error, room);
    if (result == 0 && place > 0 && ret_store->port == SERVE_NO_PORT && ret_store->unix_path == NULL &&
        !has_kv_listeners(options))
        result = base_settings_fail(
            error, room,
            "nobody could reach the store %s: say where with port=N or unix=PATH, or offer all stores "
            "with --kv-listen or --kv-unix",
            ret_store->name);
    return result;
}

static int check_stores(const struct serve_options *options, char *error, size_t room)
{
    const uint32_t count = serve_stores_named(options);
    uint32_t depots = 0;
    if (count == 0)
        return base_settings_fail(
            error, room,
            "where is the store? Name a file or a device with --data=FILE, or stores with "
            "--store=NAME:depot,path=FILE, --store=NAME:cache,memory=SIZE, --store=NAME:hash,memory=SIZE and "
            "--store=NAME:tree,path=FILE; "
            "-m MEGABYTES is one in memory "
            "alone, as memcached's. A space's servers are told by --space and --memory-server");
    if (count > KV_STORES_MAX)
        return base_settings_fail(error, room, "there are more than %d stores", KV_STORES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct serve_store_options store;
        int result = check_store(options, i, &store, error, room);
        if (result != 0)
            return result;
        depots += store.kind == SERVE_DEPOT ? 1 : 0;
        if (options->disable_evictions && serve_evicts(options, &store))
            return base_settings_fail(
                error, room,
                "-M, --disable-evictions: the store %s is a cache, which evicts what was not used: "
                "say --data=FILE without --cache for one that refuses new data instead",
                store.name);
    }
    if (options->dump != NULL && depots != 1)
        return base_settings_fail(
            error, room, "--dump is for one depot, and there are %u: say dump=FILE in --store for each",
            depots);
    return 0;
}

static int refuse_outside(const char *address, const char *but, char *error, size_t room)
{
    return base_settings_fail(
        error, room,
        "%s may be reached by other machines, and anybody who reaches it could read and change everything: "
        "say %s--insecure if that is meant",
        address, but);
}

/* Whether an address is localhost, with or without a port: that name never means another machine (RFC 6761). */
static bool is_localhost(const char *address)
{
    static const char name[] = "localhost";
    const char *rest = address + sizeof(name) - 1;
    return strncmp(address, name, sizeof(name) - 1) == 0 && (*rest == '\0' || *rest == ':');
}

static int check_kv_listeners(const struct serve_options *options, char *error, size_t room)
{
    const char *url = options->kv_fabric;
    if (strncmp(url, "tcp:", 4) != 0 && strncmp(url, "verbs:", 6) != 0)
        return base_settings_fail(
            error, room, "--kv-fabric is tcp: or verbs:, with options behind it; --kv-unix is for shm");
    for (size_t i = 0; i < options->kv_listen.count; i++) {
        const char *address = options->kv_listen.items[i], *colon = strrchr(address, ':');
        if (colon == NULL || strchr(colon, ']') != NULL || strcmp(colon, ":0") == 0)
            return base_settings_fail(error, room, "--kv-listen: %s has no port: say ADDRESS:PORT", address);
        if (!options->insecure && !net_is_loopback(address) && !is_localhost(address) &&
            !serve_fabric_is_secure(url))
            return refuse_outside(address, "--kv-fabric=tcp:secret=FILE, or ", error, room);
    }
    return 0;
}

int serve_unix_access(const struct serve_options *options, mode_t *ret_mode, gid_t *ret_group)
{
    char *end;
    const unsigned long mode = strtoul(options->unix_mask, &end, 8);
    if (options->unix_mask[0] < '0' || options->unix_mask[0] > '7' || *end != '\0' || mode > 0777)
        return -EINVAL;
    gid_t group = NET_GROUP_SAME;
    if (options->unix_group != NULL) {
        const struct group *named = getgrnam(options->unix_group);
        const unsigned long number = strtoul(options->unix_group, &end, 10);
        bool is_number = options->unix_group[0] >= '0' && options->unix_group[0] <= '9' && *end == '\0';
        if (named == NULL && (!is_number || number >= NET_GROUP_SAME))
            return -ENOENT;
        group = named != NULL ? named->gr_gid : (gid_t)number;
    }
    *ret_mode = (mode_t)mode;
    *ret_group = group;
    return 0;
}

static int check_unix_access(const struct serve_options *options, char *error, size_t room)
{
    mode_t mode;
    gid_t group;
    switch (serve_unix_access(options, &mode, &group)) {
    case 0:
        return 0;
    case -ENOENT:
        return base_settings_fail(error, room, "--unix-group: there is no group %s (getent group lists them)",
                                  options->unix_group);
    default:
        return base_settings_fail(error, room, "--unix-mask: %s is no mode: say 0700 to 0777, in octal",
                                  options->unix_mask);
    }
}

/* Read the seconds of idle_timeout=N. @return false: it is another item */
static bool read_idle_timeout(const char *item, uint64_t *ret_seconds)
{
    static const char name[] = "idle_timeout=";
    return strncmp(item, name, sizeof(name) - 1) == 0 &&
           base_parse_u64(item + sizeof(name) - 1, ret_seconds) == 0 && *ret_seconds <= UINT32_MAX;
}

uint64_t serve_idle_timeout_ns(const struct serve_options *options)
{
    uint64_t seconds = 0;
    for (size_t i = 0; i < options->extended.count; i++)
        (void)read_idle_timeout(options->extended.items[i], &seconds);
    return seconds * BASE_NS_PER_SECOND;
}

static int check_extended(const struct serve_options *options, char *error, size_t room)
{
    for (size_t i = 0; i < options->extended.count; i++) {
        const char *item = options->extended.items[i];
        uint64_t seconds;
        if (strcmp(item, "maxconns_fast") != 0 && strcmp(item, "modern") != 0 &&
            !read_idle_timeout(item, &seconds))
            return base_settings_fail(error, room,
                                      "-o %s: of what memcached's -o says idle_timeout=SECONDS, "
                                      "maxconns_fast and modern are taken here; "
                                      "the others are of its slabs, lists and tables: leave it out",
                                      item);
    }
    return 0;
}

/* @return whether it is one of the words or sizes that --hot takes */
static bool read_hot(const char *text, uint64_t *ret_bytes)
{
    if (strcmp(text, "auto") == 0)
        *ret_bytes = 0;
    else if (strcmp(text, "off") == 0)
        *ret_bytes = TARN_HOT_OFF;
    else
        return base_parse_size(text, ret_bytes) == 0 && *ret_bytes > 0;
    return true;
}

uint64_t serve_hot_bytes(const struct serve_options *options)
{
    uint64_t bytes = 0;
    (void)read_hot(options->hot, &bytes);
    return bytes;
}

static int check_hot(const struct serve_options *options, char *error, size_t room)
{
    uint64_t bytes;
    if (!read_hot(options->hot, &bytes))
        return base_settings_fail(error, room, "--hot=%s: say a size, as 512M, or auto, or off",
                                  options->hot);
    return 0;
}

/* Check the values of memcached's options. */
static int check_memcached(const struct serve_options *options, char *error, size_t room)
{
    if (options->memory_limit_mib != 0 && options->data != NULL)
        return base_settings_fail(
            error, room,
            "-m, --memory-limit is for items in memory, and --data keeps them on a drive: say --size for how "
            "much of that, --memory for the server's own memory; or leave out one of the two");
    if (options->udp_port != 0)
        return base_settings_fail(error, room, "-U, --udp-port: UDP is not served: say 0, or leave it out");
    if (options->protocol == BINARY)
        return base_settings_fail(
            error, room, "-B, --protocol: the binary protocol is not served: say ascii, or leave it out");
    return check_extended(options, error, room);
}

int serve_check_options(const struct serve_options *options, char *error, size_t room)
{
    struct serve_space_plan plan;
    if (serve_is_of_space(options))
        return serve_space_plan(options, &plan, error, room);
    int result = serve_check_no_space(options, error, room);
    if (result == 0)
        result = check_memcached(options, error, room);
    if (result == 0)
        result = check_hot(options, error, room);
    if (result == 0)
        result = check_stores(options, error, room);
    if (result == 0)
        result = check_unix_access(options, error, room);
    for (size_t i = 0; i < options->listen.count && result == 0; i++) {
        const char *address = options->listen.items[i];
        if (!options->insecure && !net_is_loopback(address) && !is_localhost(address))
            result = refuse_outside(address, "", error, room);
    }
    return result == 0 ? check_kv_listeners(options, error, room) : result;
}
