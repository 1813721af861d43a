"""Show the judgements behind a number: prompts, replies and human scores, as cards or as a page."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
