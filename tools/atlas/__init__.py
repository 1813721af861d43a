"""Build the atlas from raw files: rows and data cards, log-perplexities, estimates.

``biaslab atlas build FOLDER`` runs these in a checkout; each source of `biaslab.atlas.sources` has a reader here.
"""
