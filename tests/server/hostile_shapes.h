/* Requests that no client means well with, drawn from a seed: for tests/server/send_hostile.c. */
#ifndef RK_TESTS_SERVER_HOSTILE_SHAPES_H
#define RK_TESTS_SERVER_HOSTILE_SHAPES_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/rng.h"
#include "base/text/text.h"

#define HOSTILE_KINDS(X)                                                                     \
    X(SMUGGLING, "framing that two readers may take differently, another request behind it") \
    X(HEADERS, "odd, long and many headers, methods and URLs")                               \
    X(BAD_JSON, "JSON cut, turned and strewn with tokens")                                   \
    X(DEEP_JSON, "lists and objects in one another")                                         \
    X(NUMBERS, "numbers that no type holds")                                                 \
    X(LENGTHS, "bodies longer and shorter than they say")                                    \
    X(CUT, "connections that end within a request")                                          \
    X(PIPELINED, "requests and noise behind one another")                                    \
    X(SLOW, "a few bytes at a time")                                                         \
    X(TENSORS, "tensors whose bytes, shapes and types do not agree")                         \
    X(MUTATED, "good requests with changed, lost and doubled bytes")

typedef enum hostile_kind {
#define HOSTILE_KIND_ENUM(name, what) HOSTILE_##name,
    HOSTILE_KINDS(HOSTILE_KIND_ENUM)
#undef HOSTILE_KIND_ENUM
        N_HOSTILE_KINDS
} hostile_kind;

typedef struct hostile {
    hostile_kind kind;
    rk_buffer bytes;
    bool framed;  /* one whole request, whose answer leaves the connection open unless it says otherwise */
    bool refused; /* 400 or more is its one answer, and the connection's end */
    bool reset;   /* the client goes without reading */
} hostile;

/* good [n_good]: requests that the server takes. */
void hostile_draw(rk_rng *rng, const rk_span *good, size_t n_good, hostile *out);

#endif
