"""Takes Python types apart for `type_schema` and `value_readers`, and names them in errors."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import inspect
import re
import sys
import types
import typing
from typing import Any

from guided.errors import SpecError, UnsupportedError, brief
from guided.frontends.python_types.pydantic_types import is_read_by_pydantic
from guided.frontends.python_types.string_types import STRING_FORMS

__all__ = [
    "DICT_TYPES",
    "LIST_TYPES",
    "SET_TYPES",
    "alias_target",
    "class_of",
    "hints_of",
    "is_alias",
    "is_function",
    "is_hashable_object",
    "is_hashable_type",
    "is_qualifier",
    "is_typed_dict",
    "items_of",
    "members_of",
    "name_of",
    "parameters_of",
    "suggest_type",
]

LIST_TYPES = (list, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Iterable)
SET_TYPES = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
DICT_TYPES = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_SCALARS = (str, int, float, bool, None, type(None), *STRING_FORMS)
_NON_FUNCTION_MODULES = ("typing", "typing_extensions", "types", "builtins", "collections.abc")

Members = dict[str, tuple[Any, bool]]
"""The name of each member -> (its type, whether it is required)."""


def is_qualifier(origin: Any) -> bool:
    """Whether a form such as Required or Final qualifies a member rather than its type."""
    return name_of(origin) in ("Required", "NotRequired", "ReadOnly", "ClassVar", "Final")


def class_of(tp: Any) -> Any:
    """The class of a generic class with arguments, such as `Box` of `Box[int]`; other types as they are."""
    return typing.get_origin(tp) or tp


def is_alias(tp: Any) -> bool:
    """Whether a type is a name for another one: a NewType, or a TypeAliasType (a `type` statement)."""
    return isinstance(tp, typing.NewType) or type(class_of(tp)).__name__ == "TypeAliasType"


def alias_target(tp: Any) -> Any:
    """The type that an alias names. Strings in it are looked up in the module of the alias."""
    if isinstance(tp, typing.NewType):
        return tp.__supertype__
    alias = class_of(tp)
    owner = types.SimpleNamespace(__annotations__={"value": alias.__value__}, __name__=alias.__name__)
    local = {parameter.__name__: parameter for parameter in alias.__type_params__} | {alias.__name__: alias}
    target = hints_of(owner, vars(sys.modules.get(alias.__module__, typing)), local)["value"]
    return _substitute(target, _arguments_of(tp, alias.__type_params__))


def is_typed_dict(tp: Any) -> bool:
    """Whether a type is a TypedDict of `typing` or `typing_extensions`, which differ in older versions of Python."""
    extensions, cls = sys.modules.get("typing_extensions"), class_of(tp)
    return typing.is_typeddict(cls) or (extensions is not None and extensions.is_typeddict(cls))


def _is_required(hint: Any, default: bool) -> bool:
    """Whether a member of a TypedDict is required. `default`: what the class reports, which does not see a `Required`
    or `NotRequired` within a string annotation.
    """
    while (origin := typing.get_origin(hint)) is not None and (origin is typing.Annotated or is_qualifier(origin)):
        if name_of(origin) in ("Required", "NotRequired"):
            return name_of(origin) == "Required"
        hint = typing.get_args(hint)[0]
    return default


def is_function(tp: Any) -> bool:
    """Whether an object is callable but not a type: a function, a method, an object with `__call__`, or a partial."""
    while isinstance(tp, functools.partial):
        tp = tp.func
    if isinstance(tp, type | typing.NewType) or not callable(tp) or typing.get_origin(tp) is not None:
        return False
    return inspect.isroutine(tp) or type(tp).__module__ not in _NON_FUNCTION_MODULES


def members_of(tp: Any) -> Members | None:
    """The members of a dataclass or a TypedDict; None for other types."""
    cls = class_of(tp)
    if is_typed_dict(cls):
        hints = hints_of(tp)
        return {name: (hint, _is_required(hint, name in cls.__required_keys__)) for name, hint in hints.items()}
    if not dataclasses.is_dataclass(cls):
        return None
    hints, no_default = hints_of(tp), dataclasses.MISSING
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            raise UnsupportedError(f"{name_of(tp)}: {name} is an InitVar", hint="make it a field")
    fields = [field for field in dataclasses.fields(cls) if field.init]
    for field in fields:
        _check_default(tp, field.name, field.default)
    return {f.name: (hints[f.name], f.default is no_default and f.default_factory is no_default) for f in fields}


def items_of(tp: Any) -> list[Any] | None:
    """The types of the items of a NamedTuple; None for other types."""
    cls = class_of(tp)
    if not isinstance(cls, type) or not issubclass(cls, tuple) or not hasattr(cls, "_fields"):
        return None
    hints = hints_of(tp)
    return [hints.get(field, Any) for field in cls._fields]


def _check_default(owner: Any, name: str, default: Any) -> None:
    """Refuse pydantic's `Field` as the default of a parameter or a field: Python would use the object itself."""
    if type(default).__name__ == "FieldInfo" and type(default).__module__.startswith("pydantic."):
        message = f"{name_of(owner)}: {name} has a pydantic Field as its default, whose constraints are ignored here"
        raise UnsupportedError(message, hint=f"write {name}: Annotated[..., Field(...)] = ...")


