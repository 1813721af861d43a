"""Judgements that somebody already has: readers of their formats, their audit, and a judge that answers from them."""
