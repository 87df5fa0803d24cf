"""The structs of the C API (include/reckon) and of the Arrow C data interface."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_bool, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, List, Tuple


class ArrowSchema(Structure):
    pass


class ArrowArray(Structure):
    pass


class ArrowArrayStream(Structure):
    pass


ReleaseSchema = CFUNCTYPE(None, POINTER(ArrowSchema))
ReleaseArray = CFUNCTYPE(None, POINTER(ArrowArray))
GetSchema = CFUNCTYPE(c_int, POINTER(ArrowArrayStream), POINTER(ArrowSchema))
GetNext = CFUNCTYPE(c_int, POINTER(ArrowArrayStream), POINTER(ArrowArray))
GetLastError = CFUNCTYPE(c_void_p, POINTER(ArrowArrayStream))
ReleaseStream = CFUNCTYPE(None, POINTER(ArrowArrayStream))
OpenStream = CFUNCTYPE(c_int, c_void_p, POINTER(ArrowArrayStream))

# Functions are fields of the type c_void_p: a copied struct then keeps the address that was there.
ArrowSchema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_void_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(ArrowSchema))),
    ("dictionary", POINTER(ArrowSchema)),
    ("release", c_void_p),
    ("private_data", c_void_p),
]
ArrowArray._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(ArrowArray))),
    ("dictionary", POINTER(ArrowArray)),
    ("release", c_void_p),
    ("private_data", c_void_p),
]
ArrowArrayStream._fields_ = [("get_schema", c_void_p), ("get_next", c_void_p), ("get_last_error", c_void_p), ("release", c_void_p), ("private_data", c_void_p)]


class Metric(Structure):
    _fields_ = [("name", c_char_p), ("value", c_double)]


class EventStruct(Structure):
    _fields_ = [
        ("kind", c_int),
        ("message", c_char_p),
        ("epoch", c_int64),
        ("step", c_int64),
        ("n_steps", c_int64),
        ("samples_per_second", c_double),
        ("loss", c_double),
        ("seconds_left", c_double),
        ("metrics", POINTER(Metric)),
        ("n_metrics", c_int32),
        ("best", c_bool),
    ]


EventCallback = CFUNCTYPE(None, c_void_p, POINTER(EventStruct))
LogCallback = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Options(Structure):
    """A struct that begins with its own size."""

    def __init__(self, **values: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(self), **values)


class TrainerOptions(Options):
    _fields_ = [
        ("struct_size", c_size_t),
        ("resume", c_bool),
        ("trace_path", c_char_p),
        ("on_event", EventCallback),
        ("user", c_void_p),
        ("comm", c_void_p),
        ("allow_changed_data", c_bool),
        ("overwrite", c_bool),
        ("pool", c_void_p),
    ]


class NamedStream(Structure):
    _fields_ = [("name", c_char_p), ("open", OpenStream), ("user", c_void_p)]


class PredictorOptions(Options):
    _fields_ = [
        ("struct_size", c_size_t),
        ("device", c_char_p),
        ("comm", c_void_p),
        ("pool", c_void_p),
        ("rows", c_int),
        ("rows_in", c_int),
        ("row_cache_bytes", c_uint64),
        ("row_timeout", c_double),
        ("streams", POINTER(NamedStream)),
        ("n_streams", c_int32),
    ]


class SessionOptions(Options):
    _fields_ = [("struct_size", c_size_t), ("pool", c_void_p)]


class Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("dtype", c_int),
        ("device", c_int),
        ("device_number", c_int32),
        ("n_dims", c_int32),
        ("shape", c_int64 * 8),
        ("strides", c_int64 * 8),
        ("read_only", c_bool),
    ]


class ModelParameter(Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("tensor", Tensor)]


class ExportOptions(Options):
    _fields_ = [
        ("struct_size", c_size_t),
        ("tables", POINTER(c_char_p)),
        ("n_tables", c_size_t),
        ("no_tables", c_bool),
        ("rows", c_int),
        ("shard_bytes", c_uint64),
        ("license", c_char_p),
        ("bags", c_int),
        ("id_bits", c_int32),
        ("values", c_bool),
    ]


class RecommendOptions(Options):
    _fields_ = [
        ("struct_size", c_size_t),
        ("users", c_char_p),
        ("items", c_char_p),
        ("without_items", c_char_p),
        ("with_known", c_bool),
        ("k", c_int32),
        ("format", c_int),
        ("output", c_char_p),
        ("index", c_char_p),
        ("index_recall", POINTER(c_double)),
    ]


class RerankOptions(Options):
    _fields_ = [("struct_size", c_size_t), ("group", c_char_p), ("item", c_char_p), ("task", c_char_p), ("k", c_int32), ("format", c_int), ("output", c_char_p)]


class ServerOptions(Options):
    _fields_ = [("struct_size", c_size_t), ("listen", c_char_p), ("name", c_char_p)]


class Schedule(Structure):
    _fields_ = [("kind", c_int), ("warmup_steps", c_int64), ("decay_steps", c_int64), ("end_factor", c_double), ("power", c_double), ("step_factor", c_double)]


class Optimizer(Structure):
    """Filled in by rk_optimizer_init_sized."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("learning_rate", c_double),
        ("epsilon", c_double),
        ("initial_accumulator", c_double),
        ("momentum", c_double),
        ("nesterov", c_bool),
        ("beta1", c_double),
        ("beta2", c_double),
        ("bias_correction", c_bool),
        ("sum_inside_sqrt", c_bool),
        ("exponent", c_double),
        ("l1", c_double),
        ("l2", c_double),
        ("beta", c_double),
        ("learning_rate_power", c_double),
        ("weight_decay", c_double),
        ("weight_decay_by_learning_rate", c_bool),
        ("clip_gradient_min", c_double),
        ("clip_gradient_max", c_double),
        ("clip_weight_min", c_double),
        ("clip_weight_max", c_double),
        ("trust_coefficient", c_double),
        ("schedule", Schedule),
    ]


