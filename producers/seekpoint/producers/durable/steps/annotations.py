"""Read what the annotations of a user's function say of the values that a journal keeps of it.

The result of a call is rebuilt if its annotation names a model. An annotation is evaluated in the module of its
function, and with what the function closes over. One that cannot be evaluated there says nothing: a class that only
type checkers import, or one that is local to another function.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.schemas.values.value_types import ValueType

__all__ = [
    "AgentTypes",
    "agent_types",
    "note_result_type",
    "parameters_of",
    "rebuilt_arguments",
    "result_type",
    "why_untyped",
]

_PLAIN = {str, int, float, bool, None, dict, list, object, Any}
_PLAIN_NAMES = {
    *("str", "int", "float", "bool", "None", "dict", "list", "tuple", "set", "frozenset", "bytes", "object"),
    *("Any", "typing", "Optional", "Mapping", "Sequence", "Iterable", "Callable"),
}
_plain_texts: set[str] = {"None", "str", "dict[str, Any]"}
"""The texts of annotations that name no model; it grows by those that were seen."""
_PLAIN_TEXTS_MAX = 10_000
_NAME = re.compile(r"[^\W\d]\w*")
_known: dict[int, tuple[ref[Any], ValueType | None]] = {}
"""By the id of a function: the type of its result."""
_STREAMS = ("AsyncIterator", "AsyncIterable", "AsyncGenerator", "Iterator", "Generator")
_AWAITABLE = ("Awaitable", "Coroutine")


def result_type(call: Callable[..., Any]) -> ValueType | None:
    """Return the type by which results of ``call`` are rebuilt; None if its annotation names no model.

    That of a stream is the list of its chunks. A plain function without annotations costs 50 ns.
    """
    function: Any = call
    kind = type(call)
    if kind is not FunctionType and (kind is BuiltinFunctionType or (function := _function_of(call)) is None):
        return None
    annotations = _annotations_of(function)
    found = annotations.get("return") if annotations else None
    if found is None or (found in _plain_texts if type(found) is str else isinstance(found, type) and found in _PLAIN):
        return None
    known = _known.get(id(function))
    if known is not None and known[0]() is function:
        return known[1]
    return _noted(function, found)


def _noted(function: Any, annotation: Any) -> ValueType | None:
    """Find the type of the results of a function that was not seen before."""
    if type(annotation) is str and not {*_NAME.findall(annotation)} - _PLAIN_NAMES:
        if len(_plain_texts) < _PLAIN_TEXTS_MAX:
            _plain_texts.add(annotation)
        return None
    found, identity = _result_type(function, annotation, None), id(function)
    _known[identity] = ref(function, lambda _: _known.pop(identity, None)), found
    return found


def note_result_type(call: Callable[..., Any], names: Mapping[str, Any]) -> None:
    """Evaluate the annotation of a nested function with the ``names`` around it, which only its decorator knows."""
    function = _function_of(call)
    annotation = None if function is None else _annotations_of(function).get("return")
    if annotation is not None and "<locals>" in function.__qualname__:
        identity = id(function)
        found = _result_type(function, annotation, names)
        _known[identity] = ref(function, lambda _: _known.pop(identity, None)), found


def why_untyped(call: Callable[..., Any]) -> str | None:
    """Return why the annotation of the results of ``call`` cannot be evaluated; None if there is none, or it can."""
    function = _function_of(call)
    annotation = None if function is None else _annotations_of(function).get("return")
    why = None if annotation is None else _unevaluated(function, annotation)
    return None if why is None else f"{annotation} ({why})"


def _result_type(function: Any, annotation: Any, names: Mapping[str, Any] | None) -> ValueType | None:
    from seekpoint.schemas.values.value_types import value_type  # a program without models starts without

    found = value_type(_awaited(_evaluated(function, annotation, names)))
    return None if found is None or not found.has_models else found


class AgentTypes(NamedTuple):
    """The types of an agent's input and output, from the annotations of its function."""

    input: ValueType | None
    output: ValueType | None
    unevaluated: str | None = None
    """Why the annotation of the input cannot be evaluated; None if it can."""


def agent_types(run: Callable[..., Any], names: Mapping[str, Any] | None = None) -> AgentTypes:
    """Return the types of an agent's input and output: every annotation of the input counts, models or not.

    ``names`` are the local names around a nested function.
    """
    function = _function_of(run)
    annotation, result = input_annotation(run), _annotations_of(function).get("return") if function else None
    output = None if result is None or function is None else _result_type(function, result, names)
    if annotation is inspect.Parameter.empty:
        return AgentTypes(None, output)
    why = _unevaluated(function, annotation, names)
    if why is not None:
        return AgentTypes(None, output, f"{annotation} ({why})")
    from seekpoint.schemas.values.value_types import value_type

    return AgentTypes(value_type(_evaluated(function, annotation, names)), output)


