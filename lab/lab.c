/* The laboratory's verbs. */
#include "lab/lab.h"
#include "lab/verbs.h"

#include <unistd.h>

static const struct bench_verb *const verbs[] = {
    &lab_verb_task,          &lab_verb_drive,  &lab_verb_index,   &lab_verb_depot,  &lab_verb_memcache,
    &lab_verb_amplification, &lab_verb_growth, &lab_verb_restart, &lab_verb_ycsb,   &lab_verb_fabric,
    &lab_verb_rpc,           &lab_verb_cache,  &lab_verb_rfp,     &lab_verb_speed,  &lab_verb_hot,
    &lab_verb_space,         &lab_verb_rstore, &lab_verb_hash,    &lab_verb_nessie, &lab_verb_tree};

const struct bench_program lab_program = {
    .name = "tarn-lab", .verbs = verbs, .verb_count = base_array_count(verbs)};

const char *const lab_directs[] = {"auto", "on", "off", NULL};

int lab_check_new_file(struct bench *bench, const char *path, bool force)
{
    return !force && access(path, F_OK) == 0
               ? bench_fail(bench, 0, "%s is there already: --force makes a store of it", path)
               : 0;
}
