"""Recorded judgements: readers for their formats, their audit, and a judge that replays them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={"exported": ["ExportedJudge"], "readers": ["read_judgements"], "recorded": ["RecordedJudge"]},
)
