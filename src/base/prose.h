/* Text for people, in lines that fit a terminal. */
#ifndef BASE_PROSE_H
#define BASE_PROSE_H

#include <stdio.h>

/** Columns that are used at most. */
#define BASE_PROSE_COLUMNS 80

/**
 * Print words, broken before the last column.
 *
 * @param column  where the first one goes
 * @param indent  of the lines after the first
 */
void base_prose_print_words(const char *text, size_t len, size_t column, size_t indent, FILE *file);

/**
 * Print a text. Lines one after the other that begin with no space are a paragraph, which is filled. A line that begins with
 * one is a row of a table: where it is too long, the rest stands below its second column, which two spaces precede.
 */
void base_prose_print(const char *text, FILE *file);

#endif
