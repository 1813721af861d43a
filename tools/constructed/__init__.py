"""Scripts that build the constructed data sets that biaslab bundles; no wheel has them."""
