/*
 * A memcached in a few arrays: what a request does to the items, and what is answered. A version that only
 * the server knows stands in an answer as a mark with its number among all versions.
 */
#include "memcache/model_testing.h"

void model_put(struct model_text *text, const void *bytes, size_t len)
{
    base_assert(len < SIZE_MAX / 4);
    if (text->len + len + 1 > text->room) {
        text->room = 2 * (text->len + len) + 4096;
        text->text = realloc(text->text, text->room);
        base_assert(text->text != NULL);
    }
    memcpy(text->text + text->len, bytes, len);
    text->len += len;
    text->text[text->len] = '\0';
}

void model_print(struct model_text *text, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    base_assert(len >= 0 && (size_t)len < sizeof(line));
    model_put(text, line, (size_t)len);
}

size_t model_digits(char to[32], uint64_t number, size_t width)
{
    int len = snprintf(to, 32, "%-*llu", (int)width, (unsigned long long)number);
    base_assert(len > 0 && len < 32);
    return (size_t)len;
}

/* ---- items -------------------------------------------------------------------------------------- */

/* @return the item of a request's first key, or NULL */
static struct model_item *model_find(struct model *model, uint32_t key)
{
    struct model_item *item = &model->items[key];
    if (item->there && item->expiry_s != 0 && item->expiry_s <= model->now_s)
        item->there = false;
    return item->there ? item : NULL;
}

static uint64_t model_expiry(const struct model *model, int64_t exptime)
{
    return exptime == 0 ? 0 : exptime < 0 ? 1 : model->now_s + (uint64_t)exptime;
}

static void model_set_value(struct model_item *item, const char *value, size_t len)
{
    char *copy = malloc(len + 1);
    base_assert(copy != NULL);
    memcpy(copy, value, len);
    copy[len] = '\0';
    free(item->value);
    item->value = copy;
    item->len = len;
}

static const char *model_word(const struct model_request *request, char flag)
{
    for (uint32_t i = 0; i < request->word_count; i++) {
        if (request->words[i][0] == flag)
            return request->words[i] + 1;
    }
    return NULL;
}

static uint64_t model_number(const struct model_request *request, char flag, uint64_t otherwise)
{
    const char *word = model_word(request, flag);
    return word == NULL ? otherwise : strtoull(word, NULL, 10);
}

/* @param request  may ask for a version of its own */
static void model_renew(struct model *model, struct model_item *item, const struct model_request *request)
{
    base_assert(model->version_count < MODEL_VERSIONS_MAX);
    model->versions[model->version_count] = model_number(request, 'E', 0);
    item->version = model->version_count++;
}

/* Whether the request compares versions, and finds another. */
static bool model_is_another(const struct model *model, const struct model_request *request,
                             const struct model_item *item)
{
    bool compares = strcmp(request->verb, "cas") == 0 || model_word(request, 'C') != NULL;
    uint64_t wanted = model_number(request, 'C', request->number);
    return compares && wanted != model->versions[item->version];
}

static void model_store(struct model *model, struct model_item *item, const struct model_request *request)
{
    bool meta = request->verb[0] == 'm';
    model_set_value(item, request->value, request->len);
    item->there = true;
    item->flags = meta ? (uint32_t)model_number(request, 'F', 0) : request->flags;
    item->expiry_s = model_expiry(model, meta ? (int64_t)model_number(request, 'T', 0) : request->exptime);
    item->stale = item->sent = false;
    model_renew(model, item, request);
}

static bool model_may_join(const struct model *model, const struct model_item *item,
                           const struct model_request *request)
{
    size_t key_len = request->keys[0] < 10 ? 2 : 3;
    return key_len + item->len + request->len <= model->joined_max;
}

static void model_join(struct model *model, struct model_item *item, const struct model_request *request,
                       bool in_front)
{
    struct model_text joined = {.text = NULL};
    model_put(&joined, in_front ? request->value : item->value, in_front ? request->len : item->len);
    model_put(&joined, in_front ? item->value : request->value, in_front ? item->len : request->len);
    model_set_value(item, joined.text, joined.len);
    free(joined.text);
    item->stale = item->sent = false;
    model_renew(model, item, request);
}