def parameters_of(function: Any) -> tuple[inspect.Signature, Members]:
    """The parameters of a function, except those that a partial sets. A parameter without an annotation accepts any
    value.
    """
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        hint = "wrap it in a function with type hints"
        raise UnsupportedError(f"{name_of(function)} has no signature: {error}", hint=hint) from None
    inner, keyword_names = function, set[str]()
    while isinstance(inner, functools.partial):
        keyword_names |= inner.keywords.keys()
        inner = inner.func
    hints = hints_of(inner if inspect.isroutine(inner) else type(inner).__call__)
    out: Members = {}
    for index, (name, parameter) in enumerate(signature.parameters.items()):
        if name in keyword_names:
            continue
        if index == 0 and name in ("self", "cls") and name not in hints and _is_defined_in_class(inner):
            message = f"the signature of {name_of(function)} begins with {name}, as for an unbound method"
            hint = f"pass a bound method, wrap it in a function, or annotate {name} if it is an ordinary parameter"
            raise UnsupportedError(message, hint=hint)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            hint = "use a function that names all of its parameters"
            raise UnsupportedError(
                f"{name_of(function)}: variadic parameters such as {parameter} are not supported", hint=hint
            )
        _check_default(function, name, parameter.default)
        out[name] = (hints.get(name, Any), parameter.default is parameter.empty)
    return signature, out


def _is_defined_in_class(function: Any) -> bool:
    """Whether a function is defined in a class, according to its qualified name: `Class.method` in a class, `f` or
    `outer.<locals>.f` elsewhere."""
    parent = str(getattr(function, "__qualname__", "")).rpartition(".")[0]
    return parent != "" and (not parent.endswith(".<locals>") or parent.startswith("partialmethod."))


def is_hashable_object(tp: Any) -> bool:
    """Whether a type itself is hashable. Annotated types with unhashable metadata are not."""
    try:
        hash(tp)
    except TypeError:
        return False
    return True


def is_hashable_type(tp: Any, enclosing_types: tuple[Any, ...] = ()) -> bool:
    """Whether every value of the type can be an item of a set.

    `enclosing_types`: the enclosing classes, which are not examined again.
    """
    if isinstance(tp, collections.abc.Hashable) and (tp in _SCALARS or tp in enclosing_types):
        return True
    if is_alias(tp):
        return is_hashable_type(alias_target(tp), (*enclosing_types, tp))
    origin, args = typing.get_origin(tp), typing.get_args(tp)
    if origin is typing.Literal:
        return True
    if origin is typing.Annotated or is_qualifier(origin):
        return is_hashable_type(args[0], enclosing_types)
    if origin in (typing.Union, types.UnionType, tuple):
        return all(arg is Ellipsis or is_hashable_type(arg, enclosing_types) for arg in args)
    if origin in (frozenset, collections.abc.Set):
        return True
    cls = class_of(tp)
    if not isinstance(cls, type) or cls in (*LIST_TYPES, *SET_TYPES, *DICT_TYPES, tuple, object, Any):
        return tp in (frozenset, collections.abc.Set)
    if cls.__hash__ is None or is_typed_dict(cls):
        return False
    if is_read_by_pydantic(tp) or len(enclosing_types) > 50:
        return True
    members = items_of(tp) or [hint for hint, _ in (members_of(tp) or {}).values()]
    return all(is_hashable_type(member, (*enclosing_types, tp)) for member in members)


