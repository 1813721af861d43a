"""Recorded judgements: readers for their formats, their audit, and a judge that replays them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