/* @return whether it was a number */
static bool model_count(struct model *model, struct model_item *item, const struct model_request *request,
                        bool down, uint64_t delta, uint64_t *ret_number)
{
    char digits[32];
    size_t at = 0;
    while (at < item->len && item->value[at] >= '0' && item->value[at] <= '9')
        at++;
    if (at == 0 || (at < item->len && item->value[at] != ' '))
        return false;
    errno = 0;
    uint64_t number = strtoull(item->value, NULL, 10);
    if (errno != 0)
        return false;
    number = !down ? number + delta : number < delta ? 0 : number - delta;
    size_t len = model_digits(digits, number, 0);
    if (len > item->len) { /* another item in its place */
        model_set_value(item, digits, len);
        item->stale = item->sent = false;
    } else {
        memset(item->value, ' ', item->len);
        memcpy(item->value, digits, len);
    }
    model_renew(model, item, request);
    *ret_number = number;
    return true;
}

/* ---- classic requests --------------------------------------------------------------------------- */

static void model_say(struct model *model, const struct model_request *request, const char *text)
{
    if (!request->noreply)
        model_print(&model->answer, "%s\r\n", text);
}

static void model_print_version(struct model *model, const struct model_item *item)
{
    model_print(&model->answer, "%c%u%c", MODEL_MARK, item->version, MODEL_MARK);
}

static void model_list(struct model *model, const struct model_request *request)
{
    for (uint32_t i = 0; i < request->key_count; i++) {
        struct model_item *item = model_find(model, request->keys[i]);
        if (item == NULL)
            continue;
        if (strncmp(request->verb, "gat", 3) == 0)
            item->expiry_s = model_expiry(model, request->exptime);
        model_print(&model->answer, "VALUE k%u %u %zu", request->keys[i], item->flags, item->len);
        if (request->verb[strlen(request->verb) - 1] == 's') {
            model_print(&model->answer, " ");
            model_print_version(model, item);
        }
        model_print(&model->answer, "\r\n");
        model_put(&model->answer, item->value, item->len);
        model_print(&model->answer, "\r\n");
    }
    model_print(&model->answer, "END\r\n");
}

static void model_storage(struct model *model, const struct model_request *request)
{
    struct model_item *item = model_find(model, request->keys[0]);
    char kind = request->verb[0];
    if (kind == 'c' && (item == NULL || model_is_another(model, request, item))) {
        model_say(model, request, item == NULL ? "NOT_FOUND" : "EXISTS");
        return;
    }
    bool joins = kind == 'p' || strcmp(request->verb, "append") == 0;
    if ((item != NULL && strcmp(request->verb, "add") == 0) || (item == NULL && (joins || kind == 'r')) ||
        (joins && !model_may_join(model, item, request))) {
        model_say(model, request, "NOT_STORED");
        return;
    }
    if (joins)
        model_join(model, item, request, kind == 'p');
    else
        model_store(model, &model->items[request->keys[0]], request);
    model_say(model, request, "STORED");
}

/* delete, touch, incr, decr */
static void model_change(struct model *model, const struct model_request *request)
{
    struct model_item *item = model_find(model, request->keys[0]);
    uint64_t number;
    char text[32];
    if (item == NULL) {
        model_say(model, request, "NOT_FOUND");
    } else if (request->verb[0] == 't') {
        item->expiry_s = model_expiry(model, request->exptime);
        model_say(model, request, "TOUCHED");
    } else if (strcmp(request->verb, "delete") == 0) {
        item->there = false;
        model_say(model, request, "DELETED");
    } else if (!model_count(model, item, request, request->verb[0] == 'd', request->number, &number)) {
        model_say(model, request, "CLIENT_ERROR cannot increment or decrement non-numeric value");
    } else {
        (void)model_digits(text, number, 0);
        model_say(model, request, text);
    }
}

/* ---- meta requests ------------------------------------------------------------------------------ */

/* Flags take effect one after the other. @param made  N counts */
static uint64_t model_expiry_behind(const struct model *model, const char *word, bool made, uint64_t expiry_s)
{
    if (word[0] == 'T' || (word[0] == 'N' && made))
        return model_expiry(model, strtoll(word + 1, NULL, 10));
    return expiry_s;
}

static void model_print_left(struct model *model, uint64_t expiry_s)
{
    if (expiry_s == 0)
        model_print(&model->answer, " t-1");
    else
        model_print(&model->answer, " t%llu",
                    (unsigned long long)(expiry_s <= model->now_s ? 0 : expiry_s - model->now_s));
}

