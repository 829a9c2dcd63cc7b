"""Builds a server on several machines, as a Ray Serve application. In: a model, settings, the number of replicas. Out:
an application for `serve.run`.

A replica is an engine with its thread and the application of `guided.server`. It has the same routes, answers and
errors as `guided serve`. Ray Serve does the rest:

| task | mechanism |
|---|---|
| number of replicas | `num_replicas`, `autoscaling_config` |
| health | `check_health`: if the engine's thread has stopped, Ray replaces the replica |
| shutdown | no new requests, `graceful_shutdown_timeout_s` for open ones, then the application shuts down |
| overload | `max_ongoing_requests` per replica, `max_queued_requests` per proxy; 503 beyond them |
| routing | the shorter queue of two random replicas; with `affinity`, the session's replica (ray_sessions.py) |

    serve.run(build("smollm2-135m-instruct", num_replicas=2))
    serve run guided.integrations.ray_serve:app model=smollm2-135m-instruct num_replicas=2

Ray is imported when `build` is called. Replicas share nothing: each has its own weights and cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, get_type_hints

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, PositiveInt, TypeAdapter

from guided.engine import Engine
from guided.errors import GuidedError
from guided.keywords import check_keywords
from guided.server.app import create_app
from guided.server.engine_thread import EngineStopped
from guided.server.settings import Settings

__all__ = ["Arguments", "Replica", "app", "build"]

_ROUTER_CLASS: Final = "ray.serve.experimental.consistent_hash_router.ConsistentHashRouter"
_MAX_ONGOING_REQUESTS: Final = 64
_MAX_QUEUED_REQUESTS: Final = 256
_DRAIN_SECONDS: Final = 30.0


class Replica:
    """An engine and its application, as Ray Serve runs them."""

    def __init__(self, make_engine: Callable[[], Engine], settings: Settings, api_key_file: str | None = None) -> None:
        """`api_key_file`: a file on the replica's machine; its keys do not appear in Ray's configuration."""
        if api_key_file is not None:
            settings = replace(settings, api_keys=_read_keys(api_key_file))
        self._engine = make_engine()
        self._application = create_app(self._engine, settings)

    def __serve_build_asgi_app__(self) -> FastAPI:
        """The application. Ray Serve calls this after the constructor, and runs the application's lifespan."""
        return self._application

    def check_health(self) -> None:
        """Raise EngineStopped if the replica must be replaced. Ray Serve calls this periodically."""
        thread = self._application.state.server.thread
        if not thread.is_alive:
            raise EngineStopped(f"the engine has stopped: {thread.failure}")

    def __del__(self) -> None:
        """Ray Serve calls this when all requests have been answered and the application's lifespan has ended."""
        if hasattr(self, "_engine"):  # the constructor may have failed
            self._engine.close()


def build(
    model: str | os.PathLike[str] | Callable[[], Engine],
    *,
    settings: Settings | None = None,
    engine: Mapping[str, Any] | None = None,
    api_key_file: str | os.PathLike[str] | None = None,
    affinity: bool = False,
    **deployment: Any,
) -> Any:
    """Build a Ray Serve application.

    Args:
        model: a name or a path that each replica's machine can load, or a function that creates the engine there.
        settings: the server's settings. None: the settings of `guided serve`, with the name of the model.
        engine: options of `Engine.from_pretrained`, such as `device`.
        api_key_file: a file with one key per line, which each replica reads.
        affinity: send the requests of a session to the same replica while it has capacity (`ray_sessions`).
        deployment: options of `serve.deployment`, such as `num_replicas`, `autoscaling_config`,
            `ray_actor_options={"num_cpus": 4}` (the number of threads of a replica) or `max_ongoing_requests`.

    Returns:
        A `ray.serve.Application`.

    Raises:
        GuidedError: Ray Serve is not installed, or options contradict each other.
        ValueError, TypeError: Ray Serve refuses an option.
    """
    try:
        from ray import serve
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise GuidedError("Ray Serve is not installed: pip install 'guided-decoding[ray]'") from None
    if callable(model):
        if engine:
            raise GuidedError("engine= cannot be combined with a function: set the options in the function")
        make_engine, settings = model, settings or Settings()
    else:
        make_engine = partial(Engine.from_pretrained, os.fspath(model), **engine or {})
        settings = settings or Settings(model_name=Path(model).stem)
    options: dict[str, Any] = {
        "name": "guided",
        "max_ongoing_requests": _MAX_ONGOING_REQUESTS,
        "max_queued_requests": _MAX_QUEUED_REQUESTS,
        "backpressure_config": {"retry_after_s": settings.retry_after},
        "graceful_shutdown_timeout_s": _DRAIN_SECONDS,
    }
    if affinity:
        if "request_router_config" in deployment:
            raise GuidedError("affinity sets request_router_config itself: give only one of the two")
        options["request_router_config"] = {"request_router_class": _ROUTER_CLASS}
    replica = serve.deployment(**options | deployment)(serve.ingress()(Replica))
    return replica.bind(make_engine, settings, None if api_key_file is None else os.fspath(api_key_file))


