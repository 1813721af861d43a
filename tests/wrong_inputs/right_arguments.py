"""Arguments that are right, for every public function: by the name of the parameter, else by function and parameter."""

import numpy as np
from own_arguments import OWN
from small_world import value
from statistics_arguments import CROSSED, OF_STATISTICS, PAIR

import biaslab as bl
from biaslab.core.scales import find_scale

#: What cannot be called cheaply, and why. A name stands for the class and its methods.
LEFT_OUT = {
    "FunctionJudge": "calls a function of the user's own; its own tests try what that takes and returns",
    "Protocol": "its own tests try twenty wrong ones",
    "LocalJudge": "loads a language model; its own tests call it with one",
    "MeanOverThoughts": "needs a judge that thinks; its own tests call it with one",
    "RayJudge": "starts Ray",
    "stats.ThoughtVariance": "a result, which `stats.thought_variance` makes",
    "RewardJudge": "loads a reward model; its own tests call it with one",
    "ApiJudge.ask": "needs a server",
    "ApiJudge.packs": "needs a server",
    "distill.Evaluator": "needs a trained encoder",
    "distill.Evaluators": "needs trained encoders",
    "distill.EvaluatorJudge": "needs a trained encoder",
    "distill.WeightedEvaluators": "needs trained encoders",
    "distill.Policy": "needs a model that writes",
    "distill.collect_samples": "needs a model that writes",
    "distill.cross_fit": "trains encoders",
    "distill.train": "trains an encoder",
    "distill.students": "trains encoders",
    "distill.learning_curve": "trains encoders",
    "distill.reinforce": "trains a model that writes",
    "distill.evaluate": "needs trained encoders",
    "distill.rerank": "needs trained encoders",
    "distill.tune_weights": "needs trained encoders",
    "distill.load_evaluator": "needs a trained encoder",
    "distill.load_evaluators": "needs trained encoders",
    "distill.load_policy": "loads a model that writes",
    "distill.features": "needs torch",
    "scoring.load_encoder": "loads a model",
    "scoring.bert_scores": "loads a model",
    "scoring.Encoder": "needs a model",
    "atlas.Contribution": "made by atlas.add alone",
    "atlas.add": "estimates a log; its own tests try what it refuses",
    "atlas.check": "estimates what atlas.add wrote again; its own tests try damaged files",
    "atlas.contributions": "reads what atlas.add wrote; its own tests try damaged files",
    "atlas.Explorer": "made by atlas.explorer alone",
    "atlas.ReplicationPage": "made by atlas.replication_page alone",
    "report.Card": "made by report.card alone",
    "Screen": "a result, which `screen` makes",
    "plots.styled": "a decorator: it returns whatever it is given",
    "edits.edit": "a decorator, which fails where it is used",
    "probes.Probe": "abstract; every probe is walked",
    "scoring.Scorer": "abstract; every scorer is walked",
    "enter_project": "changes the folder of the process",
}


#: By the name of the parameter.
GIVEN = {
    "dataset": lambda w: w.data,
    "judge": lambda w: w.judge,
    "probe": lambda w: w.probe,
    "trials": lambda w: w.trials,
    "estimates": lambda w: w.estimates,
    "comparisons": lambda w: w.comparisons,
    "scores": lambda w: w.scores,
    "resampling": lambda w: w.resampling,
    "trial": lambda w: w.planned[0],
    "reply": lambda w: w.reply,
    "request": lambda w: w.planned[0].request,
    "requests": lambda w: [each.request for each in w.planned[:2]],
    "refused": lambda w: w.planned[0].request,
    "asked": lambda w: w.planned[:2],
    "text": value("It rained."),
    "texts": value(["It rained.", "It poured."]),
    "name": value("coherence"),
    "attribute": value("coherence"),
    "attributes": value(["coherence"]),
    "source": value("Rain fell."),
    "edit": lambda w: bl.edits.find_edit("authority"),
    "context": value(["a", "a", "b", "c"]),
    "frame": lambda w: w.many,
    "first": value("one"),
    "second": value("two"),
    "x": value("one"),
    "y": value("human"),
    "method": value("spearman"),
    "path": lambda w: w.path(".csv"),
    "folder": lambda w: w.path(),
    "strategy": value("random"),
    "candidates": value(5),
    "n": value(3),
    "rng": lambda w: np.random.default_rng(0),
    "p_values": value([0.01, 0.2]),
    "contexts": value(12),
    "error": value(0.1),
    "effect": value(0.3),
    "levels": value([1.0, 2.0, 3.0]),
    "level": value(0.95),
    "template": value(1),
    "keys": value(["key"]),
    "axes": lambda w: w.axes(),
    "ax": lambda w: w.axes(),
    "study": value("position"),
    "what": value("what is estimated"),
    "wanted": value(["metric"]),
    "known": value(["metric"]),
    "members": lambda w: [w.trials, w.trials.assign(judge="another")],
    "metric": value("first_position_rate"),
    "metrics": value(["first_position_rate"]),
    "quality": value("left"),
    "debiasing": value("threshold"),
    "condition": value("kind"),
    "task": value("summarization"),
    "aspect": value("coherence"),
    "scale": lambda w: find_scale("1-5"),
    "item": lambda w: w.item(),
    "statistic": lambda w: lambda weights: weights @ np.arange(12.0) / weights.sum(axis=-1),
    "names": value([f"c{i}" for i in range(12)]),
    "tell": value(print),
    "value": value(0.5),
    "null": value(0.0),
    "p": lambda w: w.comparisons.p,
    "human": lambda w: w.data.human,
    "low": value(0.1),
    "high": value(0.2),
    "label": value("label"),
    "parameters": value({"seed": 1}),
    "judge_id": value("judge"),
    "template_id": value("1"),
    "model": value("gpt-4o-mini"),
    "column": value("template"),
    "cell": value({"judge": "j"}),
    "context_id": value("c1"),
    "candidate_id": value("a"),
    "labels": value(["A", "B"]),
    "messages": value("Is it good?"),
    "role": value("user"),
    "content": value("Is it good?"),
}