/* @param item  NULL: only what the client has said is known @param begin_s  its expiry before */
static void model_print_flags(struct model *model, const struct model_request *request,
                              const struct model_item *item, const char *known, bool made, uint64_t begin_s)
{
    for (uint32_t i = 0; i < request->word_count; i++) {
        const char *word = request->words[i];
        begin_s = model_expiry_behind(model, word, made, begin_s);
        if (word[0] == 'O')
            model_print(&model->answer, " %s", word);
        else if (word[0] == 'k')
            model_print(&model->answer, " kk%u", request->keys[0]);
        else if (strchr(known, word[0]) == NULL)
            continue;
        else if (word[0] == 't')
            model_print_left(model, begin_s);
        else if (word[0] == 'c' && item == NULL)
            model_print(&model->answer, " c0");
        else if (word[0] == 'c') {
            model_print(&model->answer, " c");
            model_print_version(model, item);
        } else {
            model_print(&model->answer, " %c%llu", word[0],
                        word[0] == 's'   ? (unsigned long long)(item == NULL ? request->len : item->len)
                        : word[0] == 'f' ? (unsigned long long)item->flags
                                         : 0ULL);
        }
    }
}

static void model_answer_meta(struct model *model, const struct model_request *request, const char *word,
                              const struct model_item *item, const char *known)
{
    model_print(&model->answer, "%s", word);
    model_print_flags(model, request, item, known, false, 0);
    model_print(&model->answer, "\r\n");
}

/* Walk through the flags. @return the expiry that they leave; *ret_wins: a client is to fetch it anew */
static uint64_t model_walk(const struct model *model, const struct model_request *request, bool made,
                           uint64_t expiry_s, bool *ret_wins)
{
    for (uint32_t i = 0; i < request->word_count; i++) {
        const char *word = request->words[i];
        if (word[0] == 'R' && expiry_s != 0 && expiry_s < model->now_s + strtoull(word + 1, NULL, 10))
            *ret_wins = true;
        expiry_s = model_expiry_behind(model, word, made, expiry_s);
    }
    return expiry_s;
}

static void model_meta_get(struct model *model, const struct model_request *request)
{
    struct model_item *item = model_find(model, request->keys[0]);
    bool made = item == NULL && model_word(request, 'N') != NULL;
    if (item == NULL && !made) {
        if (model_word(request, 'q') == NULL)
            model_answer_meta(model, request, "EN", NULL, "");
        return;
    }
    if (made) {
        item = &model->items[request->keys[0]];
        model_set_value(item, "", 0);
        item->there = true;
        item->flags = 0;
        item->expiry_s = 0;
        item->stale = item->sent = false;
        model_renew(model, item, request);
    }
    uint64_t begin_s = item->expiry_s;
    bool wins = item->stale || made, sent = item->sent;
    item->expiry_s = model_walk(model, request, made, begin_s, &wins);
    wins = wins && !sent;
    bool shows = model_word(request, 'v') != NULL;
    model_print(&model->answer, shows ? "VA %zu" : "HD", item->len);
    model_print_flags(model, request, item, "cfhlst", made, begin_s);
    model_print(&model->answer, "%s%s%s\r\n", sent ? " Z" : "", item->stale ? " X" : "", wins ? " W" : "");
    if (shows) {
        model_put(&model->answer, item->value, item->len);
        model_print(&model->answer, "\r\n");
    }
    item->sent = sent || wins;
}

/* @return what is said instead of HD, or NULL: it is stored */
static const char *model_meta_store(struct model *model, const struct model_request *request,
                                    struct model_item *item)
{
    const char *mode_word = model_word(request, 'M');
    char mode = mode_word == NULL ? 'S' : *mode_word;
    struct model_item *place = &model->items[request->keys[0]];
    bool compares = model_word(request, 'C') != NULL;
    if (mode == 'E' && item != NULL)
        return "NS";
    if (mode == 'A' || mode == 'P') {
        if (item == NULL && model_word(request, 'N') == NULL)
            return "NS";
        if (item != NULL && model_is_another(model, request, item))
            return "EX";
        if (item != NULL && !model_may_join(model, item, request))
            return "NS";
        if (item != NULL) {
            model_join(model, item, request, mode == 'P');
            return NULL;
        }
        model_store(model, place, request);
        place->expiry_s = model_expiry(model, (int64_t)model_number(request, 'N', 0));
        return NULL;
    }
    if (mode != 'E' && compares && item == NULL)
        return "NF";
    if (mode == 'R' && item == NULL)
        return "NS";
    if (mode != 'E' && item != NULL && model_is_another(model, request, item)) {
        bool sent = item->sent;
        uint64_t expiry_s = item->expiry_s;
        if (model_word(request, 'I') == NULL || model_number(request, 'C', 0) > 1)
            return "EX";
        model_store(model, item, request);
        item->stale = true;
        item->sent = sent;
        item->expiry_s = expiry_s;
        return NULL;
    }
    model_store(model, place, request);
    return NULL;
}

