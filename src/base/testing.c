/* What the tests of all layers share: trying out whether a function aborts. */
#include "base/testing.h"

#include <signal.h>
#include <sys/wait.h>

bool testing_aborts(void (*function)(void *arg), void *arg)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        function(arg);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