class Arguments(BaseModel):
    """The arguments of `serve run guided.integrations.ray_serve:app`, in addition to the server's settings.

    Attributes:
        model: a name or a path.
        served_model_name: the model's name in requests.
        api_key_file, affinity: see `build`.
        num_replicas: a number; "auto": Ray Serve scales automatically; None: the value in a configuration file, or 1.
        max_ongoing_requests: the limit per replica.
        max_queued_requests: the limit per proxy; 503 beyond it.
        shutdown_timeout: seconds for open requests when a replica shuts down.
        num_cpus, num_gpus: the resources of a replica.
        device, dtype, kv_dtype, adapter: see `Engine.from_pretrained`.
    """

    model_config = ConfigDict(extra="forbid")

    model: str
    served_model_name: str | None = None
    api_key_file: str | None = None
    affinity: bool = False
    num_replicas: PositiveInt | Literal["auto"] | None = None
    max_ongoing_requests: PositiveInt = _MAX_ONGOING_REQUESTS
    max_queued_requests: int = _MAX_QUEUED_REQUESTS
    shutdown_timeout: float = _DRAIN_SECONDS
    num_cpus: float = 1
    num_gpus: float = 0
    device: str = "auto"
    dtype: str = "auto"
    kv_dtype: str = "auto"
    adapter: str | None = None


def app(arguments: dict[str, Any]) -> Any:
    """Build the application for `serve run`, or for a Ray Serve configuration file with `Arguments` as its `args`.

    Raises:
        TypeError: an argument is unknown. ValueError: a value is invalid (pydantic's error says which).
    """
    setting_names = {field.name for field in fields(Settings)} - {
        "api_keys",
        "model_name",
        "max_queued_requests",
        "tools",
    }
    check_keywords("app", arguments, {*Arguments.model_fields, *setting_names}, {"api_keys": "api_key_file"})
    own_arguments = Arguments.model_validate({name: arguments[name] for name in arguments if name not in setting_names})
    setting_types = get_type_hints(Settings)
    settings = {
        name: TypeAdapter(setting_types[name]).validate_python(value)
        for name, value in arguments.items()
        if name in setting_names
    }
    return build(
        own_arguments.model,
        settings=Settings(model_name=own_arguments.served_model_name or Path(own_arguments.model).stem, **settings),
        engine=own_arguments.model_dump(include={"device", "dtype", "kv_dtype", "adapter"}),
        api_key_file=own_arguments.api_key_file,
        affinity=own_arguments.affinity,
        **({} if own_arguments.num_replicas is None else {"num_replicas": own_arguments.num_replicas}),
        max_ongoing_requests=own_arguments.max_ongoing_requests,
        max_queued_requests=own_arguments.max_queued_requests,
        graceful_shutdown_timeout_s=own_arguments.shutdown_timeout,
        ray_actor_options={"num_cpus": own_arguments.num_cpus, "num_gpus": own_arguments.num_gpus},
    )


def _read_keys(path: str) -> tuple[str, ...]:
    keys = tuple(filter(None, map(str.strip, Path(path).read_text("utf-8").splitlines())))
    if not keys:
        raise GuidedError(f"{path} contains no key")
    return keys
