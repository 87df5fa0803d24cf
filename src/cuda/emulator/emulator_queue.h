/* Streams as queues of work, and captures of what they are given. */
#ifndef RK_CUDA_EMULATOR_EMULATOR_QUEUE_H
#define RK_CUDA_EMULATOR_EMULATOR_QUEUE_H

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/emulator/emulator_runtime.h"

/* One setting of an event; done when the work before it is. */
struct rk_ticket {
    bool is_done;
    rk_emulator_stream *stream;
};
/* run: work; else ticket is waited for, or set. */
struct rk_op {
    std::function<void()> run;
    std::shared_ptr<rk_ticket> ticket;
    bool waits;
};
typedef std::deque<rk_op> rk_queue;

/* clocks[i][j]: so many operations of queue j come before what queue i is given next. */
struct rk_capture {
    std::vector<rk_queue> queues; /* the first is the stream's that the capture was begun on */
    std::vector<std::vector<size_t>> clocks;
    std::vector<rk_emulator_stream *> streams;
    bool is_over;
};

struct rk_emulator_stream {
    rk_queue work;
    std::shared_ptr<rk_capture> capture; /* NULL: work is done, not kept */
    size_t queue;                        /* its queue in the capture */
};
struct rk_emulator_event {
    std::shared_ptr<rk_ticket> ticket;   /* NULL: never set */
    std::shared_ptr<rk_capture> capture; /* that it was set in */
    std::vector<size_t> clock;
};

/* Keeps an error, if it is one, for cudaGetLastError, as every function of CUDA's runtime does; returns
 * it. */
cudaError_t rk_emulator_keep_error(cudaError_t error);

/* Gives an operation to a stream, or to the capture that it takes part in. */
void rk_emulator_queue_push(rk_emulator_stream *stream, rk_op op);
/* Does the front's work and takes it off; false: there is none, or it waits. */
bool rk_emulator_queue_run_next(rk_queue *queue);

/* Captures under way: no memory can be allocated during them. */
extern int rk_n_captures;

/* emulator_capture.cc: the stream waits for the event, which was set in a capture. */
cudaError_t rk_emulator_capture_wait_event(rk_emulator_stream *stream, rk_emulator_event *event);

#endif