static void model_meta_set(struct model *model, const struct model_request *request)
{
    const char *word = model_meta_store(model, request, model_find(model, request->keys[0]));
    if (word != NULL)
        model_answer_meta(model, request, word, NULL, "cs");
    else if (model_word(request, 'q') == NULL)
        model_answer_meta(model, request, "HD", &model->items[request->keys[0]], "cs");
}

static void model_meta_delete(struct model *model, const struct model_request *request)
{
    struct model_item *item = model_find(model, request->keys[0]);
    if (item == NULL || model_is_another(model, request, item)) {
        model_answer_meta(model, request, item == NULL ? "NF" : "EX", NULL, "");
        return;
    }
    bool invalidates = model_word(request, 'I') != NULL, empties = model_word(request, 'x') != NULL;
    item->there = invalidates || empties;
    if (invalidates || (empties && model_word(request, 'E') != NULL))
        model_renew(model, item, request);
    if (invalidates) {
        item->stale = true;
        item->sent = false;
        if (model_word(request, 'T') != NULL)
            item->expiry_s = model_expiry(model, (int64_t)model_number(request, 'T', 0));
    }
    if (empties) {
        model_set_value(item, "", 0);
        item->flags = (uint32_t)model_number(request, 'F', 0);
        item->expiry_s = model_expiry(model, (int64_t)model_number(request, 'T', 0));
    }
    if (model_word(request, 'q') == NULL)
        model_answer_meta(model, request, "HD", NULL, "");
}

static void model_meta_arithmetic(struct model *model, const struct model_request *request)
{
    struct model_item *item = model_find(model, request->keys[0]);
    const char *mode = model_word(request, 'M');
    bool made = item == NULL, wins, down = mode != NULL && (*mode == 'D' || *mode == '-');
    uint64_t number = model_number(request, 'J', 0);
    bool empty = !made && item->len == 0; /* is no number before anything is compared */
    if (made ? model_word(request, 'N') == NULL : !empty && model_is_another(model, request, item)) {
        model_answer_meta(model, request, made ? "NF" : "EX", NULL, "");
        return;
    }
    uint64_t begin_s = made ? 0 : item->expiry_s;
    if (made) {
        char digits[32];
        const struct model_request storing = {
            .verb = "set", .value = digits, .len = model_digits(digits, number, 0)};
        item = &model->items[request->keys[0]];
        model_store(model, item, &storing);
        model->versions[item->version] = model_number(request, 'E', 0);
    } else if (!model_count(model, item, request, down, model_number(request, 'D', 1), &number)) {
        model_print(&model->answer, "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
        return;
    }
    item->expiry_s = model_walk(model, request, made, begin_s, &wins);
    if (model_word(request, 'q') != NULL)
        return;
    char text[32];
    size_t len = model_digits(text, number, 0);
    bool shows = model_word(request, 'v') != NULL;
    model_print(&model->answer, shows ? "VA %zu" : "HD", len);
    model_print_flags(model, request, item, "ct", made, begin_s);
    model_print(&model->answer, shows ? "\r\n%s\r\n" : "\r\n", text);
}

static void model_meta_debug(struct model *model, const struct model_request *request)
{
    const struct model_item *item = model_find(model, request->keys[0]);
    if (item == NULL) {
        model_print(&model->answer, "EN\r\n");
        return;
    }
    model_print(&model->answer, "ME k%u exp=%lld la=0 cas=", request->keys[0],
                item->expiry_s == 0 ? -1LL : (long long)(item->expiry_s - model->now_s));
    model_print_version(model, item);
    model_print(&model->answer, " fetch=no cls=1 size=%zu\r\n",
                59 + strlen("k0") + (request->keys[0] > 9 ? 1 : 0) + item->len + (item->flags != 0 ? 4 : 0));
}

void model_do(struct model *model, const struct model_request *request)
{
    static const struct {
        const char *verb;
        void (*function)(struct model *model, const struct model_request *request);
    } verbs[] = {
        {"get", model_list},        {"gets", model_list},      {"gat", model_list},
        {"gats", model_list},       {"set", model_storage},    {"add", model_storage},
        {"replace", model_storage}, {"append", model_storage}, {"prepend", model_storage},
        {"cas", model_storage},     {"delete", model_change},  {"touch", model_change},
        {"incr", model_change},     {"decr", model_change},    {"mg", model_meta_get},
        {"ms", model_meta_set},     {"md", model_meta_delete}, {"ma", model_meta_arithmetic},
        {"me", model_meta_debug},
    };
    for (size_t i = 0; i < base_array_count(verbs); i++) {
        if (strcmp(verbs[i].verb, request->verb) == 0) {
            verbs[i].function(model, request);
            return;
        }
    }
    base_assert(false);
}
