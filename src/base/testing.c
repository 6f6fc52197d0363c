/* What the tests of all layers share: suites that several programs run, and trying out whether a function aborts. */
#include "base/testing.h"

#include <signal.h>
#include <sys/wait.h>

static bool is_wanted(const char *name, const char *const *only)
{
    for (size_t i = 0; only != NULL && only[i] != NULL; i++) {
        if (strncmp(name, only[i], strlen(only[i])) == 0)
            return true;
    }
    return only == NULL;
}

int testing_run_suites(const char *name, const struct testing_suite *suites, const char *const *only,
                       CMFixtureFunction setup, CMFixtureFunction teardown)
{
    size_t room = 0, count = 0;
    for (const struct testing_suite *suite = suites; suite->tests != NULL; suite++)
        room += suite->count;
    struct CMUnitTest *tests = calloc(room, sizeof(*tests));
    base_assert(tests != NULL);
    for (const struct testing_suite *suite = suites; suite->tests != NULL; suite++) {
        for (size_t i = 0; i < suite->count; i++) {
            if (is_wanted(suite->tests[i].name, only))
                tests[count++] = suite->tests[i];
        }
    }
    int failed = _cmocka_run_group_tests(name, tests, count, setup, teardown);
    free(tests);
    return failed;
}

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
