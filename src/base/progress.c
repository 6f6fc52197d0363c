/* A progress bar for terminals: when it is drawn, how it fits a line, and how it wipes itself. */
#include "base/progress.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/units.h"

#define SILENT_NS (1 * BASE_NS_PER_SECOND)
#define REDRAW_NS (100 * BASE_NS_PER_MS)
#define BAR_WIDTH 20
#define WIPE_REST "\033[K" /* of a line */

bool base_progress_suits(FILE *file)
{
    const char *term = getenv("TERM");
    int descriptor = fileno(file);
    return descriptor >= 0 && isatty(descriptor) == 1 && (term == NULL || strcmp(term, "dumb") != 0);
}

void base_progress_init(struct base_progress *progress, FILE *file, const char *label, const char *unit,
                        uint64_t total, base_clock_function *clock, void *clock_arg)
{
    *progress = (struct base_progress){
        .file = file,
        .label = label,
        .unit = unit,
        .total = total,
        .clock = clock,
        .clock_arg = clock_arg,
        .begin_ns = clock(clock_arg),
        .silent = !base_progress_suits(file),
    };
}

static const char *format_amount(const struct base_progress *progress, char *buffer, size_t room,
                                 uint64_t amount)
{
    if (progress->unit == NULL)
        return base_format_size(buffer, room, amount);
    snprintf(buffer, room, "%llu", (unsigned long long)amount);
    return buffer;
}

const char *base_progress_format(const struct base_progress *progress, char *buffer, size_t room,
                                 uint64_t done, uint64_t elapsed_ns)
{
    char amount[BASE_UNITS_ROOM], total[BASE_UNITS_ROOM], rate[BASE_UNITS_ROOM], left[BASE_UNITS_ROOM];
    const char *unit = progress->unit == NULL ? "" : progress->unit;
    const char *space = progress->unit == NULL ? "" : " ";
    double per_second = elapsed_ns == 0 ? 0 : (double)done * 1e9 / (double)elapsed_ns;
    format_amount(progress, amount, sizeof(amount), done);
    format_amount(progress, rate, sizeof(rate), (uint64_t)per_second);
    if (progress->total == 0) {
        snprintf(buffer, room, "%s  %s%s%s  %s/s", progress->label, amount, space, unit, rate);
        return buffer;
    }
    double share = base_min((double)done / (double)progress->total, 1.0);
    char bar[BAR_WIDTH + 1];
    size_t filled = (size_t)(share * BAR_WIDTH);
    memset(bar, '#', filled);
    memset(bar + filled, '.', BAR_WIDTH - filled);
    bar[BAR_WIDTH] = '\0';
    format_amount(progress, total, sizeof(total), progress->total);
    int len = snprintf(buffer, room, "%s [%s] %3u%%  %s of %s%s%s  %s/s", progress->label, bar,
                       (unsigned)(share * 100), amount, total, space, unit, rate);
    if (done > 0 && done < progress->total && len > 0 && (size_t)len < room) {
        double left_seconds = (double)(progress->total - done) / per_second;
        /* Beyond a year the estimate says nothing. */
        if (left_seconds < 365.0 * 86400) {
            base_format_duration(left, sizeof(left), (uint64_t)left_seconds * BASE_NS_PER_SECOND);
            snprintf(buffer + len, room - (size_t)len, "  %s left", left);
        }
    }
    return buffer;
}

/* The last column stays free: some terminals would begin a new line. */
static int columns_of(FILE *file)
{
    struct winsize size = {.ws_col = 0};
    return ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : INT_MAX;
}

static void draw_bar(struct base_progress *progress, uint64_t done, uint64_t now_ns)
{
    char line[256];
    base_progress_format(progress, line, sizeof(line), done, now_ns - progress->begin_ns);
    fprintf(progress->file, "%.*s" WIPE_REST "\r", columns_of(progress->file), line);
    fflush(progress->file);
    progress->drawn_ns = now_ns;
}

void base_progress_update(struct base_progress *progress, uint64_t done)
{
    if (progress->silent)
        return;
    uint64_t now_ns = progress->clock(progress->clock_arg);
    if (now_ns - progress->begin_ns >= SILENT_NS && now_ns - progress->drawn_ns >= REDRAW_NS)
        draw_bar(progress, done, now_ns);
}

void base_progress_end(struct base_progress *progress)
{
    if (progress->drawn_ns == 0)
        return;
    fputs(WIPE_REST, progress->file);
    fflush(progress->file);
    progress->silent = true;
    progress->drawn_ns = 0;
}
