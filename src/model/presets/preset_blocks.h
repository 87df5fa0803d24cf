/* Building blocks that several presets use. */
#ifndef RK_MODEL_PRESETS_PRESET_BLOCKS_H
#define RK_MODEL_PRESETS_PRESET_BLOCKS_H

#include "model/presets/preset.h"

/* Vectors and dense numbers side by side, [1, width]; whichever there are. */
rk_value rk_block_features(rk_graph *graph, const rk_preset_inputs *inputs);

/* The same without the features of these names, of which there are 2 * RK_MAX_CONTEXT at most. */
rk_value rk_block_features_except(rk_graph *graph, const rk_preset_inputs *inputs, const char *const *names,
                                  int32_t n);

/* [n_rows, 1]: 1 for the vectors, and what rows come after them, that are there, 0 for the padding of
 * sequences; -1 where there is no sequence. */
rk_value rk_block_sequence_mask(rk_graph *graph, const rk_preset_inputs *inputs, int32_t n_rows);

/* The sum of the features' dim-1 weights plus, if with_dense, a linear layer over the dense numbers: [1, 1],
 * no bias. */
rk_value rk_block_linear_terms(rk_graph *graph, const rk_preset_inputs *inputs, bool with_dense);

/* The hidden layers of the section (or units[n], where it names none) over x. */
rk_value rk_block_deep_mlp(rk_graph *graph, const rk_model_section *section, const rk_preset_inputs *inputs,
                           rk_value x, const int64_t *units, int64_t n);

/* The MLP over the dense numbers, with an activation after each layer; a last layer of 0 units has the
 * embeddings' dim. */
rk_value rk_block_bottom_mlp(rk_graph *graph, const rk_model_section *section,
                             const rk_preset_inputs *inputs);

/* One linear layer from x to the tasks' logits, always in f32. */
rk_value rk_block_logits(rk_graph *graph, const rk_preset_inputs *inputs, const char *name, rk_value x);

/* A feature by its name, or NULL. */
const rk_preset_feature *rk_preset_find_feature(const rk_preset_inputs *inputs, const char *name);

rk_value rk_block_add_two(rk_graph *graph, rk_value a, rk_value b);
rk_value rk_block_concat_two(rk_graph *graph, rk_value a, rk_value b); /* either may be -1: the other */

/* How a cross network and the deep part join, by section->structure: stacked, logits(deep(cross(x0)));
 * parallel, logits([cross(x0), deep(x0)]). */
rk_value rk_block_cross_and_deep(rk_graph *graph, const rk_model_section *section,
                                 const rk_preset_inputs *inputs, rk_value x0, rk_value crossed);
int64_t rk_block_n_cross_layers(const rk_model_section *section);

#endif
