/* Text for people: filled paragraphs, and rows of tables that are broken below their second column. */
#include "base/prose.h"
#include <stdbool.h>
#include <string.h>

void base_prose_print_words(const char *text, size_t len, size_t column, size_t indent, FILE *file)
{
    static const char blanks[] = " \n";
    bool first = true;
    for (size_t at = 0; at < len;) {
        if (strchr(blanks, text[at]) != NULL) {
            at++;
            continue;
        }
        size_t word = 0;
        while (at + word < len && strchr(blanks, text[at + word]) == NULL)
            word++;
        if (!first && column + 1 + word >= BASE_PROSE_COLUMNS) {
            fprintf(file, "\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        fprintf(file, "%s%.*s", first ? "" : " ", (int)word, text + at);
        column += word + (first ? 0 : 1);
        first = false;
        at += word;
    }
    fputc('\n', file);
}

static size_t paragraph_length(const char *text)
{
    size_t len = 0;
    while (text[len] != '\0' && text[len] != ' ' && text[len] != '\n')
        len += strcspn(text + len, "\n") + (text[len + strcspn(text + len, "\n")] == '\n' ? 1 : 0);
    return len;
}

/* Where the second column of a row begins; 0: there is one column. */
static size_t second_column(const char *row, size_t len)
{
    for (size_t at = strspn(row, " "); at + 2 < len; at++) {
        if (row[at] == ' ' && row[at + 1] == ' ')
            return at + strspn(row + at, " ");
    }
    return 0;
}

static void print_row(const char *row, size_t len, FILE *file)
{
    size_t column = len < BASE_PROSE_COLUMNS ? 0 : second_column(row, len);
    if (column == 0) {
        fprintf(file, "%.*s\n", (int)len, row);
        return;
    }
    fprintf(file, "%.*s", (int)column, row);
    base_prose_print_words(row + column, len - column, column, column, file);
}

void base_prose_print(const char *text, FILE *file)
{
    while (*text != '\0') {
        size_t len = paragraph_length(text);
        if (len > 0) {
            base_prose_print_words(text, len, 0, 0, file);
            text += len;
            continue;
        }
        len = strcspn(text, "\n");
        print_row(text, len, file);
        text += len + (text[len] == '\n' ? 1 : 0);
    }
}
