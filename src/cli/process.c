/* The process of `tarn serve`: its user, the background, a file with its number. */
#include "cli/process.h"
#include "cli/cli.h"
#include "serve/serve.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the background ------------------------------------------------------------------------------ */

/* Wait in the foreground until the child is ready, or has ended with what it has said. */
static _Noreturn void await_child(pid_t child, int end)
{
    char ready;
    ssize_t bytes;
    int status = 0;
    do
        bytes = read(end, &ready, 1);
    while (bytes < 0 && errno == EINTR);
    if (bytes == 1)
        _exit(CLI_OK);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status))
        (void)cli_failed("the server was ended by signal %d before it was ready", WTERMSIG(status));
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : CLI_FAILED);
}

static int leave_foreground(struct cli_process *process)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return cli_failed("cannot go to the background: %s", strerrordesc_np(errno));
    pid_t child = fork();
    if (child < 0)
        return cli_failed("cannot go to the background: %s", strerrordesc_np(errno));
    if (child > 0) {
        (void)close(ends[1]);
        await_child(child, ends[0]);
    }
    (void)close(ends[0]);
    process->parent = ends[1];
    (void)setsid();
    return CLI_OK;
}

static void let_foreground_go(struct cli_process *process)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++) {
        if (fd != STDERR_FILENO || !process->options->verbose)
            (void)dup2(null, fd);
    }
    if (null > STDERR_FILENO)
        (void)close(null);
    ssize_t written = write(process->parent, "", 1); /* nobody may be there any more to read it */
    (void)written;
    (void)close(process->parent);
    process->parent = -1;
}

/* ---- the user ------------------------------------------------------------------------------------ */

/* As memcached, which leaves it to root to say who it is. */
static int become(const char *name)
{
    if (geteuid() != 0)
        return CLI_OK;
    const struct passwd *user = getpwnam(name);
    if (user == NULL)
        return cli_failed("--user: there is no user %s (getent passwd lists them)", name);
    if (initgroups(user->pw_name, user->pw_gid) != 0 || setgid(user->pw_gid) != 0 ||
        setuid(user->pw_uid) != 0)
        return cli_failed("--user: cannot become %s: %s", name, strerrordesc_np(errno));
    return CLI_OK;
}

/* What is mapped and never touched is not made for it. The limit is lifted where that is allowed: root has none, another user
 * that it becomes has one. */
static int lock_memory(const struct serve_options *options)
{
    const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    bool is_lifted = setrlimit(RLIMIT_MEMLOCK, &unlimited) == 0;
    if ((is_lifted || options->user == NULL) && mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0)
        return CLI_OK;
    return cli_failed("--lock-memory: %s: raise the limit of locked memory (ulimit -l unlimited, or "
                      "LimitMEMLOCK=infinity in the unit)",
                      strerrordesc_np(errno));
}

/* ---- the file with the number -------------------------------------------------------------------- */

static int write_pidfile(const char *path)
{
    FILE *file = fopen(path, "we");
    bool is_written = file != NULL && fprintf(file, "%ld\n", (long)getpid()) > 0;
    if (file != NULL && fclose(file) != 0)
        is_written = false;
    return is_written
               ? CLI_OK
               : cli_failed(
                     "--pidfile: cannot write %s: %s: name a file in a folder that the server's user may "
                     "write to",
                     path, strerrordesc_np(errno));
}

/* ---- in order ------------------------------------------------------------------------------------ */

int cli_process_begin(struct cli_process *process, const struct serve_options *options)
{
    int status = CLI_OK;
    *process = (struct cli_process){.options = options, .parent = -1};
    if (options->daemon)
        status = leave_foreground(process);
    if (status == CLI_OK && options->lock_memory)
        status = lock_memory(options);
    if (status == CLI_OK && options->user != NULL)
        status = become(options->user);
    return status;
}

int cli_process_ready(struct cli_process *process)
{
    const char *pidfile = process->options->pidfile;
    int status = pidfile == NULL ? CLI_OK : write_pidfile(pidfile);
    if (status == CLI_OK && process->parent >= 0)
        let_foreground_go(process);
    return status;
}

void cli_process_end(const struct cli_process *process)
{
    if (process->options->pidfile != NULL)
        (void)unlink(process->options->pidfile);
}
