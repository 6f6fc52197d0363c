/* Is a path's folder the right one, wherever the path begins and however long it is? */
#include "base/testing.h"

#include "base/folder.h"
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect_folder(struct base_account *account, const char *path, const char *folder)
{
    struct stat opened, expected;
    const int fd = base_folder_open(account, path);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &opened), 0);
    assert_int_equal(stat(folder, &expected), 0);
    assert_true(opened.st_dev == expected.st_dev && opened.st_ino == expected.st_ino);
    assert_int_equal(close(fd), 0);
    assert_int_equal(base_folder_sync(account, path), 0);
}

static void test_the_folder_of_a_path(void **state base_unused)
{
    struct base_account account;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    expect_folder(&account, "a-file-that-is-not-there", ".");
    expect_folder(&account, "./a-file", ".");
    expect_folder(&account, "/a-file", "/");
    expect_folder(&account, "/dev/shm/a-file", "/dev/shm");
    expect_folder(&account, "/dev/shm/", "/dev/shm");
}

static void test_no_folder(void **state base_unused)
{
    struct base_account account;
    char path[PATH_MAX + 2];
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(base_folder_open(&account, "/dev/shm/no-such-folder/file"), -ENOENT);
    assert_int_equal(base_folder_sync(&account, "/dev/null/file"), -ENOTDIR);
    memset(path, '/', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(base_folder_open(&account, path), -ENAMETOOLONG);
    assert_int_equal(base_folder_sync(&account, path), -ENAMETOOLONG);
    base_account_fail_at(&account, 1);
    assert_int_equal(base_folder_sync(&account, "/dev/shm/"), -ENOMEM);
    assert_int_equal(base_account_used(&account), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_folder_of_a_path),
        cmocka_unit_test(test_no_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
