"""A study at a call, and of its estimates the one row that a test is about."""

import biaslab as bl


def run(probe, judge, data, metrics=None):
    """Collect a probe's trials and estimate from them."""
    return probe.estimate(bl.collect(probe, judge, data, progress=False), metrics)


def row_of(estimates, metric, **cell):
    """Return the only row of a metric with these values of the condition columns; None stands for NaN."""
    rows = estimates[estimates["metric"] == metric]
    for column, wanted in cell.items():
        rows = rows[rows[column].isna() if wanted is None else rows[column] == wanted]
    assert len(rows) == 1, f"{len(rows)} rows of {metric} with {cell}"
    return rows.iloc[0]
