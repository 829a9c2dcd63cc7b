"""CUDA without a device: tensors that have a shape and a device but no memory, and counters of their operations.

`with fake_cuda() as counter:` makes tensors on `CUDA` fake (torch's `FakeTensorMode`). Their numbers cannot be read,
and Triton kernels are recorded instead of launched. Steps run inside `with counter:`, which counts every torch
operation. It refuses operations for which the CPU waits: reading numbers, copies from or to memory that is not pinned,
operands on the CPU, boolean indices. Only `Fetch.wait` may wait, and is counted.
"""

from __future__ import annotations

import copy
import ctypes
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from guided.models.rotary import RotaryTables

CUDA = torch.device("cuda", 0)
READS = frozenset(
    {
        "_local_scalar_dense", "_unique2", "bincount", "equal", "is_nonzero", "item", "masked_select", "multinomial",
        "nonzero", "repeat_interleave", "unique_consecutive", "unique_dim",
    }
)  # fmt: skip
"""Operations after which the CPU waits for a device."""
_MEMORY = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
_KERNELS = {
    "guided.kernels.choose_triton": (
        "scan_kernel",
        "penalties_kernel",
        "rescan_kernel",
        "min_p_kernel",
        "pick_kernel",
        "top_p_kernel",
    ),
    "guided.kernels.store_kv_triton": ("store_kvcache_kernel",),
    "guided.logits.apply_triton": ("mask_kernel",),
}
_CUDA, _META = 1, 14  # numbers of device types in c10


class DeviceReadError(AssertionError):
    """The CPU would have to wait for the device."""