def instance(world, path, kind):
    """Return an object whose method is called."""
    name = path.rsplit(".", 1)[0]
    made = {
        "ApiJudge": lambda: bl.ApiJudge("m", "http://localhost:1/v1"),
        "Budget": lambda: bl.Budget(requests=3),
        "Dataset": lambda: world.data,
        "Panel": lambda: bl.Panel([world.judge, bl.SimulatedJudge(world.data, noise=0.1)]),
        "RecordedJudge": lambda: bl.RecordedJudge(world.trials, world.data, partial=True),
        "Resampling": lambda: world.resampling,
        "Sampled": lambda: bl.Sampled(world.judge, 3),
        "Shown": lambda: bl.show(world.trials, dataset=world.data),
        "SimulatedJudge": lambda: world.judge,
        "Store": lambda: bl.Store(world.path(".sqlite")),
        "edits.Edit": lambda: bl.edits.find_edit("authority"),
        "ranking.Comparisons": lambda: world.comparisons,
        "ranking.Conditionals": lambda: bl.ranking.Conditionals(0.8, 0.2),
        "ranking.Reweighting": lambda: bl.ranking.Reweighting(0.1),
        "report.Limit": lambda: bl.report.Limit(0.4, 0.6),
        "stats.Crossed": lambda: bl.stats.Crossed(CROSSED["context"](world), CROSSED["scores"](world)),
        "stats.Ratio": lambda: world.ratio,
    }
    if name in made:
        return made[name]()
    if name.startswith("probes."):
        return world.probe_of(kind.__name__)
    return kind()


def given(world, path, kind, parameter):
    """Return an argument that is right, made for one call; `KeyError` where none is known."""
    own = OWN.get(path) or OF_STATISTICS.get(path, {})
    if parameter.name in own:
        return own[parameter.name](world)
    if (
        path.startswith("probes.")
        and kind is not None
        and (made := of_probe(world, path, kind, parameter.name)) is not None
    ):
        return made
    if parameter.name in ("trial", "reply") and kind is not None and path.startswith(("scoring.", "distill.")):
        return _answered(world, kind)[parameter.name == "reply"]
    if parameter.default is not parameter.empty and parameter.name != "resampling":
        raise KeyError(parameter.name)
    return GIVEN[parameter.name](world)


def of_probe(world, path, kind, parameter):
    """Return an argument of a method of a probe, made with its own trials; None where that says nothing."""
    name = kind.__name__
    method = path.rsplit(".", 1)[1]
    if method == "accepts_recorded":
        return bl.read_judgements(world.trials_of(name))
    if parameter == "trials":
        return world.trials_of(name)
    if parameter == "cell":
        return world.cell_of(name)
    if parameter == "metrics":
        return list(kind.primary[:1])
    if method == "ask_pair" and parameter in PAIR:
        return PAIR[parameter](world)
    if parameter in ("trial", "reply"):
        trial = next(iter(world.probe_of(name).design(world.data)))
        return trial if parameter == "trial" else next(iter(world.judge.ask([trial.request])))[1]
    return None


def _answered(world, kind):
    design = kind(answer="text") if "answer" in kind.__dataclass_fields__ else kind()
    return next(iter(design.design(world.data))), bl.Reply(text="4")
