"""Base classes of probes, with their shared tools: cells, parts of estimates, kinds of recorded judgements."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
