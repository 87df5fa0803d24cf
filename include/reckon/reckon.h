/* Reckon: recommendation models with embedding tables larger than one device. All stable headers of
 * the public API (docs/api.md); those that may still change are in reckon/experimental/, each included by
 * itself. */
#ifndef RECKON_RECKON_H
#define RECKON_RECKON_H

#include <reckon/arrow.h>
#include <reckon/batch.h>
#include <reckon/checkpoint.h>
#include <reckon/comm.h>
#include <reckon/config.h>
#include <reckon/convert.h>
#include <reckon/dataset.h>
#include <reckon/embeddings.h>
#include <reckon/export.h>
#include <reckon/model.h>
#include <reckon/optimizer.h>
#include <reckon/pool.h>
#include <reckon/predictor.h>
#include <reckon/runtime.h>
#include <reckon/session.h>
#include <reckon/status.h>
#include <reckon/table.h>
#include <reckon/tensor.h>
#include <reckon/trainer.h>
#include <reckon/transforms.h>
#include <reckon/version.h>

#endif
