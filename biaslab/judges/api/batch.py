"""OpenAI's Batch API (half price) and ``vllm run-batch``: write requests, submit them, import the results.

Examples
--------
>>> import tempfile
>>> from biaslab.core import Completion
>>> from biaslab.judges.api import ApiJudge
>>> judge = ApiJudge("qwen3", "http://localhost:8000/v1")
>>> with tempfile.TemporaryDirectory() as folder:
...     exported = export_batch(judge, [Completion("Name a colour.")], f"{folder}/study.jsonl")
...     [file.name for file in exported.files], exported.requests
(['study.jsonl'], 1)
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from biaslab.core.errors import InputError, JudgeError, ServerError, UnsupportedRequestError
from biaslab.core.files import DECODER
from biaslab.core.output import AnyPath, replacing, require_file
from biaslab.core.requests import Choice, Completion, Message, Request, request_fields, request_key
from biaslab.core.trials import Reply
from biaslab.judges.api import ApiJudge, faults
from biaslab.judges.api.endpoints import Address, ApiKey
from biaslab.judges.api.faults import message_of, of_connection
from biaslab.judges.api.sender import at_temperature
from biaslab.judges.api.wire import CHAT, RESPONSES, Wire, check, declined, prefix_order

if TYPE_CHECKING:
    import openai

    from biaslab.store import Store

#: Limits of OpenAI's Batch API: requests and bytes per file.
MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000
_TOGETHER = 500  # replies stored per transaction
_FORM = "lines written by `biaslab batch export`"


@dataclass(frozen=True)
class Exported:
    """An export: the files to submit, each with a file of keys, and the number of requests."""

    files: tuple[Path, ...]
    requests: int


@dataclass
class Imported:
    """Counts of an import.

    Attributes
    ----------
    stored, present : int
        Replies added to the store, and already present.
    repeated, unknown : int
        Lines that repeat a request, and lines for no request of this export.
    failed : collections.Counter
        Lines without a reply, counted by message.
    open : int
        Number of requests still without a reply in the store.
    """

    stored: int = 0
    present: int = 0
    repeated: int = 0
    unknown: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    open: int = 0


def export_batch(
    judge: ApiJudge,
    requests: Iterable[Request],
    path: AnyPath,
    *,
    most_requests: int = MOST_REQUESTS,
    most_bytes: int = MOST_BYTES,
) -> Exported:
    """Write requests as batch files, with a file of keys that maps lines to requests.

    Parameters
    ----------
    judge : ApiJudge
        The judge that would be asked; nothing is sent, and no key is needed.
    requests : iterable of Request
        The open requests: see `biaslab.study.spending.unanswered`.
    path : str or path
        Ends in ``.jsonl``. If the limits require several files, they are ``NAME-1.jsonl``, ``NAME-2.jsonl``, …
    most_requests, most_bytes : int
        Limits per file.

    Raises
    ------
    InputError
        If the path has another ending or was already exported to, or no requests are open.
    UnsupportedRequestError
        If a request does not fit chat completions, the only format that all batch servers accept.
    """
    base = require_file("path", Path(path).expanduser(), ".jsonl")
    if keys_of(base).exists():
        remedy = "import that batch, or use another path"
        raise InputError("path", str(path), "a path without an exported batch", remedy)
    wanted = sorted(dict.fromkeys(requests), key=prefix_order)
    if not wanted:
        raise InputError("requests", wanted, "at least one open request")
    lines = [_line(judge, request) for request in wanted]
    parts = list(_parts(lines, most_requests, most_bytes))
    names = [base] if len(parts) == 1 else [base.with_stem(f"{base.stem}-{n}") for n in range(1, len(parts) + 1)]
    for name, part in zip(names, parts, strict=True):
        write_whole(name, part)
    head: dict[str, Any] = {"judge": judge.id, "url": judge.url, "files": [name.name for name in names]}
    head["temperature"] = judge.refusals.temperature
    rows = ({"kind": request.kind, **request_fields(request)} for request in wanted)
    write_whole(keys_of(base), [json.dumps(row) + "\n" for row in (head, *rows)])
    return Exported(tuple(names), len(wanted))


def import_results(path: AnyPath, results: Sequence[AnyPath], store: Store) -> Imported:
    """Import the replies of finished batches into a store.

    Partial and repeated files are safe: lines are matched by key in any order, the first reply to a request counts,
    and missing ones stay open.

    Parameters
    ----------
    path : str or path
        Path of the export.
    results : sequence of str or path
        Result files: the batch's output and error files, or the output of ``vllm run-batch``.
    store : Store
        The store to add the replies to.

    Raises
    ------
    InputError
        If a file is invalid.
    """
    head, wanted = read_keys(path)
    judge_id, wire, imported = str(head["judge"]), Wire("", ""), Imported()
    measures = any(wire.measures(_response(line).get("body")) for line in _result_lines(results))
    before, answered, fresh = set(store.get(wanted)), set[str](), list[tuple[Request, Reply]]()
    for line in _result_lines(results):
        key = str(line.get("custom_id")) if line is not None else ""
        if line is None:
            imported.failed["a line that is not a JSON object, such as a truncated one"] += 1
        elif key not in wanted:
            imported.unknown += 1
        elif key in answered:
            imported.repeated += 1
        else:
            reply = _reply(wire, wanted[key], line, measures)
            if isinstance(reply, str):
                imported.failed[reply] += 1
                continue
            answered.add(key)
            if key not in before:
                fresh.append((wanted[key], at_temperature(wanted[key], reply, head["temperature"])))
                imported.stored += 1
            if len(fresh) == _TOGETHER:
                store.put_all(fresh, judge_id)
                fresh.clear()
    store.put_all(fresh, judge_id)
    imported.present = len(before & answered)
    imported.open = len(wanted) - len(before | answered)
    return imported


def keys_of(path: AnyPath) -> Path:
    """Return the path of the file that lists the requests of an export."""
    return Path(path).expanduser().with_suffix(".keys.jsonl")


def read_keys(path: AnyPath) -> tuple[dict[str, Any], dict[str, Request]]:
    """Return the header of an export, and its requests by key.

    Raises
    ------
    InputError
        If it does not exist or was modified.
    """
    file = keys_of(path)
    try:
        with file.open(encoding="utf-8") as stream:
            head = json.loads(next(stream))
            requests = [_request(json.loads(line)) for line in stream]
        return head, {request_key(request, head["judge"]): request for request in requests}
    except OSError as error:
        raise InputError("path", str(path), "a path used by `biaslab batch export`") from error
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise InputError("path", str(file), _FORM) from error


def write_whole(path: Path, lines: Iterable[str]) -> None:
    """Write a file atomically."""
    with replacing(path) as partial, partial.open("w", encoding="utf-8") as stream:
        stream.writelines(lines)


def _line(judge: ApiJudge, request: Request) -> str:
    check(judge.wire, request)
    url, body = judge.wire.write(request)
    if url not in (CHAT, RESPONSES):
        why = "a batch can contain only Choice and Completion requests"
        raise UnsupportedRequestError(why, request, remedy="ask others directly")
    key = request_key(request, judge.id)
    body = judge.refusals.adapt(body)
    return json.dumps({"custom_id": key, "method": "POST", "url": f"/v1{url}", "body": body}) + "\n"


def _parts(lines: Sequence[str], most_requests: int, most_bytes: int) -> Iterator[list[str]]:
    """Split ASCII lines into files within the limits."""
    part: list[str] = []
    size = 0
    for line in lines:
        if len(line) > most_bytes:
            raise InputError("most_bytes", most_bytes, f"at least {len(line):,}, the size of the longest request")
        if part and (len(part) == most_requests or size + len(line) > most_bytes):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    yield part


def _request(row: dict[str, Any]) -> Request:
    kind, messages = row.pop("kind"), [Message(*message) for message in row.pop("messages")]
    return Choice(messages, **row) if kind == "choice" else Completion(messages, **row)


def _result_lines(results: Sequence[AnyPath]) -> Iterator[dict[str, Any] | None]:
    """Yield each line of the result files as an object; None if it is malformed."""
    for file in results:
        try:
            with Path(file).expanduser().open(encoding="utf-8", errors="replace") as stream:
                for line in filter(str.strip, stream):
                    yield _object(line)
        except OSError as error:
            raise InputError("results", str(file), f"a readable file ({error.strerror})") from error


def _object(line: str) -> dict[str, Any] | None:
    try:
        document = DECODER.decode(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _response(line: dict[str, Any] | None) -> dict[str, Any]:
    response = (line or {}).get("response")
    return response if isinstance(response, dict) else {}


def _reply(wire: Wire, request: Request, line: dict[str, Any], measures: bool) -> Reply | str:
    """Return the reply of a line, or its error message."""
    response = _response(line)
    if not response:
        return faults.message_of(json.dumps(line.get("error") or "no response"))
    body, status = response.get("body"), response.get("status_code") or 200
    try:
        if status >= 400:
            raise faults.of_status(int(status), json.dumps(body), {}, request)
        return wire.read(request, body, seen=False, measures=measures)
    except faults.Filtered:
        return declined(request, "content_filter")
    except (faults.Fault, JudgeError) as error:
        return str(error)
    except Exception as error:  # one bad line must not stop the others
        return str(faults.unreadable(error))


T = TypeVar("T")
_DEAD = frozenset({"failed", "expired", "cancelled"})
_MOST_LISTED = 100_000  # batches, newest first, among which one that is not recorded may be


class Job(NamedTuple):
    """One submitted file: name, content, batch ("" if a kill may have hidden it), progress, result files, upload."""

    file: str
    digest: str
    batch: str
    status: str = "submitted"
    done: int = 0
    total: int = 0
    results: tuple[str, ...] = ()
    upload: str = ""


class BatchJobs:
    """The batches of one export.

    Parameters
    ----------
    path : Path
        Path passed to `biaslab.judges.api.batch.export_batch`.
    api_key : str or callable, optional
        As in `biaslab.ApiJudge`.

    Raises
    ------
    InputError
        If there is no such export.
    """

    def __init__(self, path: Path, api_key: str | Callable[[], str] | None = None) -> None:
        head, _ = read_keys(path)
        self.path, self._record = path, path.with_suffix(".batches.json")
        self._files = [path.with_name(name) for name in head["files"]]
        self._address = Address.of(head["url"])
        self._key = ApiKey(api_key, self._address)

    def submit(self) -> list[Job]:
        """Upload each file that has not been submitted and start its batch; return the new ones.

        A file is submitted only once, because running and finished batches are billed. Each batch is recorded as soon
        as it exists; one that a kill kept from the record is found by its uploaded file.

        Raises
        ------
        ServerError
            If the server refuses; batches started before are recorded.
        """
        jobs, new = self.jobs(), []
        taken = {job.digest for job in jobs if job.batch and (job.status not in _DEAD or job.done)}
        begun = {job.digest: job.upload for job in jobs if not job.batch}
        for file in self._files:
            content = file.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            if digest in taken:
                continue
            jobs = [job for job in jobs if job.batch or job.digest != digest]
            batch, upload = self._batch_of(begun.get(digest, "")), begun.get(digest, "")
            if not batch:
                upload = self._call(partial(_upload, name=file.name, content=content))
                self._note([*jobs, Job(file.name, digest, "", "not confirmed: submit again", upload=upload)])
                batch = self._call(partial(_start, upload=upload, content=content))
            jobs.append(Job(file.name, digest, batch, upload=upload))
            new.append(jobs[-1])
            self._note(jobs)
        return new

    def update(self) -> list[Job]:
        """Query the progress of the batches, and save it."""
        jobs = [self._look(job) if job.batch else job for job in self.jobs()]
        self._note(jobs)
        return jobs

    def fetch(self) -> list[Path]:
        """Download all available results, including those of expired batches, and return the files."""
        files = []
        for job in self.update():
            for name in job.results:
                target = self.path.with_name(f"{self.path.stem}.{job.batch}.{name}.results.jsonl")
                if not target.exists():
                    content = self._call(lambda client, name=name: client.files.content(name).content)  # type: ignore[misc]
                    write_whole(target, [self._key.hide_in(content).decode("utf-8", "replace")])
                files.append(target)
        return files

    def jobs(self) -> list[Job]:
        """Return the submitted batches in their last known state.

        Raises
        ------
        InputError
            If the record was modified.
        """
        if not self._record.exists():
            return []
        try:
            rows = json.loads(self._record.read_text(encoding="utf-8"))
            return [Job(**{**row, "results": tuple(row["results"])}) for row in rows]
        except (ValueError, TypeError, KeyError) as error:
            raise InputError("path", str(self._record), "the record written by `biaslab batch submit`") from error

    def _batch_of(self, upload: str) -> str:
        """Return the batch of an uploaded file, or "" if it has none."""
        if not upload:
            return ""

        def find(client: openai.OpenAI) -> str:
            batches = islice(client.batches.list(limit=100), _MOST_LISTED)
            return next((batch.id for batch in batches if batch.input_file_id == upload), "")

        return self._call(find)

    def _look(self, job: Job) -> Job:
        batch: Any = self._call(lambda client: client.batches.retrieve(job.batch))
        counts, files = batch.request_counts, (batch.output_file_id, batch.error_file_id)
        done, total = (counts.completed, counts.total) if counts else (job.done, job.total)
        return job._replace(status=batch.status, done=done, total=total, results=tuple(filter(None, files)))

    def _note(self, jobs: list[Job]) -> None:
        write_whole(self._record, [json.dumps([job._asdict() for job in jobs], indent=1)])

    def _call(self, ask: Callable[[openai.OpenAI], T]) -> T:
        """Call the server; errors are converted outside of ``except``, because the SDK's contain the key."""
        import openai

        login = self._key.header()
        headers = {"Authorization": login or "Bearer none"}
        options: Any = {"api_key": "see-header", "base_url": self._address.url, "max_retries": 2}
        options["http_client"] = openai.DefaultHttpxClient(follow_redirects=False)  # prompts go to this address only
        with openai.OpenAI(**options, default_headers=headers) as client:
            try:
                return ask(client)
            except openai.APIStatusError as error:
                message, status = self._key.hide(message_of(error.response.text)), error.status_code
            except openai.OpenAIError as error:
                message, status = str(of_connection(error, self._address.url)), None
        shown = f"HTTP {status}: {message}" if status else message
        raise ServerError(f"the server rejected the batch ({shown}); check key, model and address", status=status)


def _upload(client: openai.OpenAI, name: str, content: bytes) -> str:
    return client.files.create(file=(name, content), purpose="batch").id


def _start(client: openai.OpenAI, upload: str, content: bytes) -> str:
    endpoint, once = json.loads(content.partition(b"\n")[0])["url"], client.with_options(max_retries=0)
    return once.batches.create(input_file_id=upload, endpoint=endpoint, completion_window="24h").id
