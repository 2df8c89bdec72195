"""The tab "BivShap" in TensorBoard: serves the explorer and the records that event files name.

TensorBoard loads this module with every log directory, so it imports only TensorBoard and the standard library; NumPy
and the rest of the package are imported by the first request that needs them. Runs, tags and steps come from
TensorBoard's data provider, graphs from the records beside the event files.

| route | answer |
| --- | --- |
| `runs` | runs with records |
| `index?run=` | steps of a run, with stage and epoch |
| `record?run=&tag=&step=` | description of one record: classes, samples, numbers, curves, the gate's verdict |
| `graph?run=&tag=&step=&subject=` | one graph as bytes, :mod:`bivshap_lightning.views.explorer.payload` |
| `series?run=&tag=&subject=` | importance and role of every player over the steps of a run |
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorboard import context as request_context
from tensorboard import errors
from tensorboard.backend import experiment_id, http_util
from tensorboard.data.provider import RunTagFilter
from tensorboard.plugins import base_plugin
from werkzeug import wrappers

from bivshap_lightning.views.explorer.assets import CONTENT_TYPES, MODULES, STYLE_SHEET, read_asset
from bivshap_lightning.views.tensorboard.log_files import RecordNotFoundError, log_directories, record_file

if TYPE_CHECKING:
    from bivshap_lightning.audit.record import AuditRecord
    from bivshap_lightning.gate import Verdict

PLUGIN_NAME = "bivshap"

MAX_STEPS = 10_000
"""Steps of a run that are read; TensorBoard keeps 100 of a tag unless `--samples_per_plugin` says otherwise."""

MAX_POINTS = 40
"""Records that the view over time reads: evenly spaced steps, the first and the last among them."""

MAX_CACHED = 4
"""Records that are kept in memory."""

JSON = "application/json"

Handler = Callable[[wrappers.Request], tuple[Any, str]]


class BadRequestError(ValueError):
    """A request with missing or impossible arguments."""


class BivShapPlugin(base_plugin.TBPlugin):  # type: ignore[misc]  # TensorBoard has no type information
    """The plugin; TensorBoard finds it through the entry point `tensorboard_plugins` and creates it.

    Args:
        context: TensorBoard's `TBContext`.

    Example:
        >>> from tensorboard.plugins.base_plugin import TBContext
        >>> plugin = BivShapPlugin(TBContext(logdir="lightning_logs"))
        >>> plugin.is_active(), plugin.frontend_metadata().tab_name
        (False, 'BivShap')
    """

    plugin_name = PLUGIN_NAME

    def __init__(self, context: Any) -> None:
        self._provider = context.data_provider
        # `context.logdir` is the flag of either name, so the flags come first.
        logdir_spec = getattr(context.flags, "logdir_spec", None)
        logdir = getattr(context.flags, "logdir", None) or (None if logdir_spec else context.logdir)
        self._directories = log_directories(logdir, logdir_spec)
        self._records: OrderedDict[tuple[str, int, int], AuditRecord] = OrderedDict()
        self._lock = threading.Lock()

    def is_active(self) -> bool:
        """False, in constant time: where event files name this plugin, TensorBoard itself shows the tab."""
        return False

    def frontend_metadata(self) -> Any:
        """Name of the tab and the module that draws it."""
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="BivShap", disable_reload=False)

    def get_plugin_apps(self) -> dict[str, Any]:
        """The function behind each route."""
        routes = {
            "/runs": self._runs,
            "/index": self._index,
            "/record": self._record,
            "/graph": self._graph,
            "/series": self._series,
        }
        apps: dict[str, Any] = {route: self._app(handler) for route, handler in routes.items()}
        for name in (*MODULES, STYLE_SHEET):
            apps[f"/{name}"] = _asset_app(name)
        return apps

    def _app(self, handler: Handler) -> Any:
        @wrappers.Request.application
        def app(request: wrappers.Request) -> Any:
            if request.method != "GET":
                return _failure(request, "Only GET is answered.", 405)
            try:
                content, content_type = handler(request)
            except BadRequestError as error:
                return _failure(request, str(error), 400)
            except (RecordNotFoundError, errors.NotFoundError) as error:
                return _failure(request, str(error), 404)
            except (ValueError, TypeError, OSError, MemoryError) as error:  # a damaged record
                return _failure(request, str(error), 422)
            return http_util.Respond(request, content, content_type)

        return app

    def _runs(self, request: wrappers.Request) -> tuple[Any, str]:
        context, experiment = _context_and_experiment(request)
        found = self._list(context, experiment)
        runs = [
            {"run": run, "last_step": max(series.max_step for series in tags.values()),
             "last_time": max(series.max_wall_time for series in tags.values())}
            for run, tags in sorted(found.items()) if tags
        ]  # fmt: skip
        return json.dumps({"runs": runs}), JSON

    def _index(self, request: wrappers.Request) -> tuple[Any, str]:
        steps = self._steps(request, _argument(request, "run"))
        return json.dumps({"steps": steps}), JSON

    def _record(self, request: wrappers.Request) -> tuple[Any, str]:
        from bivshap_lightning.views.explorer.numbers import describe_record

        file = self._requested_file(request)
        description = describe_record(self._load(file, keep=True), verdict=_verdict_on(file))
        return json.dumps(description, allow_nan=False), JSON

    def _graph(self, request: wrappers.Request) -> tuple[Any, str]:
        from bivshap_lightning.views.explorer.payload import graph_bytes, subject_data

        subject = _subject(request)
        record = self._load(self._requested_file(request), keep=True)
        return graph_bytes(subject_data(record, subject)), "application/octet-stream"

    def _series(self, request: wrappers.Request) -> tuple[Any, str]:
        from bivshap_lightning.views.explorer.payload import role_point, sample_key, subject_data

        run, tag, subject = _argument(request, "run"), _argument(request, "tag"), _subject(request)
        steps = [step for step in self._steps(request, run) if step["tag"] == tag]
        if not steps:
            raise errors.NotFoundError(f"run {run!r} has no records of tag {tag!r}")
        points, missing, key = [], 0, None
        for step in _spread(steps, MAX_POINTS)[::-1]:  # the last step says which sample is meant
            try:
                record = self._load(record_file(self._directories, run, step["record"]), keep=False)
                key = sample_key(record, subject) if key is None else key
                if sample_key(record, subject) != key:
                    raise LookupError("another sample")
                point = role_point(subject_data(record, subject))
            except (LookupError, ValueError, OSError):
                missing += 1
                continue
            points.append({**point, "step": step["step"], "epoch": step["epoch"]})
        answer = {"points": points[::-1], "n_missing": missing, "n_steps": len(steps)}
        return json.dumps(answer, allow_nan=False), JSON

    def _list(self, context: Any, experiment: str, runs: list[str] | None = None) -> Any:
        if self._provider is None:
            return {}
        chosen = None if runs is None else RunTagFilter(runs=runs)
        return self._provider.list_tensors(
            context, experiment_id=experiment, plugin_name=PLUGIN_NAME, run_tag_filter=chosen
        )

    def _steps(self, request: wrappers.Request, run: str) -> list[dict[str, Any]]:
        """Steps with records, in order; of a step that was written twice, as after a restart, the last."""
        context, experiment = _context_and_experiment(request)
        if run not in self._list(context, experiment, [run]):
            raise errors.NotFoundError(f"no run {run!r} has records")
        found = self._provider.read_tensors(
            context,
            experiment_id=experiment,
            plugin_name=PLUGIN_NAME,
            downsample=MAX_STEPS,
            run_tag_filter=RunTagFilter(runs=[run]),
        )
        steps: dict[tuple[int, str], dict[str, Any]] = {}
        for tag, data in found.get(run, {}).items():
            for datum in data:
                index = _parsed_index(datum.numpy)
                steps[int(datum.step), tag] = {"tag": tag, "step": int(datum.step), "time": datum.wall_time, **index}
        return [steps[key] for key in sorted(steps)]

    def _requested_file(self, request: wrappers.Request) -> str:
        run, tag, text = (_argument(request, name) for name in ("run", "tag", "step"))
        if not text.lstrip("-").isdecimal() or len(text) > 20:
            raise BadRequestError(f"`step` must be a whole number, got {text[:80]!r}.")
        step = next((s for s in self._steps(request, run) if s["tag"] == tag and s["step"] == int(text)), None)
        if step is None:
            raise errors.NotFoundError(f"run {run!r} has no record of tag {tag!r} at step {text}")
        return record_file(self._directories, run, step["record"])

    def _load(self, file: str, *, keep: bool) -> AuditRecord:
        """Read a record and verify all of it but what it says about the graphs of single samples."""
        from dataclasses import replace
        from pathlib import Path

        from bivshap_lightning.audit.record import AuditRecord
        from bivshap_lightning.audit.record_files import read_files

        status = os.stat(file)
        key = file, status.st_mtime_ns, status.st_size
        with self._lock:
            if key in self._records:
                self._records.move_to_end(key)
                return self._records[key]
        content, arrays = read_files(Path(file))
        record = replace(AuditRecord.from_fields(content, source=os.path.basename(file)), arrays=arrays)
        if keep:
            with self._lock:
                self._records[key] = record
                while len(self._records) > MAX_CACHED:
                    self._records.popitem(last=False)
        return record


def _context_and_experiment(request: wrappers.Request) -> tuple[Any, str]:
    environ = request.environ
    return request_context.from_environ(environ), environ.get(experiment_id.WSGI_ENVIRON_KEY, "")


def _verdict_on(file: str) -> Verdict | None:
    """The verdict that the gate kept beside a record; None without one, and never one behind a link."""
    from bivshap_lightning.gate import GateError, Verdict
    from bivshap_lightning.gate.verdict_file import load_verdict, verdict_path

    path = str(verdict_path(file))
    if os.path.realpath(path) != path:
        return None
    try:
        return load_verdict(file)
    except (GateError, OSError) as error:
        return Verdict(error=str(error))


def _asset_app(name: str) -> Any:
    @wrappers.Request.application
    def app(request: wrappers.Request) -> Any:
        return http_util.Respond(request, read_asset(name), CONTENT_TYPES[name[name.rindex(".") :]])

    return app


def _failure(request: wrappers.Request, message: str, code: int) -> Any:
    return http_util.Respond(request, json.dumps({"error": message}), JSON, code=code)


def _argument(request: wrappers.Request, name: str) -> str:
    value: str | None = request.args.get(name)
    if not value:
        raise BadRequestError(f"`{name}` must be given.")
    return value


def _subject(request: wrappers.Request) -> tuple[str, str]:
    from bivshap_lightning.views.explorer.payload import parse_subject

    try:
        return parse_subject(_argument(request, "subject"))
    except BadRequestError:
        raise
    except ValueError as error:
        raise BadRequestError(str(error)) from error


def _parsed_index(tensor: Any) -> dict[str, Any]:
    """What the event file says about a step; a record of None where it says nothing that can be read."""
    try:
        content = json.loads(tensor.item())
    except (ValueError, TypeError, AttributeError):
        content = None
    fields = content if isinstance(content, dict) else {}
    record, stage, epoch = fields.get("record"), fields.get("stage"), fields.get("epoch")
    return {
        "record": record if isinstance(record, str) else None,
        "stage": stage if isinstance(stage, str) else "",
        "epoch": epoch if type(epoch) is int else None,
    }


def _spread(steps: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """At most so many steps, evenly spaced, the first and the last among them."""
    if len(steps) <= most:
        return steps
    places = {round(k * (len(steps) - 1) / (most - 1)) for k in range(most)}
    return [steps[k] for k in sorted(places)]
