/*
 * A client of Tarn's own protocol, for tests: kv_client URL [FABRIC] opens a store and does what the lines of its
 * standard input say, words between spaces, each answered by one line:
 *
 *   put KEY VALUE   ok
 *   get KEY         value VALUE, or none
 *   del KEY         ok, or none
 *   kind            depot or cache, and whether it is durable
 *   pound           put 0, 1, 2 … until one fails: a line for each that was acknowledged, `end ERROR` at last
 *
 * What fails is answered by `error NAME`.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <tarn/kv.h>

#define LINE_BYTES  4096
#define VALUE_BYTES (1 << 20)

static char value[VALUE_BYTES];

/* One answer, seen at once. */
static void answer(const char *word, const char *rest)
{
    (void)printf("%s %s\n", word, rest);
    (void)fflush(stdout);
}

static void answer_error(int error, const char *success)
{
    if (error == 0)
        answer(success, "");
    else if (error == -ENOENT)
        answer("none", "");
    else
        answer("error", strerrorname_np(-error));
}

static void get(struct tarn_kv *kv, const char *key)
{
    struct tarn_record_info info;
    int error = tarn_kv_get(kv, key, strlen(key), value, sizeof(value) - 1, &info);
    if (error == 0)
        value[info.value_bytes] = '\0';
    if (error == 0)
        answer("value", value);
    else
        answer_error(error, "");
}

static void pound(struct tarn_kv *kv)
{
    char key[32];
    int error = 0;
    for (unsigned i = 0; error == 0; i++) {
        (void)snprintf(key, sizeof(key), "%u", i);
        error = tarn_kv_put(kv, key, strlen(key), key, strlen(key), NULL, NULL);
        if (error == 0)
            answer("ok", key);
    }
    answer("end", strerrorname_np(-error));
}

static void tell_kind(const struct tarn_kv *kv)
{
    struct tarn_kv_info info;
    tarn_kv_info(kv, &info);
    answer(info.kind, (info.abilities & TARN_KV_DURABLE) != 0 ? "durable" : "evicts");
}

static void obey(struct tarn_kv *kv, char *line)
{
    const char *verb = strsep(&line, " "), *key = strsep(&line, " ");
    if (strcmp(verb, "kind") == 0)
        tell_kind(kv);
    else if (strcmp(verb, "pound") == 0)
        pound(kv);
    else if (key == NULL)
        answer("error", "what?");
    else if (strcmp(verb, "get") == 0)
        get(kv, key);
    else if (strcmp(verb, "del") == 0)
        answer_error(tarn_kv_delete(kv, key, strlen(key)), "ok");
    else if (strcmp(verb, "put") == 0 && line != NULL)
        answer_error(tarn_kv_put(kv, key, strlen(key), line, strlen(line), NULL, NULL), "ok");
    else
        answer("error", "what?");
}

int main(int argc, char **argv)
{
    char line[LINE_BYTES];
    struct tarn_kv_options options = {.timeout_ns = 0};
    struct tarn_node *node;
    struct tarn_kv *kv;
    if (argc < 2 || tarn_node_open(NULL, &node) != 0)
        return 2;
    if (argc > 2 && tarn_fabric_open(node, argv[2], &options.fabric) != 0)
        return 2;
    int error = tarn_kv_open(node, argv[1], &options, &kv);
    answer_error(error, "open");
    while (error == 0 && fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        obey(kv, line);
    }
    if (error == 0 && tarn_kv_close(kv) != 0)
        return 2;
    if (options.fabric != NULL)
        tarn_fabric_close(options.fabric);
    tarn_node_close(node);
    return error == 0 ? 0 : 1;
}