class Initializer(Structure):
    _fields_ = [("kind", c_int), ("mean", c_double), ("stddev", c_double), ("min", c_double), ("max", c_double), ("value", c_double)]


class DynamicOptions(Options):
    _fields_ = [
        ("struct_size", c_size_t),
        ("max_capacity", c_int64),
        ("buckets", c_int64),
        ("eviction", c_int),
        ("evict_to", c_double),
        ("ttl_steps", c_int64),
        ("keep", c_int64),
        ("min_count", c_int64),
        ("probability", c_double),
        ("counter", c_int),
        ("oov", c_bool),
        ("cold_rows", c_int64),
        ("ttl", c_int64),
    ]


class KeyTotals(Options):
    _fields_ = [("struct_size", c_size_t), ("n_rows", c_int64), ("n_admitted", c_int64), ("n_evicted", c_int64), ("n_refused", c_int64), ("n_missing", c_int64)]


class TableConfig(Options):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("n_rows", c_int64),
        ("dim", c_int32),
        ("dtype", c_int),
        ("initializer", Initializer),
        ("optimizer", POINTER(Optimizer)),
        ("frozen", c_bool),
        ("dynamic", POINTER(DynamicOptions)),
    ]


class FeatureConfig(Options):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("table", c_char_p),
        ("combiner", c_int),
        ("max_sequence_length", c_int32),
        ("skip_validation", c_bool),
        ("weighted", c_bool),
    ]


class EmbeddingsConfig(Options):
    _fields_ = [
        ("struct_size", c_size_t),
        ("seed", c_uint64),
        ("tables", POINTER(TableConfig)),
        ("n_tables", c_int32),
        ("features", POINTER(FeatureConfig)),
        ("n_features", c_int32),
        ("optimizer", POINTER(Optimizer)),
        ("pool", c_void_p),
        ("comm", c_void_p),
    ]


class CommOptions(Options):
    _fields_ = [("struct_size", c_size_t), ("timeout_s", c_double)]


AllToAll = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(c_size_t), c_void_p, POINTER(c_size_t))
Abort = CFUNCTYPE(None, c_void_p, c_char_p)