def hints_of(tp: Any, names: dict[str, Any] | None = None, local: dict[str, Any] | None = None) -> dict[str, Any]:
    """The annotations of a class or a function. String annotations are evaluated, and type parameters are replaced by
    their arguments.

    `names`, `local`: the global and local names for this; by default, those of the module of the class or function.
    """
    cls = class_of(tp)
    try:
        hints = typing.get_type_hints(cls, names, local, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        hint = "string annotations are looked up in the module of the class"
        raise SpecError(f"{name_of(tp)}: an annotation cannot be resolved: {error}", hint=hint) from None
    if not isinstance(cls, type) or not any(map(_parameters_of, hints.values())):
        return hints
    arguments = _arguments_of(tp, getattr(cls, "__parameters__", ()))
    out = {name: _substitute(hint, arguments) for name, hint in hints.items()}
    for base in reversed(vars(cls).get("__orig_bases__", cls.__bases__)):
        if isinstance(class_of(base), type) and class_of(base) is not typing.Generic:
            inherited_hints = typing.get_type_hints(class_of(base), include_extras=True)
            bound_hints = hints_of(_substitute(base, arguments))
            out |= {name: bound_hints[name] for name, hint in inherited_hints.items() if hints[name] == hint}
    return out


def _parameters_of(tp: Any) -> tuple[Any, ...]:
    """The type parameters that occur in a type."""
    if isinstance(tp, typing.TypeVar):
        return (tp,)
    return () if isinstance(tp, type) else getattr(tp, "__parameters__", ())


def _arguments_of(tp: Any, parameters: tuple[Any, ...]) -> dict[Any, Any]:
    """The arguments for the type parameters of a generic class or alias; none if `tp` has no arguments."""
    if tp is class_of(tp):
        return {}
    if not all(isinstance(parameter, typing.TypeVar) for parameter in parameters):
        raise UnsupportedError(f"{name_of(tp)}: type parameters such as *Ts and **P are not supported",
                               hint="use ordinary type parameters")  # fmt: skip
    return dict(zip(parameters, typing.get_args(tp), strict=True))


def _substitute(tp: Any, arguments: dict[Any, Any]) -> Any:
    """A type in which type parameters are replaced by their arguments."""
    if isinstance(tp, typing.TypeVar):
        return arguments.get(tp, tp)
    parameters = _parameters_of(tp)
    return tp[tuple(arguments.get(parameter, parameter) for parameter in parameters)] if parameters else tp


def name_of(tp: Any) -> str:
    """The name of a type in an error."""
    return getattr(tp, "__name__", None) or (tp[:200] if isinstance(tp, str) else brief(tp, 200))


def suggest_type(tp: Any) -> str:
    """A hint for something that is not a type: what to pass instead."""
    if isinstance(tp, str):
        return "pass the type itself, not its name"
    if isinstance(tp, re.Pattern):
        return "pass pattern.pattern to compile_regex"
    if isinstance(tp, collections.abc.Mapping):
        return "pass a schema to compile_json_schema"
    if isinstance(tp, typing.TypeVar):
        return "replace the type variable with a concrete type"
    if is_function(tp):
        return "pass a function by itself, not inside another type"
    return "pass a type: int, list[str], Literal['a', 'b'], a dataclass, ..."
