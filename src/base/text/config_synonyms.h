/* The words that other libraries have for this one's keys and values: TorchRec, TensorFlow, Keras, HugeCTR,
 * FuxiCTR, DeepCTR, scikit-learn, PyTorch Lightning. */
#ifndef RK_BASE_TEXT_CONFIG_SYNONYMS_H
#define RK_BASE_TEXT_CONFIG_SYNONYMS_H

#include <stddef.h>

/* The at-th of a word's meanings, NULL after the last: "train.optimizer.learning_rate" for a key, "cuda" for
 * a value. However the word is written: batchSize, batch-size. */
const char *rk_find_synonym(const char *word, size_t at);
/* The last part of a meaning: "learning_rate". */
const char *rk_synonym_last_part(const char *meaning);

/* Of all words, for tests; NULL after the last. */
const char *rk_synonym_by_number(size_t number);

#endif
