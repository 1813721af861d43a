from .annotation import (
    Aspect as Aspect,
    Reward as Reward,
    Stars as Stars,
    annotate as annotate,
    aspects_of as aspects_of,
    examples as examples,
    find_aspect as find_aspect,
)
from .ensembles import (
    EvaluatorJudge as EvaluatorJudge,
    Evaluators as Evaluators,
    WeightedEvaluators as WeightedEvaluators,
    load_evaluators as load_evaluators,
)
from .evaluator import Evaluator as Evaluator, features as features, load_evaluator as load_evaluator
from .inheritance import bias_inheritance as bias_inheritance
from .policy import Policy as Policy, load_policy as load_policy
from .reinforcement import MinimumRisk as MinimumRisk, reinforce as reinforce
from .reranking import evaluate as evaluate, rerank as rerank, tune_weights as tune_weights
from .sampling import collect_samples as collect_samples
from .settings import Settings as Settings
from .text_measures import (
    add_overshoot as add_overshoot,
    best_of_n as best_of_n,
    compare_texts as compare_texts,
    measure_texts as measure_texts,
    most_changed as most_changed,
    reward_slopes as reward_slopes,
    unigram_log_perplexity as unigram_log_perplexity,
)
from .training import (
    cross_fit as cross_fit,
    learning_curve as learning_curve,
    rated_by as rated_by,
    ratings as ratings,
    scores_of as scores_of,
    students as students,
    train as train,
)
