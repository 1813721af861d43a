"""Estimate a judge's biases from recorded judgements, or list which can be estimated."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