class StepCounter(TorchDispatchMode):
    """Counts operations; see the module.

    Attributes:
        operations: operations of torch and Triton by name, including views and allocations.
        sent: copies to the device.
        fetched: copies to the host for which nothing has waited.
        waits: how often the CPU waited for the device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations = Counter[str]()
        self.sent = self.fetched = self.waits = 0
        self._staged: list[Tensor] = []

    def clear(self) -> None:
        """Reset the counts."""
        self.operations.clear()
        self.sent = self.fetched = self.waits = 0

    @property
    def launches(self) -> Counter[str]:
        """The number of operations that are neither views nor allocations."""
        return Counter({name: number for name, number in self.operations.items() if not name.startswith("host ")})

    def stage(self, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Replaces pinned memory (`transfer._staging_memory`)."""
        with unset_fake_temporarily():
            self._staged.append(torch.zeros(size, dtype=dtype))
        return self._staged[-1]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func.namespace == "prim":  # properties of tensors
            return func(*args, **kwargs)
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with self:
                return func.decompose(*args, **kwargs)
        name = func.overloadpacket.__name__
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        devices = {x.device.type for x in tensors}
        if "cuda" in devices:
            self._refuse_reads(func, name, args, devices)
        if name in ("_to_copy", "copy_") and set(_route(name, args, kwargs)) == {"cpu", "cuda"}:
            return self._copied(func, name, args, kwargs)
        if devices == {"cpu"} and not any(isinstance(x, FakeTensor) for x in tensors):
            with unset_fake_temporarily():  # a tensor of the host, with its numbers
                return func(*args, **kwargs)
        out = func(*args, **kwargs)
        if any(isinstance(x, Tensor) and x.device.type == "cuda" for x in tree_leaves(out)):
            self.operations[f"host {func}" if func.is_view or name in _MEMORY else str(func)] += 1
        return out

    def _refuse_reads(self, func: Any, name: str, args: tuple[Any, ...], devices: set[str]) -> None:
        if name in READS:
            raise DeviceReadError(f"{func} reads numbers of the device")
        if "cpu" in devices and name not in ("_to_copy", "copy_"):
            raise DeviceReadError(f"{func} has operands on the CPU, which are copied to the device one by one")
        if name.startswith(("index", "_index")) and any(
            isinstance(x, Tensor) and x.dtype == torch.bool for x in tree_leaves(args[1])
        ):
            raise DeviceReadError(f"{func} has a boolean index, which is counted first")

    def _copied(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A copy between host and device."""
        to_device = _route(name, args, kwargs)[1] == "cuda"
        host = (args[1] if name == "copy_" else args[0]) if to_device else (args[0] if name == "copy_" else None)
        waits_not = kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2])
        pinned = host is not None and any(
            not isinstance(host, FakeTensor) and host.untyped_storage()._cdata == x.untyped_storage()._cdata
            for x in self._staged
        )
        if not (waits_not and pinned):
            raise DeviceReadError(f"{func} waits: {'from' if to_device else 'to'} memory that is not pinned")
        if to_device:
            self.sent += 1
            return func(*args, **kwargs)
        self.fetched += 1
        return host


def _route(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
    """The device types that a copy reads from and writes to."""
    if name == "copy_":
        return args[1].device.type, args[0].device.type
    return args[0].device.type, (kwargs.get("device") or args[0].device).type


class _Kernel:
    """Replaces a Triton kernel."""

    def __init__(self, name: str, counter: StepCounter) -> None:
        self._name, self._counter = name, counter

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        assert grid and all(type(size) is int and size > 0 for size in grid), grid
        return self._launch

    def _launch(self, *args: Any, num_warps: int = 4) -> None:
        for at, value in enumerate(args):
            if isinstance(value, Tensor) and value.device != CUDA:
                raise DeviceReadError(f"argument {at} of {self._name} is on {value.device}")
            assert isinstance(value, Tensor | int | bool), (self._name, at, value)
        self._counter.operations[f"triton {self._name}"] += 1


class _Stream:
    """Replaces a CUDA stream and its events."""

    def __init__(self, counter: StepCounter) -> None:
        self._counter = counter

    def record_event(self) -> _Stream:
        return self

    def synchronize(self) -> None:
        self._counter.waits += 1


@contextmanager
def fake_cuda(*, triton: bool = True) -> Iterator[StepCounter]:
    """Make tensors on `CUDA` fake. `triton`: whether Triton's kernels are available."""
    counter, have_kernels = StepCounter(), triton
    with ExitStack() as stack:

        def patch(target: str, value: Any) -> None:
            stack.enter_context(mock.patch(target, value))

        patch("guided.kernels.transfer._staging_memory", counter.stage)
        patch("torch.cuda.current_stream", lambda device=None: _Stream(counter))
        patch("torch.cuda.device", lambda device: nullcontext())
        patch("torch.cuda.device_of", lambda tensor: nullcontext())
        patch("torch.cuda.get_device_capability", lambda device=None: (9, 0))
        patch("guided.attention.segments.has_flash_attn", lambda device: False)
        patch("guided.attention.segments.has_varlen_attn", lambda: True)
        if torch.__version__ < "2.13":  # this version's function cannot read blocks
            patch(
                "guided.attention.varlen._import_varlen_attn", lambda: lambda q, *args, **options: torch.zeros_like(q)
            )
        if have_kernels:
            for module, names in _KERNELS.items():
                for name in names:
                    patch(f"{module}.{name}", _Kernel(name, counter))
        else:
            for module in ("guided.kernels.choose_device", "guided.kernels.store_kv", "guided.logits.apply"):
                patch(f"{import_module(module).__name__}.triton_function", lambda module, name: None)
        stack.enter_context(_guarded_cuda())
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        yield counter


@contextmanager
def _guarded_cuda() -> Iterator[None]:
    """Let a CPU build of torch index tensors on CUDA.

    An index operation first makes the tensor's device current. torch finds the code for this in a table, in which a
    CPU build has no entry for CUDA. This adds the entry of the device `meta`, which does nothing.
    """
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    table = (ctypes.c_void_p * (_META + 1)).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    before = table[_CUDA]
    if not before:
        assert table[_META], "the table of device guards is another one in this version of torch"
        table[_CUDA] = table[_META]
    try:
        yield
    finally:
        table[_CUDA] = before


def fake_weights(x: Tensor) -> Tensor:
    """A fake tensor on `CUDA` with the same shape; floats become bfloat16."""
    dtype = torch.bfloat16 if x.is_floating_point() else x.dtype
    return torch.empty_strided(x.shape, x.stride(), dtype=dtype, device=CUDA)


def moved(value: Any, place: Callable[[Tensor], Tensor]) -> Any:
    """A model, or a part of one, with `place` applied to each tensor. Shared tensors stay shared."""
    return _moved(value, place, {})


def _moved(value: Any, place: Callable[[Tensor], Tensor], known: dict[int, Any]) -> Any:
    if id(value) in known:
        return known[id(value)]
    made = value
    if isinstance(value, Tensor):
        made = place(value)
    elif type(value) in (list, tuple):
        made = type(value)(_moved(one, place, known) for one in value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        new = {name: _moved(one, place, known) for name, one in fields.items()}
        if any(new[name] is not one for name, one in fields.items()):
            made = dataclasses.replace(value, **new)
    elif isinstance(value, RotaryTables):
        made = copy.copy(value)
        made._tables = _moved(value._extend(value._tables, value._context), place, known)  # complete, as on CUDA
    elif hasattr(value, "config") and hasattr(value, "forward"):
        made = copy.copy(value)
        for name, one in vars(value).items():
            setattr(made, name, _moved(one, place, known))
    known[id(value)] = made
    return made