def input_annotation(run: Callable[..., Any]) -> Any:
    """Return the annotation of the second parameter as it is written; ``Parameter.empty`` if there is none."""
    try:
        parameters = parameters_of(run)
    except (TypeError, ValueError):  # a callable that tells nothing of itself
        return inspect.Parameter.empty
    asked = parameters[1:2]
    return asked[0].annotation if asked and asked[0].kind in _BY_POSITION else inspect.Parameter.empty


def _parameter_types(call: Callable[..., Any]) -> tuple[list[ValueType | None], dict[str, ValueType | None]]:
    """Return the types of the parameters of ``call`` by position, and by name; None where no model is named."""
    from seekpoint.schemas.values.value_types import value_type

    try:
        parameters = parameters_of(call)
    except (TypeError, ValueError):  # a callable that tells nothing of itself
        return [], {}
    function = _function_of(call)
    found = [
        None if one.annotation is one.empty else value_type(_evaluated(function, one.annotation)) for one in parameters
    ]
    types = [None if one is None or not one.has_models else one for one in found]
    by_name = {one.name: kind for one, kind in zip(parameters, types, strict=True)}
    by_position = [kind for one, kind in zip(parameters, types, strict=True) if one.kind in _BY_POSITION]
    return by_position, by_name


def rebuilt_arguments(
    call: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any], what: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return recorded arguments as ``call`` takes them: those whose annotations name models are rebuilt.

    Raises ``RecordedValueInvalid``; ``what`` names the call in it.
    """
    by_position, by_name = _parameter_types(call)

    def made(value: Any, kind: ValueType | None, name: object) -> Any:
        return value if kind is None else kind.rebuilt(dump(value), f"the argument {name} of {what}")

    kinds = zip_longest(arguments, by_position[: len(arguments)])
    given = tuple(made(value, kind, at) for at, (value, kind) in enumerate(kinds, 1))
    return given, {name: made(value, by_name.get(name), name) for name, value in options.items()}


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _evaluated(function: Any, annotation: Any, names: Mapping[str, Any] | None = None) -> Any:
    """Return what an annotation of a function stands for; ``Any`` if it cannot be evaluated.

    ``names`` are those of the code around the function, if they are known.
    """
    try:
        return _meant(function, annotation, names or {})
    except Exception:  # NameError mostly; any other one is of the annotation's own code
        return Any


def _unevaluated(function: Any, annotation: Any, names: Mapping[str, Any] | None = None) -> str | None:
    """Return why an annotation cannot be evaluated; None if it can."""
    try:
        _meant(function, annotation, names or {})
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"
    return None


def _meant(function: Any, annotation: Any, names: Mapping[str, Any]) -> Any:
    import typing
    from collections import abc

    around = inspect.unwrap(function)
    closed_over = zip(
        getattr(getattr(around, "__code__", None), "co_freevars", ()), getattr(around, "__closure__", None) or (),
        strict=False,
    )  # fmt: skip
    known = {**vars(abc), **vars(typing), **getattr(around, "__globals__", {}), **names}
    for name, cell in closed_over:
        try:
            known[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue

    def holder() -> None: ...

    holder.__annotations__ = {"value": annotation}
    return typing.get_type_hints(holder, globalns=known, include_extras=True)["value"]


def _awaited(annotation: Any) -> Any:
    """Return what is recorded of a result: of an awaitable its value, of a stream the list of its chunks."""
    origin, given = getattr(annotation, "__origin__", None), getattr(annotation, "__args__", ())
    name = getattr(origin, "__name__", "")
    if getattr(origin, "__module__", "") != "collections.abc" or not given:
        return annotation
    if name in _AWAITABLE:
        return _awaited(given[-1])
    return list[given[0]] if name in _STREAMS else annotation  # type: ignore[valid-type]  # made at run time


def _function_of(call: Any) -> Any:
    """Return the function behind a bound method, a partial one or a callable object; None for one of C's."""
    while True:
        if isinstance(call, FunctionType):
            return call
        if isinstance(call, MethodType):
            call = call.__func__
        elif isinstance(call, partial):
            call = call.func
        else:
            called = getattr(type(call), "__call__", None)  # noqa: B004  # it is looked at, not tested
            return called if isinstance(called, FunctionType) else None


def _annotations_of(function: Any) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = function.__annotations__
    except Exception:  # Python 3.14 evaluates them here: a name is not known yet, or only to type checkers
        return _forward_annotations(function)
    return found


def parameters_of(call: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a callable. Raises ``TypeError`` and ``ValueError`` for one that does not tell them."""
    try:
        return [*inspect.signature(call).parameters.values()]
    except NameError:  # Python 3.14 evaluates annotations here, too
        from annotationlib import Format  # type: ignore[import-not-found,unused-ignore]  # 3.14 and later

        how: Any = {"annotation_format": Format.FORWARDREF}
        return [*inspect.signature(call, **how).parameters.values()]


def _forward_annotations(function: Any) -> Mapping[str, Any]:
    from annotationlib import Format, get_annotations  # type: ignore[import-not-found,unused-ignore]  # 3.14 and later

    found: Mapping[str, Any] = get_annotations(function, format=Format.FORWARDREF)
    return found
