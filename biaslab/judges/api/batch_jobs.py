"""Submit batches to OpenAI's servers, check their status and fetch results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from biaslab.core.errors import InputError, ServerError
from biaslab.judges.api.credentials import Address, Key
from biaslab.judges.api.faults import message_of, of_connection
from biaslab.judges.batch_api import read_keys, write_whole

if TYPE_CHECKING:
    import openai

T = TypeVar("T")
_DEAD = frozenset({"failed", "expired", "cancelled"})


class Job(NamedTuple):
    """One submitted file: name, content, batch, progress and result files."""

    file: str
    digest: str
    batch: str
    status: str = "submitted"
    done: int = 0
    total: int = 0
    results: tuple[str, ...] = ()


class BatchJobs:
    """The batches of one export.

    Parameters
    ----------
    path : Path
        Path passed to `biaslab.judges.batch_api.export_batch`.
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
        self._key = Key(api_key, self._address)

    def submit(self) -> list[Job]:
        """Upload each file that has not been submitted and start its batch; return the new ones.

        A file is submitted only once, because running and finished batches are billed. Each batch is recorded as soon
        as it exists.

        Raises
        ------
        ServerError
            If the server refuses; batches started before are recorded.
        """
        jobs = self.jobs()
        taken = {job.digest for job in jobs if job.status not in _DEAD or job.done}
        new = []
        for file in self._files:
            content = file.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            if digest not in taken:
                jobs.append(Job(file.name, digest, self._call(lambda c, f=file, b=content: _start(c, f.name, b))))  # type: ignore[misc]
                new.append(jobs[-1])
                self._note(jobs)
        return new

    def update(self) -> list[Job]:
        """Query the progress of the batches, and save it."""
        jobs = [self._look(job) for job in self.jobs()]
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


def _start(client: openai.OpenAI, name: str, content: bytes) -> str:
    endpoint = json.loads(content.partition(b"\n")[0])["url"]
    uploaded = client.files.create(file=(name, content), purpose="batch")
    return client.batches.create(input_file_id=uploaded.id, endpoint=endpoint, completion_window="24h").id