class CommFunctions(Options):
    _fields_ = [("struct_size", c_size_t), ("rank", c_int32), ("size", c_int32), ("user", c_void_p), ("all_to_all", AllToAll), ("abort", Abort)]


class Activation(Structure):
    _fields_ = [("data", c_void_p), ("stride", c_int64), ("lengths", c_void_p)]


class IdTensors(Structure):
    _fields_ = [("ids", POINTER(Tensor)), ("offsets", POINTER(Tensor)), ("weights", POINTER(Tensor))]


_P = c_void_p
# Name, type of the result (None: nothing, "status": checked by the caller), types of the arguments.
FUNCTIONS: List[Tuple[str, Any, List[Any]]] = [
    ("rk_version", c_char_p, []),
    ("rk_status_name", c_char_p, [c_int]),
    ("rk_last_error", c_char_p, []),
    ("rk_log_set", None, [LogCallback, _P, c_int]),
    ("rk_set_threads", c_int, [c_int]),
    ("rk_config_load", c_int, [c_char_p, POINTER(c_char_p), c_size_t, POINTER(_P)]),
    ("rk_config_parse", c_int, [c_char_p, c_char_p, c_char_p, POINTER(c_char_p), c_size_t, POINTER(_P)]),
    ("rk_config_free", None, [_P]),
    ("rk_config_add_stream", c_int, [_P, c_char_p, OpenStream, _P]),
    ("rk_config_to_yaml", c_int, [_P, POINTER(_P)]),
    ("rk_config_output", c_char_p, [_P]),
    ("rk_text_free", None, [_P]),
    ("rk_trainer_create", c_int, [_P, POINTER(TrainerOptions), POINTER(_P)]),
    ("rk_trainer_free", None, [_P]),
    ("rk_trainer_run", c_int, [_P]),
    ("rk_trainer_stop", None, [_P]),
    ("rk_trainer_evaluate", c_int, [_P, c_char_p, POINTER(POINTER(Metric)), POINTER(c_int32)]),
    ("rk_predictor_open", c_int, [c_char_p, POINTER(PredictorOptions), POINTER(_P)]),
    ("rk_predictor_free", None, [_P]),
    ("rk_predictor_n_tasks", c_int32, [_P]),
    ("rk_predictor_task_name", c_char_p, [_P, c_int32]),
    ("rk_predictor_path", c_char_p, [_P]),
    ("rk_predictor_config", _P, [_P]),
    ("rk_predictor_evaluate", c_int, [_P, c_char_p, POINTER(POINTER(Metric)), POINTER(c_int32), POINTER(c_int64)]),
    ("rk_predictor_recommend", c_int, [_P, POINTER(RecommendOptions), POINTER(c_int64)]),
    ("rk_predictor_rerank", c_int, [_P, c_char_p, POINTER(RerankOptions), POINTER(c_int64)]),
    ("rk_predictor_model", _P, [_P]),
    ("rk_model_parameters", c_int, [_P, POINTER(POINTER(ModelParameter)), POINTER(c_int32)]),
    ("rk_tensor_n_values", c_int64, [POINTER(Tensor)]),
    ("rk_dtype_bytes", c_size_t, [c_int]),
    ("rk_checkpoint_verify", c_int, [c_char_p]),
    ("rk_optimizer_from_name", c_int, [c_char_p, POINTER(c_int)]),
    ("rk_optimizer_name", c_char_p, [c_int]),
    ("rk_optimizer_init_sized", c_int, [POINTER(Optimizer), c_size_t, c_int]),
    ("rk_optimizer_validate", c_int, [POINTER(Optimizer)]),
    ("rk_transforms_load", c_int, [c_char_p, POINTER(_P)]),
    ("rk_transforms_free", None, [_P]),
    ("rk_transforms_to_json", c_int, [_P, POINTER(_P)]),
    ("rk_embeddings_create", c_int, [POINTER(EmbeddingsConfig), POINTER(_P)]),
    ("rk_embeddings_free", None, [_P]),
    ("rk_embeddings_bytes", c_uint64, [_P]),
    ("rk_embeddings_set_timestamp", c_int, [_P, c_double]),
    ("rk_embeddings_lookup", c_int, [_P, c_int64, _P, _P, _P]),
    ("rk_embeddings_lookup_eval", c_int, [_P, c_int64, _P, _P, _P]),
    ("rk_embeddings_step", c_int, [_P]),
    ("rk_embeddings_zero_gradients", None, [_P]),
    ("rk_embeddings_scale_learning_rate", c_int, [_P, c_double]),
    ("rk_embeddings_read_rows", c_int, [_P, c_char_p, c_int64, c_int64, _P]),
    ("rk_embeddings_write_rows", c_int, [_P, c_char_p, c_int64, c_int64, _P]),
    ("rk_embeddings_slot_name", c_char_p, [_P, c_char_p, c_int32, POINTER(c_int32)]),
    ("rk_embeddings_read_slot", c_int, [_P, c_char_p, c_int32, c_int64, c_int64, _P]),
    ("rk_embeddings_write_slot", c_int, [_P, c_char_p, c_int32, c_int64, c_int64, _P]),
    ("rk_embeddings_read_step", c_int, [_P, c_char_p, POINTER(c_int64)]),
    ("rk_embeddings_write_step", c_int, [_P, c_char_p, c_int64]),
    ("rk_embeddings_count_keys", c_int, [_P, c_char_p, POINTER(KeyTotals)]),
    ("rk_embeddings_read_state", c_int, [_P, c_char_p, POINTER(_P)]),
    ("rk_embeddings_write_state", c_int, [_P, c_char_p, c_int32, POINTER(c_char_p), POINTER(Tensor)]),
    ("rk_table_state_free", None, [_P]),
    ("rk_table_state_n_tensors", c_int32, [_P]),
    ("rk_table_state_name", c_char_p, [_P, c_int32]),
    ("rk_table_state_tensor", POINTER(Tensor), [_P, c_int32]),
    ("rk_lookup_create", c_int, [_P, POINTER(_P)]),
    ("rk_lookup_free", None, [_P]),
    ("rk_lookup_ids", c_int, [_P, c_int64, POINTER(IdTensors), POINTER(_P)]),
    ("rk_lookup_keyed_ids", c_int, [_P, c_int64, c_int32, _P, _P, _P]),
    ("rk_lookup_backward", c_int, [_P, _P]),
    ("rk_lookup_apply_gradients", c_int, [_P, _P]),
    ("rk_comm_world", c_int, [POINTER(CommOptions), POINTER(_P)]),
    ("rk_comm_from_functions", c_int, [POINTER(CommFunctions), POINTER(CommOptions), POINTER(_P)]),
    ("rk_comm_free", None, [_P]),
    ("rk_comm_rank", c_int32, [_P]),
    ("rk_comm_size", c_int32, [_P]),
    ("rk_comm_describe", c_char_p, [_P]),
    ("rk_comm_all_reduce_f32", c_int, [_P, _P, c_size_t]),
    ("rk_pool_create", c_int, [c_int, POINTER(_P)]),
    ("rk_pool_free", None, [_P]),
    ("rk_session_create", c_int, [_P, POINTER(SessionOptions), POINTER(_P)]),
    ("rk_session_free", None, [_P]),
    ("rk_session_input_schema", c_int, [_P, POINTER(ArrowSchema)]),
    ("rk_session_n_inputs", c_int64, [_P, POINTER(ArrowSchema)]),
    ("rk_session_run", c_int, [_P, POINTER(ArrowSchema), POINTER(ArrowArray), _P]),
    ("rk_export_safetensors", c_int, [c_char_p, POINTER(ExportOptions), c_char_p]),
    ("rk_export_onnx", c_int, [c_char_p, POINTER(ExportOptions), c_char_p]),
    ("rk_server_create", c_int, [c_char_p, POINTER(ServerOptions), POINTER(_P)]),
    ("rk_server_port", c_int, [_P]),
    ("rk_server_url", c_char_p, [_P]),
    ("rk_server_run", c_int, [_P]),
    ("rk_server_stop", None, [_P]),
    ("rk_server_free", None, [_P]),
]
