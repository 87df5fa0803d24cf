/* Reckon: recommendation models with embedding tables larger than one device. The whole public API. */
#ifndef RECKON_RECKON_H
#define RECKON_RECKON_H

#include <reckon/batch.h>
#include <reckon/checkpoint.h>
#include <reckon/comm.h>
#include <reckon/config.h>
#include <reckon/convert.h>
#include <reckon/dataset.h>
#include <reckon/embeddings.h>
#include <reckon/model.h>
#include <reckon/optimizer.h>
#include <reckon/plan.h>
#include <reckon/predictor.h>
#include <reckon/profile.h>
#include <reckon/report.h>
#include <reckon/runtime.h>
#include <reckon/status.h>
#include <reckon/table.h>
#include <reckon/trainer.h>
#include <reckon/tune.h>

#endif
