/* For tests of measuring: running a command as a user does, and folders for its files. */
#include "bench/testing.h"

#include <netinet/in.h>
#include <sys/socket.h>

void run_command(struct run *run, const struct bench_program *program, const char *const *arguments)
{
    char *argv[24];
    int argc = 0;
    for (; arguments[argc] != NULL; argc++) {
        assert_in_range(argc, 0, base_array_count(argv) - 1);
        argv[argc] = (char *)(uintptr_t)arguments[argc]; /* it changes none */
    }
    FILE *out = open_memstream(&run->out, &run->out_bytes);
    FILE *err = open_memstream(&run->err, &run->err_bytes);
    assert_non_null(out);
    assert_non_null(err);
    run->status = bench_main(program, argc, argv, out, err);
    (void)fclose(out);
    (void)fclose(err);
}

void free_run(struct run *run)
{
    free(run->out);
    free(run->err);
}

void assert_success(const struct run *run)
{
    if (run->status != 0)
        print_error("%s", run->err);
    assert_int_equal(run->status, 0);
}

void expect_run(int status, const struct bench_program *program, const char *const *arguments,
                const char *text)
{
    struct run run;
    run_command(&run, program, arguments);
    const char *where = status == 0 ? run.out : run.err;
    if (run.status != status || strstr(where, text) == NULL)
        print_error("%s%s", run.out, run.err);
    assert_int_equal(run.status, status);
    assert_non_null(strstr(where, text));
    free_run(&run);
}

size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

double number_of(struct base_json_value object, const char *name)
{
    struct base_json_value value;
    double number = 0;
    assert_int_equal(base_json_member(object, name, &value), 0);
    assert_int_equal(base_json_number(value, &number), 0);
    return number;
}

uint16_t find_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

const char *in_memory(void)
{
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : "";
}

int make_folder_in(struct folder *folder, const char *parent, const char *file_name)
{
    (void)snprintf(folder->path, sizeof(folder->path), "%sbench-test-XXXXXX", parent);
    if (mkdtemp(folder->path) == NULL)
        return -1;
    (void)snprintf(folder->file, sizeof(folder->file), "%s/%s", folder->path, file_name);
    (void)snprintf(folder->option, sizeof(folder->option), "--path=%s", folder->file);
    return 0;
}
