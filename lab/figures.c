/* What the verbs that draw a paper's figures have in common. */
#include "lab/figures.h"
#include <string.h>

void lab_figures_note(struct lab_figures *figures, int error)
{
    figures->error = figures->error == 0 ? error : figures->error;
}

void lab_figures_begin(struct base_json *json, const struct lab_figures *figures, const char *series,
                       const char *axis, uint64_t x)
{
    base_json_init_file(json, figures->out);
    base_json_object_begin(json, NULL);
    base_json_string(json, "paper", figures->paper);
    base_json_string(json, "figure", figures->figure);
    base_json_string(json, "series", series);
    base_json_string(json, "axis", axis);
    base_json_u64(json, "x", x);
}

void lab_figures_end(struct base_json *json, struct lab_figures *figures)
{
    base_json_object_end(json);
    lab_figures_note(figures, base_json_finish(json, NULL));
    (void)fputc('\n', figures->out);
    (void)fflush(figures->out);
}

static bool is_asked_for(const struct lab_figure *figure, const struct lab_figures_options *options)
{
    return options->figure == NULL || strcmp(figure->name, options->figure) == 0;
}

int lab_figures_check(struct bench *bench, const struct lab_figure *all, size_t count,
                      const void *verb_options)
{
    const struct lab_figures_options *options = verb_options;
    for (size_t i = 0; i < count; i++) {
        if (is_asked_for(&all[i], options))
            return 0;
    }
    return bench_fail(bench, 0, "there is no figure %s", options->figure);
}

int lab_figures_draw(struct bench *bench, const char *paper, const struct lab_figure *all, size_t count,
                     const void *verb_options)
{
    struct lab_figures figures = {
        .out = bench->out, .seed = bench->options.seed, .json = bench->options.json, .paper = paper};
    for (size_t i = 0; i < count && figures.error == 0; i++) {
        if (!is_asked_for(&all[i], verb_options))
            continue;
        figures.figure = all[i].name;
        if (!figures.json)
            (void)fprintf(figures.out, "Figure %s: %s\n", all[i].name, all[i].title);
        all[i].draw(&figures);
    }
    return figures.error == 0 ? 0 : bench_fail(bench, figures.error, "cannot measure");
}
