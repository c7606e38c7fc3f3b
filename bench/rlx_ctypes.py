"""The part of librlx's API that the benchmark needs, by ctypes: load a model, bind tensors, run."""

import ctypes
import pathlib

import numpy as np

MAX_RANK = 16
# ONNX's TensorProto.DataType of the dtypes that models here use.
DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}
CODES = {np.dtype(dtype): code for code, dtype in DTYPES.items()}


class LoadOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("registry", ctypes.c_void_p),
                ("memory_limit", ctypes.c_int64)]


class SessionOptions(ctypes.Structure):
    """The leading fields; struct_size tells the library that the rest is left at its default."""
    _fields_ = [("struct_size", ctypes.c_uint32), ("device", ctypes.c_char_p), ("registry", ctypes.c_void_p),
                ("threads", ctypes.c_int), ("max_concurrent_runs", ctypes.c_int), ("busy_fails", ctypes.c_bool),
                ("memory_limit", ctypes.c_int64), ("policy", ctypes.c_int)]


class Type(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32),
                ("dims", ctypes.c_int64 * MAX_RANK)]


class PortInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", Type), ("symbols", ctypes.POINTER(ctypes.c_char_p))]


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(str(pathlib.Path(path).resolve()))
        self.c.rlx_error_message.restype = ctypes.c_char_p
        self.c.rlx_tensor_dims.restype = ctypes.POINTER(ctypes.c_int64)
        self.c.rlx_tensor_data.restype = ctypes.c_void_p
        self.c.rlx_tensor_bytes.restype = ctypes.c_size_t

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.c.rlx_error_message().decode())

    def load_package(self, file):
        self.check(self.c.rlx_load_package(None, str(file).encode()))

    def wrap(self, array):
        """A tensor over the array's memory, which must outlive it."""
        tensor = ctypes.c_void_p()
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.check(self.c.rlx_tensor_wrap(array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes),
                                          CODES[array.dtype], array.ndim, dims, None, None, ctypes.byref(tensor)))
        return tensor

    def to_array(self, tensor):
        """A copy of a tensor's contents, wherever they are."""
        rank = self.c.rlx_tensor_rank(tensor)
        array = np.empty(self.c.rlx_tensor_dims(tensor)[:rank], DTYPES[self.c.rlx_tensor_dtype(tensor)])
        host = self.wrap(array)
        self.check(self.c.rlx_tensor_copy(tensor, host))
        self.c.rlx_tensor_destroy(host)
        return array


POLICY_FORBID = 3


class Session:
    """A model compiled for a device, with one binding."""

    def __init__(self, library, model, threads, device="cpu", forbid=False):
        self.library, self.c = library, library.c
        graph, self.session, self.binding = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        load = LoadOptions(ctypes.sizeof(LoadOptions), 0, None, 0)
        library.check(self.c.rlx_graph_load(str(model).encode(), ctypes.byref(load), ctypes.byref(graph)))
        options = SessionOptions(ctypes.sizeof(SessionOptions), device.encode(), None, threads)
        options.policy = POLICY_FORBID if forbid else 0
        try:
            library.check(self.c.rlx_session_create(graph, ctypes.byref(options), ctypes.byref(self.session)))
        finally:
            self.c.rlx_graph_destroy(graph)
        library.check(self.c.rlx_binding_create(self.session, ctypes.byref(self.binding)))
        self.bound = []

    def bind(self, feeds):
        for name, array in feeds.items():
            array = np.asarray(array, order="C")  # keeps rank 0
            tensor = self.library.wrap(array)
            self.library.check(self.c.rlx_binding_input(self.binding, name.encode(), tensor, 0))
            self.bound.append((array, tensor))

    def on_device(self, code, dims):
        """A tensor in the device's memory; its contents are whatever was there."""
        tensor = ctypes.c_void_p()
        self.library.check(self.c.rlx_tensor_on_device(self.session, code, len(dims), (ctypes.c_int64 * len(dims))(*dims),
                                                       ctypes.byref(tensor)))
        return tensor

    def bind_on_device(self, feeds):
        """Copies the inputs into the device's memory and binds them there."""
        for name, array in feeds.items():
            array = np.asarray(array, order="C")
            host, tensor = self.library.wrap(array), self.on_device(CODES[array.dtype], array.shape)
            self.library.check(self.c.rlx_tensor_copy(host, tensor))
            self.c.rlx_tensor_destroy(host)
            self.library.check(self.c.rlx_binding_input(self.binding, name.encode(), tensor, 0))
            self.bound.append((None, tensor))

    def keep_outputs_on_device(self):
        """After a first run: later ones write into the device's memory."""
        for i in range(self.c.rlx_session_output_count(self.session)):
            info, made = PortInfo(), ctypes.c_void_p()
            self.library.check(self.c.rlx_session_output(self.session, i, ctypes.byref(info)))
            self.library.check(self.c.rlx_binding_get(self.binding, info.name, ctypes.byref(made)))
            rank = self.c.rlx_tensor_rank(made)
            tensor = self.on_device(self.c.rlx_tensor_dtype(made), self.c.rlx_tensor_dims(made)[:rank])
            self.c.rlx_tensor_destroy(made)
            self.library.check(self.c.rlx_binding_output(self.binding, info.name, tensor))
            self.bound.append((None, tensor))

    def run(self):
        self.library.check(self.c.rlx_run(self.binding, None))

    def outputs(self):
        results = {}
        for i in range(self.c.rlx_session_output_count(self.session)):
            info, tensor = PortInfo(), ctypes.c_void_p()
            self.library.check(self.c.rlx_session_output(self.session, i, ctypes.byref(info)))
            self.library.check(self.c.rlx_binding_get(self.binding, info.name, ctypes.byref(tensor)))
            results[info.name.decode()] = self.library.to_array(tensor)
            self.c.rlx_tensor_destroy(tensor)
        return results
