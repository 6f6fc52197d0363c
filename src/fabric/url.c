/* URLs of fabrics: the options that providers have in common, behind the colon. Each provider reads its own. */
#include "fabric/fabric_internal.h"
#include <errno.h>
#include <string.h>

#define HEARTBEAT_NS_MIN (20 * BASE_NS_PER_MS)
#define HEARTBEAT_NS_MAX (3600 * BASE_NS_PER_SECOND)

int fabric_url_complain(struct base_log *log, const char *option, const char *reason)
{
    char quoted[BASE_LOG_ROOM_MIN];
    base_error(log, "cannot use fabric's URL", "option=%s reason=\"%s\"",
               base_log_quote(quoted, sizeof(quoted), option, strlen(option)), reason);
    return -EINVAL;
}

int fabric_url_next(struct base_log *log, const char **text, char *ret_option, size_t room)
{
    size_t len = strcspn(*text, ",");
    if (**text == '\0')
        return -ENOENT;
    if (len >= room)
        return fabric_url_complain(log, *text, "it is too long");
    memcpy(ret_option, *text, len);
    ret_option[len] = '\0';
    *text += len;
    *text += **text == ',' ? 1 : 0;
    return 0;
}

const char *fabric_url_value(const char *option, const char *name)
{
    size_t len = strlen(name);
    return strncmp(option, name, len) == 0 ? option + len : NULL;
}

int fabric_url_heartbeat(struct base_log *log, const char *option, const char *text, uint64_t *ret_ns)
{
    uint64_t ns;
    if (base_parse_duration(text, &ns) != 0 || ns < HEARTBEAT_NS_MIN || ns > HEARTBEAT_NS_MAX)
        return fabric_url_complain(log, option, "it takes a duration of 20ms to 1h");
    *ret_ns = ns;
    return 0;
}
